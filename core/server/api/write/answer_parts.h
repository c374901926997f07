// An answer's text taken apart: what is said, what was thought before, which tools are called.
//
// This is the seam to the readers of model families' own spellings: who knows one hands a factory
// to the writers, and everything from there on (streaming, finish reasons, the shapes of each
// dialect) is here. Without one all of the text is content.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/server/api/call.h"

namespace tenon::api {

struct AnswerPart {
  enum class Kind : uint8_t {
    content,
    reasoning,
    tool_call,  // begins: `text` is its name; its arguments follow
    arguments,  // a fragment of the JSON text of the call that began last
  };
  Kind kind = Kind::content;
  std::string text;
  std::string id = {};  // of a call, where the model wrote one
};

class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  // Appends what is certain after one more piece of text; `tokens` are those that came with it,
  // and text may lag behind them.
  virtual void push(std::string_view text, std::span<const TokenId> tokens,
                    std::vector<AnswerPart>& out) = 0;
  // Appends what is left.
  virtual void finish(std::vector<AnswerPart>& out) = 0;
  // The tokens of reasoning so far. They come before all others.
  virtual uint32_t reasoning_tokens() const { return 0; }
};

// What an answer goes on from.
struct ReaderInput {
  const GenerationCall& call;
  std::string_view prompt_text;  // the rendered conversation
  std::span<const TokenId> prompt_ids;
  uint32_t sample = 0;
};
// One reader a sample. May be empty, and may return null.
using AnswerReaderFactory = std::function<std::unique_ptr<AnswerReader>(const ReaderInput&)>;

// All of it is content.
std::unique_ptr<AnswerReader> plain_reader();

}  // namespace tenon::api
