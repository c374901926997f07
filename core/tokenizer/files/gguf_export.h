// Tokenizers from model folders into GGUF files and back.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/files/gguf_metadata.h"

namespace tenon {

// Adds the tokenizer of a folder (or of another GGUF file) as `tokenizer.*` keys, for a model whose
// vocabulary has `vocabulary` rows: tokens that the tokenizer lacks are filled in as unused ones.
// `tokenizer.ggml.*` is what other programs read; where the source is a tokenizer.json it goes
// whole into `tokenizer.huggingface.json`, which this program prefers, so that nothing is lost.
// The end of a text is added when `with_eos`. Returns a sentence for the user where other programs
// will not read the tokenizer as it is, else nothing. Errors: not_found (no tokenizer), unsupported
// (one that the keys cannot say).
Result<std::string> add_gguf_tokenizer(const std::string& source, uint32_t vocabulary,
                                       bool with_eos, GgufMetadata& out);

// Writes the tokenizer of a GGUF file into a folder: tokenizer.json where the file holds one or is
// byte-level BPE, else tokenizer.model; with tokenizer_config.json. Errors as above.
Status write_tokenizer_folder(const std::string& gguf_path, const std::string& folder);

}  // namespace tenon
