#include "tools/tenon/chat/talk.h"

#include <optional>

#include "core/base/text.h"
#include "tools/tenon/chat/line_input.h"
#include "tools/tenon/chat/slash.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {
namespace {

enum class Turn : uint8_t { done, failed, quits };

class Talk {
 public:
  explicit Talk(ChatSession& session) : session_(session) {}

  Result<int> run() {
    const bool is_typed = stdin_is_terminal();
    // In a script, a signal ends the program as it ends every other command.
    std::optional<KeptInterrupts> kept;
    if (is_typed) kept.emplace();
    bool asked_to_end = false;
    for (;;) {
      std::string line;
      TENON_ASSIGN_OR_RETURN(const LineEnd end, read_turn(line));
      if (end == LineEnd::end) break;
      if (end == LineEnd::interrupted) {
        put("\n");
        flush_output();
        if (std::exchange(asked_to_end, true)) break;
        say("(Ctrl-C again, Ctrl-D or /quit ends)");
        continue;
      }
      asked_to_end = false;
      const Turn turn = take(line);
      if (turn == Turn::quits) break;
      if (turn == Turn::failed && !is_typed) return 1;
      if (output_lost()) break;
    }
    if (is_typed) put("\n");
    return 0;
  }

 private:
  // A line that ends in "\" goes on in the next.
  Result<LineEnd> read_turn(std::string& turn) {
    for (const char* prompt = "> ";; prompt = "… ") {
      std::string line;
      TENON_ASSIGN_OR_RETURN(const LineEnd end, input_.read(prompt, line));
      if (end == LineEnd::interrupted) return end;
      if (end == LineEnd::end) return turn.empty() ? end : LineEnd::line;
      const bool goes_on = line.ends_with('\\');
      if (goes_on) line.back() = '\n';
      turn += line;
      if (!goes_on) return end;
    }
  }

  Turn take(std::string_view line) {
    if (trim(line).empty()) return Turn::done;
    if (line.starts_with('/') && !line.starts_with("//")) return take_slash(line);
    if (line.starts_with('/')) line.remove_prefix(1);
    session_.history().add_user(std::string(line));
    const Turn turn = answer();
    // What was not answered was not said.
    if (turn == Turn::failed) session_.history().undo();
    return turn;
  }

  Turn take_slash(std::string_view line) {
    const Result<SlashDoes> does = run_slash(trim(line), session_);
    if (!does.ok()) return report(does.status());
    if (*does == SlashDoes::quits) return Turn::quits;
    return *does == SlashDoes::answers ? answer() : Turn::done;
  }

  Turn answer() {
    const Status status = session_.answer(screen_);
    if (const size_t dropped = session_.take_dropped(); dropped > 0) {
      say("(the context was full: the oldest " + std::to_string(dropped) + " messages are gone)");
    }
    if (!status.ok()) return report(status);
    const FinishReason reason = session_.figures()->reason;
    const bool is_full = session_.context_used() >= session_.context_limit();
    if (reason == FinishReason::cancelled) say("(stopped)");
    if (reason == FinishReason::length) {
      say(is_full ? "(the context is full – /undo, /reset, or start with --drop-oldest)"
                  : "(cut off at max_tokens – /set max_tokens=N allows more)");
    }
    if (const size_t calls = session_.history().open_calls(); calls > 0) {
      say("(" + std::to_string(calls) + " calls wait for a result – /tool RESULT)");
    }
    return Turn::done;
  }

  Turn report(const Status& status) {
    report_failure(status);
    return Turn::failed;
  }

  ChatSession& session_;
  ChatScreen screen_;
  LineInput input_;
};

}  // namespace

Result<int> talk(const ChatFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<ChatSession> session, ChatSession::open(flags));
  if (stdin_is_terminal()) {
    say("context " + std::to_string(session->context_limit()) + " tokens; /help lists commands");
  }
  return Talk(*session).run();
}

}  // namespace tenon
