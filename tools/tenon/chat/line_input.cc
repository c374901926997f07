#include "tools/tenon/chat/line_input.h"

#include <sys/poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"

#ifdef TENON_HAS_LIBEDIT
#include <editline/readline.h>
#endif

namespace tenon {
namespace {

constexpr size_t kMostLineBytes = size_t{16} << 20;

bool terminal_is_plain() {
  const char* kind = std::getenv("TERM");
  return kind == nullptr || *kind == '\0' || std::strcmp(kind, "dumb") == 0;
}

#ifdef TENON_HAS_LIBEDIT
// libedit hands a line to a function without an argument of its own.
struct EditedLine {
  bool is_there = false;
  std::optional<std::string> text;  // absent: the end of the input
};
EditedLine& edited_line() {
  static EditedLine instance;
  return instance;
}

void take_line(char* line) {
  EditedLine& edited = edited_line();
  edited.is_there = true;
  edited.text.reset();
  if (line != nullptr) edited.text = line;
  std::free(line);
}
#endif

// Waits a moment for it: an interrupt that came before the wait began would not end a longer one.
bool has_input() {
  constexpr int kMoment = 50;  // milliseconds
  pollfd ready{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, kMoment) > 0;
}

}  // namespace

bool LineInput::can_edit() {
#ifdef TENON_HAS_LIBEDIT
  return true;
#else
  return false;
#endif
}

LineInput::LineInput() : shows_prompt_(stdin_is_terminal()) {
  edits_ = can_edit() && shows_prompt_ && stdout_is_terminal() && !terminal_is_plain();
#ifdef TENON_HAS_LIBEDIT
  if (!edits_) return;
  // Characters of more than one byte are one place of the line.
  std::setlocale(LC_CTYPE, "");
  using_history();
  stifle_history(1000);
#endif
}

LineInput::~LineInput() = default;

Result<LineEnd> LineInput::read(const std::string& prompt, std::string& line) {
  if (edits_) return read_edited(prompt, line);
  if (shows_prompt_) {
    put(prompt);
    flush_output();
  }
  return read_plain(line);
}

Result<LineEnd> LineInput::read_plain(std::string& line) {
  size_t searched = 0;
  for (;;) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (at_end_ && !buffer_.empty())) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return LineEnd::line;
    }
    if (at_end_) return LineEnd::end;
    searched = buffer_.size();
    if (searched > kMostLineBytes) {
      return invalid_argument("a line of standard input has more than 16 MiB – expected a turn");
    }
    if (has_input()) {
      char piece[4096];
      const ssize_t count = ::read(STDIN_FILENO, piece, sizeof(piece));
      if (count > 0) {
        buffer_.append(piece, static_cast<size_t>(count));
      } else if (count == 0) {
        at_end_ = true;
      } else if (errno != EINTR && errno != EAGAIN) {
        return failed("standard input could not be read: " + std::string(std::strerror(errno)));
      }
    }
    if (KeptInterrupts::take()) {
      buffer_.clear();
      return LineEnd::interrupted;
    }
  }
}

LineEnd LineInput::read_edited([[maybe_unused]] const std::string& prompt,
                               [[maybe_unused]] std::string& line) {
#ifdef TENON_HAS_LIBEDIT
  edited_line() = {};
  rl_callback_handler_install(prompt.c_str(), &take_line);
  bool is_interrupted = false;
  while (!edited_line().is_there && !is_interrupted) {
    if (has_input()) rl_callback_read_char();
    is_interrupted = KeptInterrupts::take();
  }
  rl_callback_handler_remove();
  if (is_interrupted) return LineEnd::interrupted;
  if (!edited_line().text) return LineEnd::end;
  line = *edited_line().text;
  if (!line.empty()) add_history(line.c_str());
  return LineEnd::line;
#else
  return LineEnd::end;
#endif
}

}  // namespace tenon
