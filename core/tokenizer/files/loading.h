// From files to the parts of a tokenizer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/tokenizer/files/json_reader.h"
#include "core/tokenizer/parts.h"

namespace tenon::tok {

// A model's folder or GGUF file, as Tokenizer::load reads it.
Result<std::unique_ptr<TokenizerParts>> load_tokenizer_parts(const std::string& path);

// The content of a tokenizer.json.
Result<std::unique_ptr<TokenizerParts>> read_tokenizer_json(std::string_view text);

// An added token's fields: {"content": "<s>", "lstrip": false, …}.
Result<AddedToken> read_added_token(const JsonNode& node, int64_t id);

// What tokenizer_config.json and special_tokens_map.json say: names of the special tokens, more
// added tokens, and whether a sequence begins and ends with its special tokens.
Status apply_tokenizer_config(const JsonNode& config, TokenizerParts& parts);
Status apply_special_tokens_map(const JsonNode& map, TokenizerParts& parts);

}  // namespace tenon::tok
