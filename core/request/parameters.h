// All that a request may ask for, by name: one table for the command line and its help, pipeline
// files, workloads, prompt files, the check at submission, and docs/formats/generation.md.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "core/base/number.h"

namespace tenon {

enum class ParameterKind : uint8_t {
  number,
  flag,
  word,    // one of `words`
  stages,  // names of stages of sampling
  name,    // of something that the pipeline has
  texts,
  ids,  // tokens
  biases,
  settings,  // of third parties
};

struct Parameter {
  std::string_view name;  // in files
  ParameterKind kind = ParameterKind::number;
  NumberSpec number = {};      // what a number may be
  std::string_view otherwise;  // where nobody says, for people
  std::string_view sentence;
  std::string_view option = {};  // on the command line, where that isn't the name with dashes
  std::string_view words = {};   // separated by spaces
};

// In place of an adapter's name: the base model.
inline constexpr std::string_view kNoAdapter = "none";

// Far beyond any use; they bound what one request can make the engine allocate.
inline constexpr int64_t kMostParameterTokens = int64_t{1} << 24;
inline constexpr int64_t kMostSamples = 1024;
// TOML has no larger whole number.
inline constexpr int64_t kMostSeed = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kMostTokenId = std::numeric_limits<int32_t>::max();

// In the order of the documentation.
std::span<const Parameter> parameters();
// Null for an unknown name.
const Parameter* find_parameter(std::string_view name);
// Of a name that is known to stand in the table.
const Parameter& parameter(std::string_view name);

// "--min-p".
std::string option_of(const Parameter& parameter);
// What it may be, in words: "a number from 0.0 to 1.0", "texts", "one of false, true, never".
std::string values_text(const Parameter& parameter);
// "early_stopping is \"maybe\" – it must be …"; empty for one of the parameter's words.
std::string word_fault(const Parameter& parameter, std::string_view word);
// Likewise for one of several texts, which must not be empty, and for one of several ids.
std::string text_fault(const Parameter& parameter, std::string_view text);
std::string id_fault(std::string_view name, const WrittenNumber& id);

}  // namespace tenon
