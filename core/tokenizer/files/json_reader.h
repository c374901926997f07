// JSON of tokenizer files, read within bounds.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/tokenizer/models/bpe.h"
#include "core/tokenizer/vocabulary.h"

namespace tenon::tok {

// A tokenizer.json. The two large members of "model" go into tables, the rest into `document`.
struct TokenizerJson {
  nlohmann::json document;
  std::optional<std::vector<Vocabulary::Entry>> vocab;
  std::optional<std::vector<Bpe::Merge>> merges;
};

// Errors (invalid_argument): not JSON; nested deeper than 64 levels; more than a million values
// in addition to the vocabulary; a vocabulary or merges of another shape.
Result<TokenizerJson> parse_tokenizer_json(std::string_view text);

// Any other file, with the same bounds.
Result<nlohmann::json> parse_json(std::string_view text);

// A value and where it stands, for messages: "pre_tokenizer.pretokenizers[1]".
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  bool is_zero() const { return value_->is_number() && value_->get<double>() == 0; }

  // A member that is there and not null. Of anything but an object: none.
  std::optional<JsonNode> find(std::string_view key) const;
  // Errors (invalid_argument): not there, or of another type than asked for.
  Result<JsonNode> at(std::string_view key) const;
  Result<std::string> text() const;
  Result<bool> boolean() const;
  Result<int64_t> integer() const;
  Result<std::vector<JsonNode>> list() const;
  Result<std::vector<std::pair<std::string, JsonNode>>> members() const;

  Result<std::string> text_at(std::string_view key) const;
  Result<bool> boolean_at(std::string_view key) const;
  Result<bool> boolean_or(std::string_view key, bool otherwise) const;

  // "pre_tokenizer.type is 'X', which is not supported".
  Status refuse(std::string_view what) const;

 private:
  Status wrong(std::string_view expected) const;
  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace tenon::tok
