#include "core/pipeline/convert_model.h"

#include <algorithm>

#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/checkpoint/gguf_ends.h"
#include "core/pipeline/text_ends.h"
#include "core/tokenizer/files/gguf_export.h"

namespace tenon {

Result<const TensorType*> writable_type(const std::string& flag, const std::string& name) {
  if (name.empty()) return static_cast<const TensorType*>(nullptr);
  for (const char* known : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
    if (name == known) return find_tensor_type(std::string_view(name));
  }
  return invalid_argument(flag + ": " + in_quotes(name) +
                          " cannot be written; expected f32, f16, bf16, q8_0 or q4_0");
}

Result<bool> has_tokenizer(const std::string& path) {
  const auto tokenizer = Tokenizer::load(path);
  if (tokenizer.ok()) return true;
  if (tokenizer.status().code() == StatusCode::not_found) return false;
  return copy(tokenizer.status());
}

Result<ConvertedFile> convert_to_file(const Model& model, const std::string& in,
                                      const std::string& out, bool tokenizer,
                                      const ConvertOptions& options) {
  if (is_there(out)) {
    return invalid_argument(path_in_quotes(out) +
                            " is already there; choose another name, or remove it first");
  }
  GgufMetadata metadata;
  ConvertedFile made;
  ConvertOptions own = options;
  if (tokenizer) {
    TENON_ASSIGN_OR_RETURN(const auto opened, Tokenizer::load(in));
    own.ends = ends_for_file(model, opened.get());
    TENON_ASSIGN_OR_RETURN(
        made.note, add_gguf_tokenizer(in, model.plan.vocabulary, own.ends.empty(), metadata));
  } else {
    metadata.add_text("tokenizer.ggml.model", "no_vocab");  // other programs insist on the key
  }
  TENON_ASSIGN_OR_RETURN(WrittenGguf written, write_gguf_model(model, out, metadata, own));
  made.files = std::move(written.files);
  made.kept = std::move(written.kept);
  return made;
}

std::vector<TokenId> ends_for_file(const Model& model, const Tokenizer* tokenizer) {
  constexpr size_t kKeys = 3;
  std::vector<TokenId> ends = end_tokens(text_ends(model, tokenizer));
  if (tokenizer == nullptr) return ends;
  if (const auto own = tokenizer->eos()) {
    const auto found = std::ranges::find(ends, *own);
    if (found != ends.end()) std::rotate(ends.begin(), found, found + 1);
  }
  for (size_t i = ends.size(); i-- > 1 && ends.size() > kKeys;) {
    if (is_named_end(tokenizer->piece(ends[i])))
      ends.erase(ends.begin() + static_cast<ptrdiff_t>(i));
  }
  return ends;
}

}  // namespace tenon
