#include <tenon/sdk/linear/plain_weights.h>

#include <string>

namespace tenon::sdk {

Status check_plain_weight(const WeightView& weight, DType dtype, std::string_view kernel) {
  constexpr uint64_t kMaxWeightBytes = uint64_t{1} << 46;  // beyond any machine's memory
  const std::string quoted = "\"" + std::string(kernel) + "\"";
  if (weight.n_out == 0 || weight.k_in == 0) {
    return refuse_weight(weight, "is empty; its rows and columns must be at least 1");
  }
  if (weight.parts.size() != 1 || weight.parts[0].data == nullptr) {
    return refuse_weight(weight, "has " + std::to_string(weight.parts.size()) + " parts; " +
                                     quoted + " expects one tensor with data");
  }
  const TensorView& tensor = weight.parts[0];
  if (tensor.dtype != dtype || tensor.rank != 2 || tensor.shape[0] != weight.n_out ||
      tensor.shape[1] != weight.k_in || !row_order_fits(weight)) {
    return refuse_weight(weight,
                         "is a tensor of another type or shape than its format and size say; "
                         "the reader of the checkpoint is at fault");
  }
  if (tensor.stride[1] != 1 || tensor.stride[0] < weight.k_in ||
      tensor.space.kind != SpaceKind::host) {
    return refuse_weight(weight, "is not row-major in host memory, as " + quoted + " expects");
  }
  if (tensor.stride[0] > kMaxWeightBytes / weight.n_out / 4) {
    return refuse_weight(weight, "is larger than any machine's memory; the checkpoint is damaged");
  }
  return Status();
}

}  // namespace tenon::sdk
