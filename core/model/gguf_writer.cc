#include "core/model/gguf_writer.h"

namespace tenon {
namespace {

constexpr uint64_t kAlignment = 32;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
void put(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

uint64_t row_bytes(const GgufPlannedTensor& tensor) {
  const TensorType& type = *find_tensor_type(tensor.type);
  return tensor.extents.back() / type.block_elements * type.block_bytes;
}

uint64_t row_count(const GgufPlannedTensor& tensor) {
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.extents.size(); ++i) rows *= tensor.extents[i];
  return rows;
}

std::string make_header(const GgufMetadata& metadata, std::span<const GgufPlannedTensor> tensors) {
  std::string out = "GGUF";
  put<uint32_t>(3, out);
  put<uint64_t>(tensors.size(), out);
  put<uint64_t>(metadata.count(), out);
  out += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufPlannedTensor& tensor : tensors) {
    put<uint64_t>(tensor.name.size(), out);
    out += tensor.name;
    put(static_cast<uint32_t>(tensor.extents.size()), out);
    for (size_t i = tensor.extents.size(); i-- > 0;) put<uint64_t>(tensor.extents[i], out);
    put(tensor.type, out);
    put(offset, out);
    offset += aligned(row_count(tensor) * row_bytes(tensor));
  }
  out.resize(aligned(out.size()), '\0');
  return out;
}

}  // namespace

Status write_gguf(const std::string& path, const GgufMetadata& metadata,
                  std::span<const GgufPlannedTensor> tensors, const WriteProgress& progress) {
  const std::string header = make_header(metadata, tensors);
  std::vector<PlacedRows> placed;
  uint64_t offset = header.size();
  for (const GgufPlannedTensor& tensor : tensors) {
    placed.push_back({offset, row_count(tensor), row_bytes(tensor), &tensor.fill});
    offset += aligned(row_count(tensor) * row_bytes(tensor));
  }
  return write_tensor_file(path, header, placed, offset, progress);
}

}  // namespace tenon
