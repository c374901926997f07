// Metadata of a GGUF file, read with type and range; all faults are collected before anything is
// refused.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/quote.h"
#include "core/files/gguf.h"
#include "core/model/config/json_fields.h"

namespace tenon {

// A missing value gives the fallback; one of the wrong type or out of range is a fault, and gives
// the fallback too.
class GgufFields {
 public:
  // Keys that begin with "." are those of the architecture: ".block_count" → "llama.block_count".
  GgufFields(const GgufFile& file, std::string architecture, Faults& faults)
      : file_(file), architecture_(std::move(architecture)), faults_(faults) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const GgufValue* find(std::string_view key) const {
    asked_.insert(full(key));
    return file_.find(full(key));
  }
  // Whether anything asked for the key, there or not.
  bool asked(std::string_view key) const { return asked_.contains(full(key)); }
  // A list counts as a number where all its elements are equal.
  uint32_t count(std::string_view key, uint32_t fallback, uint32_t min, uint32_t max) const;
  // As above; the key must be there.
  uint32_t need_count(std::string_view key, uint32_t min, uint32_t max) const;
  double number(std::string_view key, double fallback, double min, double max) const;
  bool flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;

  bool has_tensor(std::string_view tensor) const { return tensor_rows(tensor) > 0; }
  // 0: the file has no such tensor.
  uint64_t tensor_rows(std::string_view tensor) const;
  // A number for each of `layers` layers, and no more: a list, which may go on with those of layers
  // for drafts, or one number for all. Empty: not there, or a fault.
  std::vector<double> numbers(std::string_view key, size_t layers) const;

  Faults& faults() const { return faults_; }
  std::string name(std::string_view key) const { return in_quotes(full(key)); }

 private:
  std::string full(std::string_view key) const {
    return key.starts_with('.') ? architecture_ + std::string(key) : std::string(key);
  }
  void mismatch(std::string_view key, const GgufValue& value, const std::string& expected) const;

  const GgufFile& file_;
  std::string architecture_;
  Faults& faults_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace tenon
