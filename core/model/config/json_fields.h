// Reading JSON objects that come from strangers: depth and duplicate keys are checked, and every
// field is read with its type and range, all faults collected before anything is refused.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon {

// Parses `text`, whose top level must be an object. Refuses invalid JSON or UTF-8, nesting deeper
// than 32 and keys that stand twice in one object. Messages carry no file name.
Result<nlohmann::json> parse_json_object(std::string_view text);

// The same object with its keys in their order; `text` is one that parse_json_object() took.
nlohmann::ordered_json in_order(std::string_view text);

// The text with each bare Infinity, which Python writes and JSON has not, as transformers spells
// it: {"__float__": "Infinity"}.
std::string with_spelled_infinity(std::string text);
bool is_spelled_infinity(const nlohmann::json& value);

// A value as it stands in a message: short, whatever it is.
std::string describe(const nlohmann::json& value);

// Faults of one document. `invalid` is wrong in itself; `unsupported` is valid but cannot be run.
class Faults {
 public:
  void invalid(std::string text);
  void unsupported(std::string text);
  bool any() const { return count_ > 0; }
  // Ok, or all faults in one message led by `where`. Invalid outweighs unsupported in the code.
  Status status(std::string_view where) const;

 private:
  void add(std::string text);
  std::vector<std::string> texts_;
  size_t count_ = 0;
  bool any_invalid_ = false;
};

// The fields of one object. A missing field, or one that is null, gives the fallback; a field of
// the wrong type or out of range is a fault, and gives the fallback too.
class JsonFields {
 public:
  // All are borrowed. `prefix` leads the keys in messages: "rope_scaling.". `asked` remembers every
  // key that was asked for, there or not.
  JsonFields(const nlohmann::json& object, Faults& faults, std::string prefix = "",
             std::set<std::string, std::less<>>* asked = nullptr)
      : object_(object), faults_(faults), prefix_(std::move(prefix)), asked_(asked) {}

  bool has(const char* key) const { return find(key) != nullptr; }  // there and not null
  bool is_null(const char* key) const;                              // there and null
  const nlohmann::json* find(const char* key) const;                // null unless `has`

  // A whole number, also written as 40.0.
  uint32_t count(const char* key, uint32_t fallback, uint32_t min, uint32_t max) const;
  double number(const char* key, double fallback) const;  // finite
  bool flag(const char* key, bool fallback) const;
  bool truth(const char* key, bool fallback) const;  // the same, where a null means no
  std::string text(const char* key, std::string_view fallback) const;
  std::optional<JsonFields> object(const char* key) const;
  // A list of as many flags; 0 and 1 count. Empty: not there, or a fault.
  std::vector<bool> flags(const char* key, size_t count) const;
  // One id or a list of ids, each in [0, vocabulary).
  std::vector<int32_t> token_ids(const char* key, std::vector<int32_t> fallback,
                                 uint32_t vocabulary) const;

  Faults& faults() const { return faults_; }
  std::string name(const char* key) const { return "'" + prefix_ + key + "'"; }

 private:
  void mismatch(const char* key, const nlohmann::json& value, std::string_view expected) const;
  const nlohmann::json& object_;
  Faults& faults_;
  std::string prefix_;
  std::set<std::string, std::less<>>* asked_;
};

}  // namespace tenon
