// From tokens back to text: the "decoder" of tokenizer.json, and SentencePiece's.
//
// A decoder is a list of steps on the text of each token alone, then on the text as a whole. Both
// can be done token by token, so decoding everything at once and streaming are the same code.
// Unlike the libraries it follows, it gives bytes as they are: tokens that are no UTF-8 together
// give the bytes that they stand for, never U+FFFD.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/allowance.h"
#include "core/tokenizer/stages/pattern.h"

namespace tenon::tok {

// One token on its way through the steps.
struct TokenText {
  std::string text;
  bool is_verbatim = false;  // text as it stood in the input, not a piece of the model
  bool is_first = false;     // of the tokens that are decoded
  bool is_final = false;     // no stage changes it
};

class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  // Leaves a token alone that costs more than `allowance` has. Any thread. Error: failed.
  virtual Status apply(TokenText& token, Allowance& allowance) const = 0;
  // Whether that can happen.
  virtual bool can_fail() const { return false; }
};
using DecodeStepPtr = std::unique_ptr<const DecodeStep>;

// The steps, named as in tokenizer.json.
DecodeStepPtr make_byte_level_decoder();
DecodeStepPtr make_byte_fallback();
DecodeStepPtr make_replace_decoder(Pattern pattern, std::string content);
DecodeStepPtr make_strip_decoder(std::string content, size_t start, size_t stop);
DecodeStepPtr make_metaspace_decoder(std::string replacement, bool drops_first);

struct Decoder {
  // What SentencePiece takes away at the front, where encoding put a space: from each token, as
  // long as no text has come yet, one leading "▁".
  enum class Leading { keep, drop_one, drop_until_text };

  struct Stage {
    DecodeStepPtr step;
    std::string name;
  };

  // Error messages begin with `name`.
  void add(DecodeStepPtr step, std::string name) {
    stages.push_back({std::move(step), std::move(name)});
  }
  // Whether there are tokens that the stages may fail on; see TokenizerParts::check_decoder.
  bool can_fail() const;
  // Through all stages. Error: failed, with the stage's name; `token` is then as it left the stage
  // before.
  Status apply(TokenText& token) const;

  std::vector<Stage> stages;
  std::string separator;  // between tokens
  // Of the whole text: up to this many `strip` characters at either end.
  char strip = ' ';
  size_t strip_start = 0;
  size_t strip_stop = 0;
  Leading leading = Leading::keep;
};

// Decodes one sequence. Not thread safe; the decoder outlives it.
class DecodeRun {
 public:
  explicit DecodeRun(const Decoder& decoder);

  // Appends to `out` what is certain after this token. What is held back at the end of a sequence
  // is what the decoder strips there.
  void push(TokenText token, std::string& out);

 private:
  void append(std::string_view text, std::string& out);

  const Decoder* decoder_;
  bool is_first_ = true;
  bool awaits_leading_;  // a leading "▁" is still to be dropped
  size_t may_strip_;     // characters at the start that still may go
  size_t held_ = 0;      // `strip` characters at the end so far that may have to go
};

}  // namespace tenon::tok
