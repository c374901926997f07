// The files next to a tokenizer: tokenizer_config.json and special_tokens_map.json.
#include <charconv>

#include "core/base/quote.h"
#include "core/tokenizer/files/loading.h"

namespace tenon::tok {
namespace {

// A special token is named by its text, or by an object that holds it.
Result<std::string> token_text(const JsonNode& node) {
  return node.is_text() ? node.text() : node.text_at("content");
}

// One token, or several in a list.
Result<std::vector<std::string>> named_texts(const JsonNode& file, std::string_view key) {
  std::vector<std::string> texts;
  const auto node = file.find(key);
  if (!node) return texts;
  if (!node->is_list()) {
    TENON_ASSIGN_OR_RETURN(texts.emplace_back(), token_text(*node));
    return texts;
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, node->list());
  for (const JsonNode& item : list) {
    TENON_ASSIGN_OR_RETURN(texts.emplace_back(), token_text(item));
  }
  return texts;
}

Status name_bos(const JsonNode& file, TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(const auto texts, named_texts(file, "bos_token"));
  if (texts.size() > 1) {
    return invalid_argument("'bos_token' is a list of " + std::to_string(texts.size()) +
                            "; expected one token, name the one that begins a text");
  }
  if (texts.empty()) return Status();
  if (const auto bos = parts.find(texts.front())) parts.bos = bos;
  return Status();
}

// A name that is no token ends nothing, and whoever wrote it meant something.
Status name_eos(const JsonNode& file, const std::string& source, TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(const auto texts, named_texts(file, "eos_token"));
  bool first = true;
  for (const std::string& text : texts) {
    const auto eos = parts.find(text);
    if (!eos) {
      parts.warnings.push_back(source + " names the eos_token " + in_quotes(text) +
                               ", which is no token of the vocabulary; it ends no text, name one "
                               "that is");
      continue;
    }
    if (first) parts.eos = eos;
    first = false;
    add_text_end(parts.ends, *eos, source);
  }
  return Status();
}

Status name_ends(const JsonNode& file, const std::string& source, TokenizerParts& parts) {
  TENON_RETURN_IF_ERROR(name_bos(file, parts));
  return name_eos(file, source, parts);
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
  return name_ends(map, "special_tokens_map.json", parts);
}

Status apply_tokenizer_config(const JsonNode& config, TokenizerParts& parts) {
  TENON_RETURN_IF_ERROR(add_missing_tokens(config, parts));
  return name_ends(config, "tokenizer_config.json", parts);
}

}  // namespace tenon::tok
