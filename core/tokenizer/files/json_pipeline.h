// The stages of a tokenizer.json, read from their JSON. Each refuses by name what it does not know.
#pragma once

#include "core/base/result.h"
#include "core/tokenizer/files/json_reader.h"
#include "core/tokenizer/parts.h"

namespace tenon::tok {

Status read_normalizer(const JsonNode& node, Normalizer& normalizer);
Status read_pre_tokenizer(const JsonNode& node, PreTokenizer& pre_tokenizer);
Status read_decoder(const JsonNode& node, Decoder& decoder);
// Tokens put around a text: appends those after it to `suffix`, those before it to `prefix`.
Status read_post_processor(const JsonNode& node, TokenizerParts& parts);

// {"String": "…"} or {"Regex": "…"}.
Result<Pattern> read_pattern(const JsonNode& node);

struct MetaspaceOptions {
  std::string replacement;
  PrependScheme scheme = PrependScheme::always;
  bool split = true;
};
Result<MetaspaceOptions> read_metaspace(const JsonNode& node);

}  // namespace tenon::tok
