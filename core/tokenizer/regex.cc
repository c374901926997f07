#include "core/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/quote.h"
#include "core/tokenizer/regex_syntax.h"
#include "core/tokenizer/utf8.h"

namespace tenon::tok {
namespace {

constexpr size_t kLongestPatternBytes = size_t{64} << 10;
// Steps of the matcher for one start position. A run of whitespace may be walked back a character
// at a time, so the limit grows with the text; exponential backtracking meets it in an instant.
constexpr uint32_t kFewestSteps = 1'000'000;
constexpr size_t kStepsPerByte = 8;
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

  bool prepare(size_t text_bytes) {
    if (!data || !context) return false;
    const size_t steps = std::min<size_t>(kFewestSteps + kStepsPerByte * text_bytes,
                                          std::numeric_limits<uint32_t>::max());
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(steps));
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    return true;
  }
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

Status Regex::find_all(std::string_view text, std::vector<Span>& matches) const {
  thread_local Workspace workspace;
  if (!workspace.prepare(text.size())) {
    return out_of_memory("no memory to match a regular expression");
  }
  const size_t* ends = pcre2_get_ovector_pointer(workspace.data.get());
  size_t from = 0;
  size_t last_end = text.size() + 1;  // no match yet
  while (from <= text.size()) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(compiled_->code.get(), units(text), text.size(), from, options,
                         workspace.data.get(), workspace.context.get());
    };
    int result = match(PCRE2_NO_UTF_CHECK);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
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
