// `--split-max-size` and `--split-tensors`: into how many files a model is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/model/convert/convert.h"

namespace tenon {

// --split-max-size and --split-tensors; both empty: one file. Errors: invalid_argument naming the
// flag.
struct SplitFlags {
  std::string max_size;  // "2G" and "500M" as llama-gguf-split has them, "2GiB", "1000000"
  std::optional<uint32_t> tensors;
  Result<GgufSplit> read() const;
};

}  // namespace tenon
