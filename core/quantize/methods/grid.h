// Codes with a scale and a zero point for each group of columns: what rounding to nearest, GPTQ and
// AWQ all end in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::quantize {

struct GridOptions {
  uint32_t bits = 4;      // 2, 3, 4 or 8
  uint64_t group = 128;   // columns with one scale; 0 = a whole row
  bool symmetric = true;  // the zero point is the middle of the codes
  // Smallest zero point: 1 where files store it less one, so that 0 does not wrap.
  uint32_t least_zero = 1;
  bool search = false;  // ranges are cut where that lowers the squared error

  uint32_t most() const { return (1u << bits) - 1; }
  uint64_t group_of(uint64_t k) const { return group == 0 ? k : group; }
  uint64_t groups(uint64_t k) const { return (k + group_of(k) - 1) / group_of(k); }
};

// value = (code - zero) · scale
struct Grid {
  float scale = 1;  // an f16
  uint8_t zero = 0;

  uint8_t code(float value, uint32_t most) const;
  float value(uint8_t code) const {
    return scale * static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
  }
};
// The scale that is stored: an f16 that is not too small.
float stored_scale(float scale);
// Of a range that holds 0.
Grid grid_of(float low, float high, const GridOptions& options);
// For these values. `importance` of each (of squared errors), or empty.
Grid fit_grid(std::span<const float> values, std::span<const float> importance,
              const GridOptions& options);

// A matrix [n, k] in codes. Column j belongs to group group_of[j].
struct CodedMatrix {
  uint64_t n = 0, k = 0;
  GridOptions options;
  std::vector<uint8_t> codes;      // [n, k]
  std::vector<Grid> grids;         // [n, groups]
  std::vector<uint32_t> group_of;  // [k]

  CodedMatrix(uint64_t rows, uint64_t columns, const GridOptions& how);
  uint64_t groups() const { return options.groups(k); }
  // Row `row` → out [k].
  void values(uint64_t row, float* out) const;
};

// Each value to the nearest code of its group: rows [first, first + count) of w [n, k].
void round_to_nearest(const float* w, uint64_t first, uint64_t count, CodedMatrix& out);

}  // namespace tenon::quantize
