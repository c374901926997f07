// Arrays in NumPy's .npy files (numpy.lib.format): little endian, C order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace tenon {

template <typename T>
struct NpyArray {
  std::vector<uint64_t> shape;  // empty = one value
  std::vector<T> values;        // as many as the shape says
};

// float32 only.
Result<NpyArray<float>> read_npy_f32(const std::string& path);
// int32, or int64 whose values fit.
Result<NpyArray<int32_t>> read_npy_i32(const std::string& path);

// Replaces the file, once the new one is whole. `values` has as many as the shape says.
Status write_npy(const std::string& path, std::span<const float> values,
                 std::span<const uint64_t> shape);
Status write_npy(const std::string& path, std::span<const int32_t> values,
                 std::span<const uint64_t> shape);

}  // namespace tenon
