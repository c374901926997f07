// The markers of each format.
#pragma once

#include <memory>
#include <string_view>

#include "core/chat/answers/answer_format.h"
#include "core/chat/answers/marker_scanner.h"
#include "core/chat/calls/call_reader.h"

namespace tenon::chat {

struct CallSyntax {
  MarkerTexts preludes;    // may come before the first call
  MarkerTexts opens;       // begin a call
  MarkerTexts within;      // of the calls' own readers
  MarkerTexts closes;      // come after one
  bool unmarked = false;   // a call may begin the answer, with "{" or "["
  bool repeats = false;    // "{" directly after a call begins another
  bool separated = false;  // ";" may stand in between
};
CallSyntax call_syntax(ToolCallFormat format);

struct ReasoningSyntax {
  MarkerTexts opens, closes;
  MarkerTexts ignored;          // around the content
  std::string_view label = {};  // what the model writes first in its reasoning
};
ReasoningSyntax reasoning_syntax(ReasoningFormat format);

// The markers of harmony, which stand around everything.
MarkerTexts harmony_markers();

// Reads a call that `open` begins; empty: one without a marker. `texts` are the markers `within`
// that are known by their text.
std::unique_ptr<CallReader> read_call(ToolCallFormat format, std::string_view open,
                                      const Tools& tools, const MarkerTexts& texts);

}  // namespace tenon::chat
