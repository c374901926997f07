// Options whose values every command checks in one way: a number is one and in range, a text is
// not empty. What is not is wrong usage.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/number.h"
#include "tools/tenon/shell/command_line.h"

namespace tenon {

// `spec` is named as the option is: "--batch". `set` gets a number without a fault.
Option add_number_option(Command command, const NumberSpec& spec, const std::string& sentence,
                         std::function<void(const WrittenNumber&)> set);
template <typename T>
T number_as(const WrittenNumber& written) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(as_real(written));
  if constexpr (!std::is_floating_point_v<T>) return static_cast<T>(std::get<int64_t>(written));
}
template <typename T>
Option add_number(Command command, const NumberSpec& spec, T& out, const std::string& sentence) {
  return add_number_option(command, spec, sentence,
                           [&out](const WrittenNumber& written) { out = number_as<T>(written); });
}
template <typename T>
Option add_number(Command command, const NumberSpec& spec, std::optional<T>& out,
                  const std::string& sentence) {
  return add_number_option(command, spec, sentence,
                           [&out](const WrittenNumber& written) { out = number_as<T>(written); });
}

// Options ("--model") and positional arguments ("folder").
Option add_text(Command command, const std::string& name, std::string& out,
                const std::string& sentence);
// A model that is there already: a folder, a GGUF file, or a name that the cache has
// (core/hub/cache.h). `out` gets its path.
Option add_model(Command command, const std::string& name, std::string& out,
                 const std::string& sentence = "model folder, GGUF file or name");
// An option that may be repeated, one text at a time.
Option add_texts(Command command, const std::string& name, std::vector<std::string>& out,
                 const std::string& sentence);

}  // namespace tenon
