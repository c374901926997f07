#include "core/model/strange_values.h"

#include <algorithm>
#include <cstddef>

#include "core/base/log.h"
#include "core/base/quote.h"

namespace tenon {

void warn_of_strange_values(std::span<const std::string> tensors) {
  constexpr size_t kMostNamed = 3;
  if (tensors.empty()) return;
  const size_t named = std::min(tensors.size(), kMostNamed);
  std::string text =
      "values that are no finite numbers, so that what is computed with them is none either: "
      "tensor";
  for (size_t i = 0; i < named; ++i) text += (i == 0 ? " " : ", ") + in_quotes(tensors[i]);
  if (tensors.size() > named) {
    text += " and " + std::to_string(tensors.size() - named) + " more";
  }
  log(LogLevel::warning, "model", text);
}

}  // namespace tenon
