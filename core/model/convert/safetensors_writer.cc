#include "core/model/convert/safetensors_writer.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/model/checkpoint/safetensors.h"

namespace tenon {
namespace {

uint64_t row_bytes(const PlannedTensor& tensor) {
  const uint64_t columns = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
  return columns * dtype_bits(tensor.dtype) / 8;
}
uint64_t row_count(const PlannedTensor& tensor) {
  uint64_t rows = 1;
  const size_t behind = tensor.shape.size() > 1 ? 1 : 0;  // the columns
  for (size_t i = 0; i + behind < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  return rows;
}

// The JSON with its length in front.
std::string make_header(std::span<const PlannedTensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    const uint64_t bytes = row_count(tensor) * row_bytes(tensor);
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
    placed.push_back({offset, row_count(tensor), row_bytes(tensor), &tensor.fill});
    offset += row_count(tensor) * row_bytes(tensor);
  }
  return write_tensor_file(path, header, placed, offset, progress);
}

}  // namespace tenon
