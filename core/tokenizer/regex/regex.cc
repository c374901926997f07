#include "core/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/quote.h"
#include "core/tokenizer/regex/regex_syntax.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

constexpr size_t kLongestPatternBytes = size_t{64} << 10;
// What the matcher may decide at every position without paying for it. Where that is not enough, it
// gets more at that position alone: a run of whitespace may be walked back a character at a time.
constexpr uint32_t kFreeSteps = 64;
constexpr uint32_t kMoreSteps = 16;  // times as many, each time it was not enough
constexpr uint32_t kHeapLimitKib = 64 << 10;

template <auto free_function>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    free_function(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>>;

std::string error_text(int code) {
  if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_CALLOUT) {
    return "it takes more steps than a text of this size may cost";
  }
  PCRE2_UCHAR buffer[256];
  return pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0
             ? "error " + std::to_string(code)
             : std::string(reinterpret_cast<const char*>(buffer));
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

// What matching needs besides the pattern. Only the ends of the whole match are wanted, so one
// pair serves every pattern.
struct Workspace {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};
};

}  // namespace

struct Regex::Compiled {
  Code code;
};

Regex::Regex(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view oniguruma_pattern) {
  if (oniguruma_pattern.size() > kLongestPatternBytes) {
    return unsupported("a regular expression of " + std::to_string(oniguruma_pattern.size()) +
                       " bytes: at most " + std::to_string(kLongestPatternBytes) +
                       " are supported");
  }
  TENON_ASSIGN_OR_RETURN(const std::string pattern, translate_oniguruma(oniguruma_pattern));
  const CompileContext settings(pcre2_compile_context_create(nullptr));
  auto compiled = std::make_unique<Compiled>();
  if (!settings) return out_of_memory("no memory for a regular expression");
  pcre2_set_newline(settings.get(), PCRE2_NEWLINE_LF);

  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
  int error = 0;
  size_t where = 0;
  compiled->code.reset(
      pcre2_compile(units(pattern), pattern.size(), kOptions, &error, &where, settings.get()));
  if (!compiled->code) {
    return invalid_argument("regular expression " + in_quotes(oniguruma_pattern) + ": " +
                            error_text(error));
  }
  // Where the JIT is not available the interpreter gives the same matches.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

// Finds the matches in one text. The pattern calls back where a match starts and around what it
// repeats (regex_syntax.h); the characters walked there are what `allowance` pays for, since the
// matcher's own limit counts decisions, however far each of them looks.
class Regex::Search {
 public:
  Search(const pcre2_code* code, Workspace& workspace, std::string_view text, Allowance& allowance)
      : code_(code), workspace_(workspace), text_(text), allowance_(allowance) {
    pcre2_set_heap_limit(workspace.context.get(), kHeapLimitKib);
    pcre2_set_callout(workspace.context.get(), on_callout, this);
  }

  // PCRE2's result of looking for a match at or after `from`.
  int next(size_t from) {
    uint32_t limit = kFreeSteps;
    from_ = from;
    only_ = kAnywhere;
    for (size_t at = from;;) {
      const int result = match(at, limit);
      if (result == PCRE2_ERROR_MATCHLIMIT) {
        at = only_ = start_;
        if (limit > std::numeric_limits<uint32_t>::max() / kMoreSteps) return result;
        limit *= kMoreSteps;
        if (!allowance_.take_steps(limit)) return result;
      } else if (result == PCRE2_ERROR_NOMATCH && only_ < text_.size()) {
        at = only_ + rune_bytes(text_[only_]);
        only_ = kAnywhere;
        limit = kFreeSteps;
      } else {
        return result;
      }
    }
  }

 private:
  static constexpr size_t kAnywhere = std::numeric_limits<size_t>::max();

  int match(size_t from, uint32_t limit) {
    pcre2_set_match_limit(workspace_.context.get(), limit);
    const auto run = [&](uint32_t options) {
      return pcre2_match(code_, units(text_), text_.size(), from, options, workspace_.data.get(),
                         workspace_.context.get());
    };
    const int result = run(PCRE2_NO_UTF_CHECK);
    return result == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT) : result;
  }

  static int on_callout(pcre2_callout_block* block, void* search) {
    return static_cast<Search*>(search)->called_out(*block);
  }

  // 0 goes on, 1 gives up this way, an error ends the search.
  int called_out(const pcre2_callout_block& block) {
    const size_t at = block.current_position;
    switch (static_cast<Callout>(block.callout_number)) {
      case Callout::match_starts:
        start_ = block.start_match;
        if (start_ > only_) return PCRE2_ERROR_NOMATCH;
        return take(1);
      case Callout::search_start:
        return at == from_ ? 0 : 1;
      case Callout::before_repeat:
        repeat_ = at;
        return 0;
      case Callout::after_repeat: {
        const size_t walked = std::max(at, repeat_) - std::min(at, repeat_);
        repeat_ = at;
        return take(1 + walked);
      }
    }
    return 0;
  }
  int take(size_t steps) { return allowance_.take_steps(steps) ? 0 : PCRE2_ERROR_CALLOUT; }

  const pcre2_code* code_;
  Workspace& workspace_;
  std::string_view text_;
  Allowance& allowance_;
  size_t from_ = 0;          // where the search starts
  size_t start_ = 0;         // where the match that is tried starts
  size_t only_ = kAnywhere;  // matches that start after it are not wanted
  size_t repeat_ = 0;        // where the repeat that is tried starts, or was last seen to end
};

Status Regex::find_all(std::string_view text, Allowance& allowance,
                       std::vector<Span>& matches) const {
  thread_local Workspace workspace;
  if (!workspace.data || !workspace.context) {
    return out_of_memory("no memory to match a regular expression");
  }
  Search search(compiled_->code.get(), workspace, text, allowance);
  const size_t* ends = pcre2_get_ovector_pointer(workspace.data.get());
  size_t from = 0;
  size_t last_end = text.size() + 1;  // no match yet
  while (from <= text.size()) {
    const int result = search.next(from);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return failed("matching a regular expression of the tokenizer stopped at byte " +
                    std::to_string(from) + " of the text: " + error_text(result));
    }
    const Span span{ends[0], ends[1]};
    if (span.begin == span.end && span.end == last_end) {
      if (from >= text.size()) break;
      from += rune_bytes(text[from]);
      continue;
    }
    matches.push_back(span);
    from = last_end = span.end;
  }
  return Status();
}

}  // namespace tenon::tok
