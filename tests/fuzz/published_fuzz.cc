// Readers of quantised checkpoints touch no byte outside a tensor, whatever the config and the
// shapes say. Input: a quantization_config on one line, then a .safetensors file.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/model/checkpoint/safetensors.h"
#include "core/model/formats/quant_format.h"
#include "core/model/published/reader.h"
#include "tests/fuzz/target.h"
#include "tests/support/models/memory_checkpoint.h"

namespace tenon {
namespace {

void read_all(const published::Reader& reader, const MemoryCheckpoint& checkpoint) {
  static const auto pool = WorkerPool::start({.threads = 1, .pin = false});
  const std::vector<std::string_view> suffixes = reader.main_suffixes();
  for (const std::string& name : checkpoint.names()) {
    const auto main =
        std::ranges::find_if(suffixes, [&](auto suffix) { return name.ends_with(suffix); });
    if (main == suffixes.end() || !reader.is_quantised(*checkpoint.find(name))) continue;
    const published::Tensors tensors(checkpoint, name.substr(0, name.size() - main->size()));
    const auto matrix = reader.read(tensors);
    if (!matrix.ok() || matrix->n_out * matrix->k_in > (1u << 20)) continue;
    const auto stored = published::store(name, *matrix, **pool);
    if (!stored.ok()) continue;
    const QuantFormat* format = find_quant_format(stored->format);
    if (format == nullptr || stored->row_bytes != format->row_bytes(matrix->k_in)) std::abort();
    std::vector<float> row(matrix->k_in);
    dequantize_row(*format, stored->bytes.get(), matrix->k_in, row.data());
    std::vector<int32_t> order = stored->order;
    std::ranges::sort(order);
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] != static_cast<int32_t>(i)) std::abort();
    }
  }
}

}  // namespace
}  // namespace tenon

TENON_FUZZ_TARGET(published, const uint8_t* data, size_t size) {
  using namespace tenon;
  const auto* text = reinterpret_cast<const char*>(data);
  const auto line = static_cast<size_t>(std::find(text, text + size, '\n') - text);
  if (line == size) return 0;
  const auto config = parse_json_object({text, line});
  if (!config.ok()) return 0;
  Faults faults;
  const auto reader = published::make_reader(JsonFields(*config, faults));
  if (reader == nullptr) {
    if (!faults.any()) std::abort();
    return 0;
  }
  const std::span file(reinterpret_cast<const std::byte*>(data) + line + 1, size - line - 1);
  const auto header = parse_safetensors_header(file);
  if (!header.ok()) return 0;
  MemoryCheckpoint checkpoint;
  for (const SafetensorsTensor& tensor : header->tensors) {
    const auto dtype = safetensors_dtype(tensor.dtype);
    if (!dtype || tensor.shape.size() > 4) continue;
    checkpoint.view(tensor.name, *dtype, tensor.shape,
                    file.data() + header->data_begin + tensor.begin);
  }
  read_all(*reader, checkpoint);
  return 0;
}
