#include "tools/tenon/conversion.h"

#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/model/gguf_checkpoint.h"
#include "core/tokenizer/gguf_export.h"
#include "core/tokenizer/tokenizer.h"

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
  const bool with_eos = model.plan.eos.empty() && model.generation.eos.empty();
  if (tokenizer) {
    TENON_ASSIGN_OR_RETURN(made.note,
                           add_gguf_tokenizer(in, model.plan.vocabulary, with_eos, metadata));
  } else {
    metadata.add_text("tokenizer.ggml.model", "no_vocab");  // other programs insist on the key
  }
  TENON_ASSIGN_OR_RETURN(made.kept, write_gguf_model(model, out, metadata, options));
  return made;
}

}  // namespace tenon
