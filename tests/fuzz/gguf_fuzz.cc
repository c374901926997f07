// A GGUF file names no byte outside of itself, and what it says of a model and a tokenizer is read
// or refused.
#include <cstdint>
#include <cstdlib>

#include "core/base/gguf.h"
#include "core/model/gguf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = tenon::GgufFile::parse(bytes);
  if (!file.ok()) return 0;
  uint64_t end = 0;
  for (const tenon::GgufTensor& tensor : file->tensors()) {
    if (tensor.begin < end || tensor.begin > size) std::abort();
    end = tensor.begin + tensor.bytes.value_or(0);
    if (end > size) std::abort();
  }
  for (const auto& [key, value] : file->metadata()) {
    (void)value.describe();
    (void)value.texts();
    (void)value.integers();
    (void)value.reals();
  }
  const auto config = tenon::gguf_model_config(*file, bytes, "fuzz");
  if (config.ok() && config->window_tokens.size() != config->layers) std::abort();
  (void)tenon::gguf_generation_defaults(*file, "fuzz");
  return 0;
}
