#include "core/engine/answers/diffusion/canvas.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kUsualAnswer = 128;  // tokens, as the published generation has it
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
// Generators", 2014).
constexpr uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

DiffusionPlan plan_diffusion(const Request& request, uint32_t room) {
  DiffusionPlan plan;
  plan.remasking = request.remasking.value_or(Remasking::low_confidence);
  plan.answer = request.max_tokens;
  if (plan.answer == 0) {
    plan.answer = std::min(room, kUsualAnswer);
    const uint32_t block = request.block_length;
    if (block > 0 && block <= plan.answer) plan.answer -= plan.answer % block;
  }
  plan.block_length = request.block_length == 0 ? plan.answer : request.block_length;
  const uint32_t blocks = std::max(plan.answer / std::max(plan.block_length, 1u), 1u);
  plan.steps = request.steps == 0 ? plan.block_length : request.steps / blocks;
  return plan;
}

std::vector<uint32_t> most_confident(std::span<const double> confidence, uint32_t count) {
  std::vector<uint32_t> order(confidence.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return confidence[a] > confidence[b]; });
  order.resize(std::min<size_t>(order.size(), count));
  std::sort(order.begin(), order.end());
  return order;
}

Canvas::Canvas(const DiffusionPlan& plan, uint32_t first, TokenId mask, uint64_t seed)
    : plan_(plan), first_(first), mask_(mask), seed_(seed), kept_(plan.answer) {}

// Equal shares; the first steps take what is left over.
uint32_t Canvas::count() const {
  const uint32_t share = plan_.block_length / plan_.steps;
  return share + (step_ < plan_.block_length % plan_.steps ? 1 : 0);
}

uint64_t Canvas::seed() const {
  return seed_ + passes_ * kGolden;
}

double Canvas::chance(uint32_t position) const {
  return static_cast<double>(mixed(mixed(seed() + kGolden) + position) >> 11) * 0x1.0p-53;
}

void Canvas::keep(uint32_t position, Kept kept) {
  kept_[position - first_] = std::move(kept);
  ++revealed_;
}

void Canvas::end_step() {
  ++passes_;
  if (++step_ < plan_.steps) return;
  step_ = 0;
  ++block_;
}

bool Canvas::next_is_final(std::span<const TokenId> tokens) const {
  if (delivered_ == plan_.answer) return false;
  return done() || tokens[first_ + delivered_] != mask_;
}

}  // namespace tenon
