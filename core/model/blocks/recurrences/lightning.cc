// Linear attention with a fixed decay (lightning attention, arXiv:2501.08313, section 2.2): a
// head's state S [d, d] decays by one rate, S ← e^(-rate) · S + k ⊗ v and o = Sᵀ · q, with q, k and
// v by SiLU. That is Mamba-2 whose steps are 1, whose convolution has one tap and whose heads each
// are a group, with B = k, C = q and x = v, so its state kernel is Mamba-2's.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"
#include "core/model/blocks/recurrences/tensors.h"

namespace tenon {
namespace {

constexpr Role kQkv[] = {Role::ssm_in_x};

// Folders have q, k and v of each head side by side; the kernel reads v of all heads, k, then q.
void by_heads(const LayerPlan& l, std::vector<PartRows>& out) {
  const RecurrentPlan& r = l.recurrent;
  const uint64_t dim = r.head_dim, inner = r.inner();
  for (uint64_t head = 0; head < r.heads; ++head) {
    for (const uint64_t first : {2 * inner, inner, uint64_t{0}}) {
      out.push_back({0, first + head * dim, dim});
    }
  }
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::ssm_in,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.channels()); },
     .parts = kQkv,
     .pieces = by_heads,
     .adapters = true},
    {.role = Role::ssm_in_x,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.channels()); },
     .in_layer = {.matrix = &LayerWeights::ssm_in},
     .reads = Reads::mixer_input},
    {.role = Role::ssm_in_gate,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.inner()); },
     .in_layer = {.matrix = &LayerWeights::ssm_gate},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_rate,
     .stored = "ssm_rate",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_numbers({l.recurrent.heads, 1, 1}, {l.recurrent.heads});
         },
     .in_layer = {.vector = &LayerWeights::ssm_a},
     .draw = {.mean = 0.3, .deviation = 0.05}},
    kInnerNorm,
    kPlainOut,
};

std::array<uint32_t, 8> dims(const RecurrentPlan& r) {
  return {r.heads, r.head_dim, r.state, r.groups, r.width};
}

// Mamba-2's: one tap of 1, decays by -rate, steps that are held at 1, and nothing of x besides.
std::vector<RecurrentParameter> parameters(const RecurrentPlan& r, const RecurrentWeights& w) {
  std::vector<float> decays;
  for (const float rate : w.ssm_a) decays.push_back(-rate);
  return {{.extents = {r.channels(), r.width}, .own = std::vector<float>(r.channels(), 1.0f)},
          {{r.channels()}},
          {.extents = {r.heads}, .own = std::move(decays)},
          {{r.heads}},
          {{r.heads}},
          {.extents = {2}, .own = {1.0f, 1.0f}}};
}

constexpr RecurrentProduct kInputs[] = {{&RecurrentWeights::ssm_in},
                                        {.matrix = &RecurrentWeights::ssm_step,
                                         .zeros = [](const RecurrentPlan& r) { return r.heads; }}};

std::array<uint32_t, kMostRecurrentInputs> input_widths(const RecurrentPlan& r) {
  return {r.channels(), r.heads};
}

// The formula is Mamba-2's.
void advance(const RecurrentRow& row) {
  recurrence_kind(Recurrence::mamba2).advance(row);
}

constexpr RecurrenceKind kKind{.kind = Recurrence::lightning,
                               .name = "mamba2",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs,
                               .input_widths = input_widths,
                               .advance = advance};

}  // namespace

constinit const Block kLightning{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::lightning; }, kTensors, &kKind};

}  // namespace tenon
