// What a GGUF file's metadata says of layers that are not a whole model's: those of heads.
#pragma once

#include "core/model/checkpoint/gguf_config.h"

namespace tenon {

struct Family;

// As gguf_model_config, of a file whose layers are a family's, whatever the file calls itself, and
// which may have no embedding: `vocabulary` is the number of tokens then; 0: it must have one.
Result<GgufConfig> gguf_layers_config(const GgufFile& file, const GgufBytes& bytes,
                                      std::string_view name, const Family& family,
                                      uint32_t vocabulary);

}  // namespace tenon
