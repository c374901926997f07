#include "core/model/safetensors_writer.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/model/safetensors.h"

namespace tenon {
namespace {

uint64_t row_bytes(const PlannedTensor& tensor) {
  uint64_t columns = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) columns *= tensor.shape[i];
  return columns * dtype_bits(tensor.dtype) / 8;
}

// The JSON with its length in front.
std::string make_header(std::span<const PlannedTensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    const uint64_t bytes = tensor.shape[0] * row_bytes(tensor);
    header[tensor.name] = {{"dtype", safetensors_dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  // Blanks behind the JSON are allowed; they align the data, so that views can be read in place.
  text.append(63 - (8 + text.size() + 63) % 64, ' ');
  const uint64_t length = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + text;
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const PlannedTensor> tensors,
                         const WriteProgress& progress) {
  const std::string header = make_header(tensors);
  std::vector<PlacedRows> placed;
  uint64_t offset = header.size();
  for (const PlannedTensor& tensor : tensors) {
    placed.push_back({offset, tensor.shape[0], row_bytes(tensor), &tensor.fill});
    offset += tensor.shape[0] * row_bytes(tensor);
  }
  return write_tensor_file(path, header, placed, offset, progress);
}

}  // namespace tenon
