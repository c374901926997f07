#include "core/model/tensors/model_tensors.h"

#include <cstring>

#include "core/base/half.h"
#include "core/model/formats/quant_format.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {

std::vector<ModelTensor> model_tensors(const Model& model) {
  std::vector<ModelTensor> tensors;
  for (TensorSpec& spec : list_tensors(model.plan)) {
    ModelTensor& tensor = tensors.emplace_back();
    tensor.places = places_of(model, spec);
    const NormPlan* norm = norm_of(model.plan, spec);
    tensor.plus_one = norm != nullptr && norm->plus_one && !spec.bias;
    tensor.input_scale = input_scale_of(model.plan, spec);
    if (spec.layer >= 0) {
      const SelfAttentionPlan& attention =
          model.plan.layers[static_cast<size_t>(spec.layer)].attention;
      tensor.norms_by_head = (spec.role == Role::q_norm || spec.role == Role::k_norm) &&
                             attention.qk_norm_extent == QkNormExtent::own_head;
    }
    tensor.spec = std::move(spec);
  }
  return tensors;
}

PlacedRow row_of(const std::vector<ConstTensorPlace>& places, uint64_t row) {
  const ConstTensorPlace* place = places.data();
  for (; row >= place->rows; ++place) row -= place->rows;
  return {place, place->first + row};
}

bool fits_type(const TensorType& type, uint64_t elements) {
  return elements % type.block_elements == 0;
}

const TensorType& type_of(const Weight& weight) {
  const TensorType* type = find_tensor_type(std::string_view(weight.format));
  return type != nullptr ? *type : *find_tensor_type(kGgufBf16);
}

void store_values(const float* values, uint64_t count, const TensorType& type, std::byte* out) {
  if (const QuantFormat* blocks = find_quant_format(type.name)) {
    return quantize_row(*blocks, values, count, out);
  }
  if (type.id == kGgufF32) {
    std::memcpy(out, values, count * sizeof(float));
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const uint16_t bits =
        type.id == kGgufF16 ? f16_from_float(values[i]) : bf16_from_float(values[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

void store_row(const Weight& weight, uint32_t row, const TensorType& type, std::byte* out) {
  const TensorView& part = weight.parts[0];
  if (weight.format == type.name && weight.parts.size() == 1) {
    const uint64_t bits = dtype_bits(part.dtype);
    std::memcpy(out,
                static_cast<const std::byte*>(part.data) +
                    weight.view().stored_row(row) * part.stride[0] * bits / 8,
                part.shape[1] * bits / 8);
    return;
  }
  std::vector<float> values(weight.k_in);
  read_row(weight, row, values.data());
  store_values(values.data(), values.size(), type, out);
}

namespace {

// The columns of a matrix as rows, read once for many.
class Columns {
 public:
  void store(const Weight& weight, uint64_t column, const TensorType& type, std::byte* out) {
    if (of_ != &weight) read(weight);
    store_values(values_.data() + column * weight.n_out, weight.n_out, type, out);
  }

 private:
  void read(const Weight& weight) {
    of_ = &weight;
    values_.resize(uint64_t{weight.k_in} * weight.n_out);
    std::vector<float> row(weight.k_in);
    for (uint32_t n = 0; n < weight.n_out; ++n) {
      read_row(weight, n, row.data());
      for (uint64_t k = 0; k < row.size(); ++k) values_[k * weight.n_out + n] = row[k];
    }
  }
  const Weight* of_ = nullptr;
  std::vector<float> values_;
};

}  // namespace

void store_rows(const std::vector<ConstTensorPlace>& places, uint64_t first, uint64_t count,
                const TensorType& type, std::byte* out) {
  Columns columns;
  for (uint64_t row = first; row < first + count; ++row) {
    const auto [place, at] = row_of(places, row);
    const Weight& weight = *place->matrix;
    if (place->transposed) {
      columns.store(weight, at, type, out);
    } else {
      store_row(weight, static_cast<uint32_t>(at), type, out);
    }
    const uint64_t elements = place->transposed ? weight.n_out : weight.k_in;
    out += elements / type.block_elements * type.block_bytes;
  }
}

}  // namespace tenon
