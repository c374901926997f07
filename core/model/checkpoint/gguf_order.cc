#include "core/model/checkpoint/gguf_order.h"

namespace tenon {
namespace {

// The halves of each head are interleaved: 0, 2, 4, …, 1, 3, 5, …
std::vector<uint32_t> in_pairs(uint32_t heads, uint32_t head_dim) {
  std::vector<uint32_t> order(size_t{heads} * head_dim);
  const uint32_t half = head_dim / 2;
  for (uint32_t row = 0; row < order.size(); ++row) {
    const uint32_t at = row % head_dim;
    order[row] = row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
  }
  return order;
}

// Rows that stay, then heads of values: the first of each key head, then the second of each, …
std::vector<uint32_t> tiled(const RecurrentPlan& delta, uint32_t staying, uint32_t head_rows) {
  std::vector<uint32_t> order(staying + size_t{delta.heads} * head_rows);
  const uint32_t shared = delta.heads / delta.groups;
  for (uint32_t n = 0; n < order.size(); ++n) {
    if (n < staying) {
      order[n] = n;
      continue;
    }
    const uint32_t head = (n - staying) / head_rows, at = (n - staying) % head_rows;
    const uint32_t stored = head % shared * delta.groups + head / shared;
    order[n] = staying + stored * head_rows + at;
  }
  return order;
}

bool tiles(const Family& family, const LayerPlan& layer) {
  const RecurrentPlan& delta = layer.recurrent;
  return family.gguf_tiles_values && delta && delta.heads != delta.groups;
}

}  // namespace

std::vector<uint32_t> gguf_row_order(const Family& family, const LayerPlan& layer, Role role) {
  const SelfAttentionPlan& attention = layer.attention;
  if (family.gguf_pairs_rows) {
    if (role == Role::q) return in_pairs(attention.heads, attention.head_dim);
    if (role == Role::k) return in_pairs(attention.kv_heads, attention.head_dim);
  }
  if (!tiles(family, layer)) return {};
  const RecurrentPlan& delta = layer.recurrent;
  switch (role) {
    case Role::ssm_in_x:
    case Role::ssm_conv:
      return tiled(delta, 2 * delta.groups * delta.state, delta.head_dim);
    case Role::ssm_in_gate:
      return tiled(delta, 0, delta.head_dim);
    case Role::ssm_beta:
    case Role::ssm_a:
      return tiled(delta, 0, 1);
    case Role::ssm_in_step:
    case Role::ssm_dt_bias:
      return tiled(delta, 0, delta.decays);
    default:
      return {};
  }
}

std::vector<uint32_t> gguf_column_order(const Family& family, const LayerPlan& layer, Role role) {
  if (role != Role::ssm_out || !tiles(family, layer)) return {};
  return tiled(layer.recurrent, 0, layer.recurrent.head_dim);
}

bool gguf_rates_lack_minus(const LayerPlan& layer) {
  return layer.recurrent && layer.recurrent.strongest_decay != 0.0f;
}

std::vector<uint32_t> inverse_order(const std::vector<uint32_t>& order) {
  std::vector<uint32_t> inverse(order.size());
  for (uint32_t n = 0; n < order.size(); ++n) inverse[order[n]] = n;
  return inverse;
}

}  // namespace tenon
