// Which tokens end a text of a GGUF file: docs/formats/gguf.md, "Ends of a text".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/text_end.h"
#include "core/model/checkpoint/gguf_fields.h"

namespace tenon {

// Whether a token of this text ends a text in every file that has it, keys or not.
bool is_named_end(std::string_view text);

// What the keys say, then what tokens are called. Ids beyond the vocabulary mean none: converters
// write the defaults of other models.
std::vector<TextEnd> read_gguf_ends(const GgufFields& fields, uint32_t vocabulary);

}  // namespace tenon
