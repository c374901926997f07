// Ranges of groups, and codes within them, with which the outputs of a matrix err least.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/quantize/methods/grid.h"

namespace tenon::quantize {

class RangeSearch {
 public:
  // `gram` [k, k]: the lower triangle of Σ x·xᵀ over the inputs.
  RangeSearch(std::span<const double> gram, uint64_t k, const GridOptions& options);

  // Rows [first, first + count) of w [n, k] in codes. Group after group gets the range with which
  // the outputs err least, given the errors of the other groups' columns; then values go to the
  // code above or below the nearest if that makes up for others. Any number of threads, on rows of
  // their own.
  void code_rows(const float* w, uint64_t first, uint64_t count, CodedMatrix& out) const;

  // Rows that are in codes already, in the gram's order of columns: codes [count, k] and grids
  // [count, groups] with fewer errors of the outputs. A group's scale becomes the best one for its
  // codes, given the other groups, then codes go up or down. Likewise for any number of
  // threads.
  void improve_rows(const float* w, uint64_t count, uint32_t most, uint32_t sweeps, uint8_t* codes,
                    Grid* grids) const;

 private:
  struct Group {
    uint64_t begin, size;
    std::vector<float> with_all;  // [size, k] of Σ x·xᵀ
    std::vector<float> own;       // [size, size]
  };
  // A row's part in a group: what is coded, and what stands in the way of it.
  struct Part {
    std::span<const float> values;
    std::span<float> errors;  // of the values in codes
    float* slopes;            // [size] errors of all columns, as they reach the outputs of these
    uint8_t* codes;
    Grid& grid;
  };
  // use(group, part) for the rows' parts, group by group, each with the slopes of the errors as
  // they are by then; `anew`: as if the group had none.
  template <typename Use>
  void visit_parts(const float* w, uint64_t count, bool anew, float* errors, uint8_t* codes,
                   Grid* grids, const Use& use) const;
  void choose_range(const Group& group, const Part& part) const;
  static void choose_scale(const Group& group, const Part& part);
  static void choose_codes(const Group& group, const Part& part, uint32_t most);

  const uint64_t k_;
  const GridOptions options_;
  std::vector<Group> groups_;
};

}  // namespace tenon::quantize
