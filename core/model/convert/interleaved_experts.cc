#include "core/model/convert/interleaved_experts.h"

#include <algorithm>

#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

// What fills one or two matrices of each expert into a tensor.
struct Interleaved {
  std::vector<std::vector<ConstTensorPlace>> parts;  // [one or two][experts]
  uint64_t k_in = 0;                                 // 0: vectors
  uint64_t n_out = 0;                                // of one part
  bool in_turn = true;                               // columns of two parts, else one after other
  const TensorType* type = nullptr;

  uint64_t columns() const { return n_out * parts.size(); }
  uint64_t column(size_t part, uint64_t n) const {
    return in_turn ? n * parts.size() + part : part * n_out + n;
  }

  // Rows [first, last) of one expert's matrix [k_in, columns].
  void fill_matrix(uint64_t expert, uint64_t first, uint64_t last, std::byte* out) const {
    std::vector<float> block((last - first) * columns()), row(k_in);
    for (size_t part = 0; part < parts.size(); ++part) {
      for (uint64_t n = 0; n < n_out; ++n) {
        read_row(*parts[part][expert].matrix, static_cast<uint32_t>(n), row.data());
        for (uint64_t k = first; k < last; ++k) {
          block[(k - first) * columns() + column(part, n)] = row[k];
        }
      }
    }
    store_values(block.data(), block.size(), *type, out);
  }
  void fill_vector(uint64_t expert, std::byte* out) const {
    std::vector<float> values(columns());
    for (size_t part = 0; part < parts.size(); ++part) {
      for (uint64_t n = 0; n < n_out; ++n) {
        values[column(part, n)] = (*parts[part][expert].vector)[n];
      }
    }
    store_values(values.data(), values.size(), *type, out);
  }

  void operator()(uint64_t first, uint64_t rows, std::byte* out) const {
    const uint64_t row_bytes = columns() * type->block_bytes;
    const uint64_t each = std::max<uint64_t>(k_in, 1);
    for (const uint64_t end = first + rows; first < end;) {
      const uint64_t expert = first / each;
      const uint64_t last = std::min(end, (expert + 1) * each);
      if (k_in > 0) fill_matrix(expert, first - expert * each, last - expert * each, out);
      if (k_in == 0) fill_vector(expert, out);
      out += (last - first) * row_bytes;
      first = last;
    }
  }
};

}  // namespace

PlannedTensor plan_interleaved(const ModelTensor& out, const ModelTensor* up, bool in_turn,
                               const TensorType& type, DType dtype) {
  const TensorSpec& spec = out.spec;
  Interleaved fill{{out.places}, spec.columns, spec.rows, in_turn, &type};
  if (up != nullptr) fill.parts.push_back(up->places);
  const std::string name = std::string(up != nullptr ? "gate_up_proj" : "down_proj") +
                           (spec.columns == 0 ? "_bias" : "");
  std::vector<uint64_t> shape = {spec.experts, fill.columns()};
  if (spec.columns > 0) shape.insert(shape.begin() + 1, spec.columns);
  return {stacked_name(spec.name, name), dtype, std::move(shape), std::move(fill)};
}

}  // namespace tenon
