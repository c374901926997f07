// A GGUF file names no byte outside of itself, and what it says of a model and a tokenizer is read
// or refused.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/files/gguf.h"
#include "core/model/checkpoint/generation_defaults.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/formats/quant_format.h"
#include "tests/fuzz/target.h"

namespace {

// The last row of a tensor in blocks, as running the model would read it.
void read_last_row(const tenon::GgufTensor& tensor, std::span<const std::byte> file) {
  const tenon::TensorType* type = tenon::find_tensor_type(tensor.type);
  const tenon::QuantFormat* blocks =
      type == nullptr ? nullptr : tenon::find_quant_format(type->name);
  if (blocks == nullptr) return;
  if (blocks->elements != type->block_elements || blocks->bytes != type->block_bytes) std::abort();
  std::vector<float> row(tensor.extents.back());
  const uint64_t begin = tensor.begin + tensor.bytes.value() - blocks->row_bytes(row.size());
  tenon::dequantize_row(*blocks, file.data() + begin, row.size(), row.data());
}

}  // namespace

TENON_FUZZ_TARGET(gguf, const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = tenon::GgufFile::parse(bytes);
  if (!file.ok()) return 0;
  uint64_t end = 0;
  for (const tenon::GgufTensor& tensor : file->tensors()) {
    if (tensor.begin < end || tensor.begin > size) std::abort();
    end = tensor.begin + tensor.bytes.value_or(0);
    if (end > size) std::abort();
    read_last_row(tensor, bytes);
  }
  for (const auto& [key, value] : file->metadata()) {
    (void)value.describe();
    (void)value.texts();
    (void)value.integers();
    (void)value.reals();
  }
  const tenon::GgufBytes of = [bytes](const tenon::GgufTensor& tensor) {
    return bytes.subspan(tensor.begin, tensor.bytes.value_or(0));
  };
  const auto config = tenon::gguf_model_config(*file, of, "fuzz");
  if (config.ok() && config->plan.layers.empty()) std::abort();
  (void)tenon::gguf_generation_defaults(*file, "fuzz");
  return 0;
}
