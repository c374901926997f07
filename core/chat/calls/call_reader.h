// Readers of calls: each knows one way to write them, and takes over after the marker that begins
// one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/chat/answers/answer_output.h"
#include "core/chat/answers/marker_scanner.h"
#include "core/chat/calls/json_stream.h"
#include "core/chat/calls/tag_words.h"
#include "core/chat/calls/tool_types.h"

namespace tenon::chat {

enum class ReadStatus : uint8_t {
  more,         // the byte is part of the call
  done,         // the byte was its last one
  done_before,  // the call ended before the byte
  failed,       // this is no call, and the byte was not taken
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  virtual ReadStatus push(char c, AnswerOutput& out) = 0;
  // A special token that is one of the format's markers. `done_before`: the call ended before
  // it.
  virtual ReadStatus special(std::string_view, AnswerOutput&) { return ReadStatus::failed; }
  // The answer has ended. Whether that made a call whole.
  virtual bool end(AnswerOutput&) { return false; }
  // What was read beyond the call, once it has ended: it is read again as what stands after it.
  virtual std::string take_rest() { return {}; }
};

// {"name": …, "arguments": …}, or a list of such, under the keys that models use.
struct JsonCallStyle {
  bool fenced = false;           // "```json" may stand in front
  const Tools* known = nullptr;  // only these names are calls; null: any
};
std::unique_ptr<CallReader> read_json_call(const JsonCallStyle& style);

// A name, what separates it from the arguments, and these as a JSON object.
struct NamedCallStyle {
  std::string_view type_end;  // a type comes before the name, up to this
  std::string_view name_end;  // the arguments' bracket ends a name too
  std::string_view id_begin;  // may end the name: an id follows, up to `name_end`
  bool fenced = false;        // "```json" may come before the arguments
  bool or_json = false;       // where a bracket begins in place of a name: as read_json_call
  bool numbered = false;      // "functions.NAME:0" is a name, and the call's id
  MarkerTexts texts;          // of the markers above, those that are known by their text
};
std::unique_ptr<CallReader> read_named_call(const NamedCallStyle& style);

// The arguments alone, of a call whose name is known.
std::unique_ptr<CallReader> read_arguments(std::string_view name);

// A function between tags of these `words`. `opened`: `function_open` was read.
std::unique_ptr<CallReader> read_tagged_call(const TagWords& words, const Tools& tools,
                                             bool opened);

// Calls whose parameters are elements, with `mark` before every tag: MiniMax-M3's. Takes over after
// the first mark, and reads all calls of a <tool_call>. `is_text`: the mark is known by its text.
std::unique_ptr<CallReader> read_element_calls(std::string_view mark, const Tools& tools,
                                               bool is_text);

// call:NAME{KEY:VALUE,…} with texts between two `quote`: Gemma 4's. `is_text`: the quote is known
// by its text, and is no special token.
inline constexpr std::string_view kGemmaQuote = "<|\"|>";
std::unique_ptr<CallReader> read_gemma_call(bool is_text);

// name(key=value, …) as Python writes it, one or more, in brackets or a line each.
struct PythonCallStyle {
  bool in_brackets = false;      // must be
  bool may_print = false;        // print(…) around a call
  const Tools* known = nullptr;  // only these names are calls; null: any
};
std::unique_ptr<CallReader> read_python_calls(const PythonCallStyle& style);

// The beginning of an answer that may be a list of either kind.
std::unique_ptr<CallReader> read_unmarked_call(const Tools& known, bool allow_python);

// The longest name of a function, or type, that is read.
inline constexpr size_t kMostNameBytes = 256;

}  // namespace tenon::chat
