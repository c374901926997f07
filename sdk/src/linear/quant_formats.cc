#include <tenon/sdk/linear/quant_formats.h>

#include <string>

namespace tenon::sdk {

std::string quant_formats_text() {
  std::string text;
  for (uint32_t i = 0; i < kQuantFormats; ++i) {
    if (i > 0) text += i + 1 == kQuantFormats ? " and " : ", ";
    text += quant_shape(static_cast<QuantFormat>(i)).name;
  }
  return text;
}

Status check_quant_weight(const WeightView& weight, std::string_view id) {
  constexpr uint64_t kMaxWeightBytes = uint64_t{1} << 46;  // beyond any machine's memory
  const std::string name = "\"" + std::string(id) + "\"";
  QuantFormat format;
  if (!parse_quant_format(weight.format, format)) {
    return refuse_weight(weight, "has format \"" + std::string(weight.format) + "\"; " + name +
                                     " multiplies " + quant_formats_text() +
                                     "; choose a linear plugin for that format, or \"auto\"");
  }
  const QuantShape shape = quant_shape(format);
  if (weight.n_out == 0 || weight.k_in == 0) {
    return refuse_weight(weight, "is empty; its rows and columns must be at least 1");
  }
  if (weight.k_in % shape.values != 0) {
    const std::string values = std::to_string(shape.values);
    return refuse_weight(weight, "has rows of " + std::to_string(weight.k_in) + " values; " +
                                     std::string(weight.format) + " stores whole blocks of " +
                                     values + ", so the length must be a multiple of " + values +
                                     "; the checkpoint is damaged");
  }
  if (weight.parts.size() != 1 || weight.parts[0].data == nullptr) {
    return refuse_weight(weight, "has " + std::to_string(weight.parts.size()) + " parts; " + name +
                                     " expects one tensor with data");
  }
  const TensorView& tensor = weight.parts[0];
  const uint64_t row_bytes = uint64_t{weight.k_in} / shape.values * shape.bytes;
  if (tensor.dtype != DType::u8 || tensor.rank != 2 || tensor.shape[0] != weight.n_out ||
      tensor.shape[1] != row_bytes || !row_order_fits(weight)) {
    return refuse_weight(weight,
                         "is a tensor of another type or shape than its format and size say; "
                         "the reader of the checkpoint is at fault");
  }
  if (tensor.stride[1] != 1 || tensor.stride[0] < row_bytes ||
      tensor.space.kind != SpaceKind::host) {
    return refuse_weight(weight, "is not row-major in host memory, as " + name + " expects");
  }
  if (tensor.stride[0] > kMaxWeightBytes / weight.n_out) {
    return refuse_weight(weight, "is larger than any machine's memory; the checkpoint is damaged");
  }
  return Status();
}

}  // namespace tenon::sdk
