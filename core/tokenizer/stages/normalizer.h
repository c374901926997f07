// What happens to text before it is cut into words: the "normalizer" of tokenizer.json, and
// SentencePiece's normalization.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/allowance.h"
#include "core/tokenizer/stages/pattern.h"
#include "core/unicode/unicode.h"

namespace tenon::tok {

// Text on its way through the normalizer.
struct NormalizedText {
  std::string text;
  // False once characters at the front were removed: it does not start where the input does.
  bool keeps_front = true;
};

class NormalizeStep {
 public:
  virtual ~NormalizeStep() = default;
  // Text is structurally valid UTF-8 before and after. A step that can make more than four times as
  // much of a text asks `allowance` before. Any thread. Errors: as Allowance and Regex::find_all.
  virtual Status apply(NormalizedText& text, Allowance& allowance) const = 0;
  // Whether text leaves in the byte-level alphabet.
  virtual bool maps_bytes() const { return false; }
};
using NormalizeStepPtr = std::unique_ptr<const NormalizeStep>;

// The steps, named as in tokenizer.json.
NormalizeStepPtr make_prepend(std::string text);
NormalizeStepPtr make_replace(Pattern pattern, std::string content);
NormalizeStepPtr make_normal_form(NormalForm form);
NormalizeStepPtr make_lowercase();
NormalizeStepPtr make_strip(bool left, bool right);
NormalizeStepPtr make_strip_accents();
NormalizeStepPtr make_byte_level_normalizer();

class Normalizer {
 public:
  // Error messages begin with `name`.
  void add(NormalizeStepPtr step, std::string name) {
    stages_.push_back({std::move(step), std::move(name)});
  }
  size_t size() const { return stages_.size(); }
  // Errors: failed, where the text costs more than `allowance` has.
  Result<NormalizedText> apply(std::string_view text, Allowance& allowance) const;
  bool maps_bytes() const;

 private:
  struct Stage {
    NormalizeStepPtr step;
    std::string name;
  };
  Status apply(const Stage& stage, NormalizedText& text, Allowance& allowance) const;
  std::vector<Stage> stages_;
};

}  // namespace tenon::tok
