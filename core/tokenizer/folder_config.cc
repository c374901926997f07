// The files beside a tokenizer: tokenizer_config.json and special_tokens_map.json.
#include <charconv>

#include "core/tokenizer/loading.h"

namespace tenon::tok {
namespace {

// A special token is named by its text, or by an object that holds it.
Result<std::optional<TokenId>> named_token(const JsonNode& file, std::string_view key,
                                           const TokenizerParts& parts) {
  const auto node = file.find(key);
  if (!node) return std::optional<TokenId>();
  if (node->is_text()) {
    TENON_ASSIGN_OR_RETURN(const std::string text, node->text());
    return parts.find(text);
  }
  TENON_ASSIGN_OR_RETURN(const std::string text, node->text_at("content"));
  return parts.find(text);
}

Status name_ends(const JsonNode& file, TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(const auto bos, named_token(file, "bos_token", parts));
  TENON_ASSIGN_OR_RETURN(const auto eos, named_token(file, "eos_token", parts));
  if (bos) parts.bos = bos;
  if (eos) parts.eos = eos;
  return Status();
}

Result<int64_t> id_of_key(const std::string& key, const JsonNode& node) {
  int64_t id = -1;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, id);
  if (error != std::errc() || stop != end) {
    return invalid_argument(node.where() + ": expected an id as the key");
  }
  return id;
}

// Tokens that only the configuration names; where both do, the tokenizer's own file counts.
Status add_missing_tokens(const JsonNode& config, TokenizerParts& parts) {
  const auto node = config.find("added_tokens_decoder");
  if (!node) return Status();
  TENON_ASSIGN_OR_RETURN(const auto members, node->members());
  for (const auto& [key, member] : members) {
    TENON_ASSIGN_OR_RETURN(const int64_t id, id_of_key(key, member));
    TENON_ASSIGN_OR_RETURN(AddedToken token, read_added_token(member, id));
    if (parts.added.find(token.id) != nullptr || parts.added.find(token.content) != nullptr) {
      continue;
    }
    TENON_RETURN_IF_ERROR(parts.add_token(std::move(token)));
  }
  return Status();
}

}  // namespace

Status apply_special_tokens_map(const JsonNode& map, TokenizerParts& parts) {
  return name_ends(map, parts);
}

Status apply_tokenizer_config(const JsonNode& config, TokenizerParts& parts) {
  TENON_RETURN_IF_ERROR(add_missing_tokens(config, parts));
  return name_ends(config, parts);
}

}  // namespace tenon::tok
