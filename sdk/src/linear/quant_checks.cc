// What a kernel says of the formats it takes, and which weights it refuses; how their bits are read
// stands in the headers.
#include <tenon/sdk/linear/quant_formats.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::sdk {

std::string quant_formats_text(bool skip_float8) {
  std::string text, last;
  for (const QuantRow& row : kQuantRows) {
    if (skip_float8 && row.codes == BlockCodes::floats) continue;
    if (!last.empty()) text += (text.empty() ? "" : ", ") + last;
    last = row.name;
  }
  return text + " and " + last;
}

uint64_t column_order_key(const WeightView& weight) noexcept {
  const int32_t* order = column_order(weight);
  if (order == nullptr) return 0;
  uint64_t key = 0xcbf29ce484222325u;  // FNV-1a, a number at a time
  for (uint32_t k = 0; k < weight.k_in; ++k) {
    key = (key ^ static_cast<uint32_t>(order[k])) * 0x100000001b3u;
    key ^= key >> 29;
  }
  return key == 0 ? 1 : key;
}

namespace {

// A permutation of the columns, after the blocks.
bool is_column_order(const TensorView& order, uint32_t k_in) {
  if (order.data == nullptr || order.dtype != DType::i32 || order.rank != 1 ||
      order.shape[0] != k_in || reinterpret_cast<uintptr_t>(order.data) % sizeof(int32_t) != 0) {
    return false;
  }
  std::vector<bool> seen(k_in);
  const auto* columns = static_cast<const int32_t*>(order.data);
  for (uint32_t k = 0; k < k_in; ++k) {
    if (columns[k] < 0 || static_cast<uint32_t>(columns[k]) >= k_in) return false;
    if (seen[static_cast<uint32_t>(columns[k])]) return false;
    seen[static_cast<uint32_t>(columns[k])] = true;
  }
  return true;
}

}  // namespace

Status check_quant_weight(const WeightView& weight, std::string_view id, bool skip_float8) {
  constexpr uint64_t kMaxWeightBytes = uint64_t{1} << 46;  // beyond any machine's memory
  const std::string name = "\"" + std::string(id) + "\"";
  QuantFormat format;
  if (!parse_quant_format(weight.format, format) || (skip_float8 && quant_shape(format).float8)) {
    return refuse_weight(weight, "has format \"" + std::string(weight.format) + "\"; " + name +
                                     " multiplies " + quant_formats_text(skip_float8) +
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
  if (weight.parts.empty() || weight.parts.size() > 2 || weight.parts[0].data == nullptr) {
    return refuse_weight(weight, "has " + std::to_string(weight.parts.size()) + " parts; " + name +
                                     " expects one tensor with data");
  }
  if (weight.parts.size() == 2 && !is_column_order(weight.parts[1], weight.k_in)) {
    return refuse_weight(weight, "has a second part that does not order its " +
                                     std::to_string(weight.k_in) +
                                     " columns; the reader of the checkpoint is at fault");
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
