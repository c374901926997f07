#include "core/pipeline/text_ends.h"

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {

std::vector<TextEnd> text_ends(const Model& model, const Tokenizer* tokenizer) {
  std::vector<TextEnd> ends = model.ends;
  for (const TextEnd& end : tokenizer != nullptr ? tokenizer->ends() : std::span<const TextEnd>()) {
    // A tokenizer may have more tokens than the model has rows; those are never generated.
    if (static_cast<uint32_t>(end.token) >= model.plan.vocabulary) continue;
    for (const std::string& named_by : end.named_by) add_text_end(ends, end.token, named_by);
  }
  if (!ends.empty()) return ends;
  for (const TokenId id : model.plan.eos) {
    add_text_end(ends, id, "the default of " + model.plan.architecture);
  }
  return ends;
}

std::string text_ends_text(const std::vector<TextEnd>& ends, const Tokenizer* tokenizer) {
  std::vector<std::string> texts;
  for (const TextEnd& end : ends) {
    std::string text = std::to_string(end.token);
    if (tokenizer != nullptr && !tokenizer->piece(end.token).empty()) {
      text += " " + in_quotes(tokenizer->piece(end.token), kMostValueBytes);
    }
    texts.push_back(text + " (" + join(end.named_by) + ")");
  }
  return texts.empty() ? "none" : join(texts, "; ");
}

}  // namespace tenon
