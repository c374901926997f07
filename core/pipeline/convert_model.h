// Writes a model with its tokenizer as one GGUF file, in another type where that is asked for.
#pragma once

#include <string>
#include <vector>

#include "core/model/convert/convert.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {

// "" is null: each matrix keeps its type. Errors: invalid_argument naming `flag`, where nothing
// writes such a type.
Result<const TensorType*> writable_type(const std::string& flag, const std::string& name);

// Whether the model at `path` has a tokenizer. A model without one stays one; a tokenizer that
// cannot be read is no reason to lose it, and an error.
Result<bool> has_tokenizer(const std::string& path);

// The tokens that end a text, those first that need one of the three keys of a GGUF file: the
// tokenizer's own, which templates show; what every reader knows by its name is left out where the
// keys do not suffice.
std::vector<TokenId> ends_for_file(const Model& model, const Tokenizer* tokenizer);

struct ConvertedFile {
  std::vector<std::string> files;
  std::vector<std::string> kept;  // names of matrices that kept their type
  std::string note;               // where other programs will not read the file as it is; or ""
};

// The model that was opened from `in` as a GGUF file `out`, with its tokenizer where it has one.
// Errors: `out` is there already.
Result<ConvertedFile> convert_to_file(const Model& model, const std::string& in,
                                      const std::string& out, bool tokenizer,
                                      const ConvertOptions& options);

}  // namespace tenon
