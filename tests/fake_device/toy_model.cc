#include "tests/fake_device/toy_model.h"

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

std::vector<float> ToyModel::next_logits(std::span<const TokenId> history) const {
  const auto last = static_cast<uint32_t>(history.size() - 1);
  uint64_t state = 0;
  for (uint32_t p = first_visible(last); p <= last; ++p) {
    state = chain(state, entry(history[p], p));
  }
  std::vector<float> out(vocabulary);
  logits(state, out.data());
  return out;
}

}  // namespace tenon
