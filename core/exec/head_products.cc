#include "core/exec/head_products.h"

#include <cmath>

#include "core/model/tensors/weight_rows.h"

namespace tenon {

float dot_in_lanes(const float* a, const float* b, size_t count) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0.0f;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

std::vector<float> embed_rows(const Weight& table, std::span<const TokenId> ids) {
  std::vector<float> rows(ids.size() * table.k_in);
  for (size_t i = 0; i < ids.size() && table.n_out > 0; ++i) {
    read_row(table, static_cast<uint32_t>(ids[i]), &rows[i * table.k_in]);
  }
  return rows;
}

void multiply_rows(Executor& executor, const Weight& weight, std::span<const float> x,
                   std::vector<float>& y) {
  constexpr uint32_t kParts = 64;
  const size_t width = weight.k_in, count = x.size() / width, columns = weight.n_out;
  y.resize(count * columns);
  std::vector<float> rows(kParts * width);
  executor.share_out(kParts, [&](uint32_t part) {
    float* row = &rows[part * width];
    for (size_t n = columns * part / kParts; n < columns * (part + 1) / kParts; ++n) {
      read_row(weight, static_cast<uint32_t>(n), row);
      for (size_t i = 0; i < count; ++i) {
        y[i * columns + n] = dot_in_lanes(row, &x[i * width], width);
      }
    }
  });
}

void run_medusa_head(Executor& executor, const MedusaHead& head, std::vector<float>& x,
                     std::vector<float>& logits) {
  std::vector<float> y;
  for (const MedusaLayer& layer : head.layers) {
    multiply_rows(executor, layer.weight, x, y);
    for (size_t i = 0; i < y.size(); ++i) {
      const float inner = y[i] + (layer.bias.empty() ? 0.0f : layer.bias[i % layer.bias.size()]);
      x[i] += inner / (1.0f + std::exp(-inner));
    }
  }
  multiply_rows(executor, head.lm_head, x, logits);
}

}  // namespace tenon
