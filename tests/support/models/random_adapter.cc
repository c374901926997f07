#include "tests/support/models/random_adapter.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "core/base/half.h"

namespace tenon::test {
namespace {

class Maker {
 public:
  Maker(const RandomAdapter& options, Adapter& adapter)
      : options_(options), adapter_(adapter), generator_(options.seed) {}

  void add(const Weight& target) {
    const std::string name = "lora of " + target.name;
    adapter_.matrices.push_back({&target, matrix(name, options_.rank, target.k_in, 1.0f),
                                 matrix(name, target.n_out, options_.rank, 0.4f), 1.5f});
  }

 private:
  Weight matrix(const std::string& name, uint32_t rows, uint32_t columns, float gain) {
    const uint64_t count = uint64_t{rows} * columns;
    const bool wide = options_.dtype == DType::f32;
    const uint64_t size = wide ? 4 : 2;
    adapter_.copies.push_back(std::make_unique<std::byte[]>(count * size));
    std::byte* to = adapter_.copies.back().get();
    std::normal_distribution<float> normal(0.0f, gain / std::sqrt(static_cast<float>(columns)));
    for (uint64_t i = 0; i < count; ++i) {
      const float value = normal(generator_);
      const uint16_t half = bf16_from_float(value);
      std::memcpy(to + i * size, wide ? static_cast<const void*>(&value) : &half, size);
    }
    TensorView view{.data = to, .dtype = options_.dtype, .space = {}, .rank = 2};
    view.shape[0] = rows;
    view.shape[1] = view.stride[0] = columns;
    view.stride[1] = 1;
    return {name, std::string(dtype_name(options_.dtype)), rows, columns, {view}};
  }

  const RandomAdapter& options_;
  Adapter& adapter_;
  std::mt19937_64 generator_;
};

}  // namespace

std::unique_ptr<Adapter> make_random_adapter(const Model& model, const RandomAdapter& options) {
  auto adapter = std::make_unique<Adapter>();
  Maker maker(options, *adapter);
  for (uint32_t i = 0; i < model.layers.size(); ++i) {
    const LayerWeights& layer = model.layers[i];
    for (const Weight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      if (weight->n_out == 0) continue;
      if (!options.changes || options.changes(i, *weight)) maker.add(*weight);
    }
  }
  return adapter;
}

}  // namespace tenon::test
