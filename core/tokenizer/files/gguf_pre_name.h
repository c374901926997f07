// The value of `tokenizer.ggml.pre` for a tokenizer.json: the table of gguf_patterns.h backwards.
#pragma once

#include <string>

#include "core/tokenizer/files/json_reader.h"
#include "core/tokenizer/parts.h"

namespace tenon::tok {

// Of none of the names: other programs refuse it, instead of splitting text in another way.
inline constexpr std::string_view kNoPreName = "custom";

struct PreName {
  std::string name;
  // What "its tokenizer" does that the name does not say; of kNoPreName why there is no other.
  std::string differs;
};

// Of a byte-level BPE, whose parts were read from the file.
PreName pre_name(const TokenizerJson& file, const TokenizerParts& parts);

}  // namespace tenon::tok
