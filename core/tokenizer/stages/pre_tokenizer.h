// How text is cut into words before the model sees it: the "pre_tokenizer" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tokenizer/allowance.h"
#include "core/tokenizer/stages/pattern.h"

namespace tenon::tok {

// A word: bytes [begin, end) of the text, never empty.
struct Piece {
  size_t begin;
  size_t end;
  bool starts_input;  // nothing of the input lies before it
};

// A text and the words it is cut into, in order. Steps refine the words or rewrite the text.
struct Pieces {
  std::string text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenStep {
 public:
  virtual ~PreTokenStep() = default;
  // Makes no more than eight times as much of a text. Any thread. Errors: as Regex::find_all.
  virtual Status apply(Pieces& pieces, Allowance& allowance) const = 0;
  // Whether text leaves in the byte-level alphabet.
  virtual bool maps_bytes() const { return false; }
};
using PreTokenStepPtr = std::unique_ptr<const PreTokenStep>;

enum class PrependScheme { first, never, always };

// The steps, named as in tokenizer.json.
PreTokenStepPtr make_split(Pattern pattern, SplitBehavior behavior, bool invert);
Result<PreTokenStepPtr> make_byte_level(bool add_prefix_space, bool use_regex);
PreTokenStepPtr make_metaspace(std::string replacement, PrependScheme scheme, bool split);
PreTokenStepPtr make_whitespace();
PreTokenStepPtr make_fixed_length(size_t characters);

class PreTokenizer {
 public:
  // Error messages begin with `name`.
  void add(PreTokenStepPtr step, std::string name) {
    stages_.push_back({std::move(step), std::move(name)});
  }
  size_t size() const { return stages_.size(); }
  // `text` as one word (none when empty), then through all steps. Error: failed, where the text
  // costs more than `allowance` has.
  Result<Pieces> apply(std::string text, bool starts_input, Allowance& allowance) const;
  bool maps_bytes() const;

 private:
  struct Stage {
    PreTokenStepPtr step;
    std::string name;
  };
  Status apply(const Stage& stage, Pieces& pieces, Allowance& allowance) const;
  std::vector<Stage> stages_;
};

}  // namespace tenon::tok
