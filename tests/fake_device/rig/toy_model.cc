#include "tests/fake_device/rig/toy_model.h"

#include <tenon/model.h>

#include <algorithm>

namespace tenon {
namespace {

// splitmix64's finaliser.
uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t ToyModel::entry(TokenId token, uint32_t position) {
  // The top bit tells entries from memory that was never written.
  return scramble((uint64_t{position} << 32) + static_cast<uint32_t>(token) + 1) | 1ull << 63;
}

uint64_t ToyModel::chain(uint64_t state, uint64_t entry) {
  return scramble(state + 0x9e3779b97f4a7c15u + entry);
}

void ToyModel::logits(uint64_t state, float* out) const {
  for (uint32_t v = 0; v < vocabulary; ++v) {
    const uint64_t bits = scramble(state ^ scramble(v + 1)) >> 44;  // 20 bits
    out[v] = static_cast<float>(bits) / 65536.0f - 8.0f;
  }
  const bool contrary = contrary_every != 0 && scramble(state) % contrary_every == 0;
  if (contrary) std::reverse(out, out + vocabulary);
}

void ToyModel::hidden(uint64_t state, uint32_t layer, float* out) {
  const uint64_t bits = scramble(state + layer + 1);
  for (uint32_t i = 0; i < kHidden; ++i) out[i] = static_cast<float>((bits >> (16 * i)) & 0xffff);
}

uint64_t ToyModel::state_behind(std::span<const TokenId> history) const {
  const auto last = static_cast<uint32_t>(history.size() - 1);
  uint64_t state = 0;
  uint32_t behind = sink_tokens;  // the first token that was not evicted
  while (kept_tokens > 0 && behind + stride_tokens + kept_tokens <= last + 1) {
    behind += stride_tokens;
  }
  const auto see = [&](uint32_t window) {
    for (uint32_t p = first_visible(last, window); p <= last; ++p) {
      if (window == 0 && p >= sink_tokens && p < behind) continue;
      state = chain(state, entry(history[p], p));
    }
  };
  if (attends) see(window_tokens);
  if (attends && second_window) see(*second_window);
  if (!recurrent) return state;
  uint64_t all = 0;
  for (uint32_t p = 0; p <= last; ++p) all = chain(all, entry(history[p], p));
  return chain(state, all);
}

std::vector<float> ToyModel::next_logits(std::span<const TokenId> history) const {
  std::vector<float> out(vocabulary);
  logits(state_behind(history), out.data());
  return out;
}

}  // namespace tenon
