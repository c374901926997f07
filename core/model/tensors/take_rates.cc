// The rates that heads of lightning attention decay by, and what folders store of them: the rates
// themselves, which need not be there, and powers that follow from them.
#include <cmath>

#include "core/base/quote.h"
#include "core/model/tensors/tensor_taker.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

constexpr std::string_view kOfQueries = ".query_decay", kOfKeys = ".key_decay",
                           kOfPairs = ".diagonal_decay";

// Of head h, counted from 1, in layer l: 2^(-8h/H) · (1 - l / (L - 1) + 1e-5), of which the
// reference divides by a little more than L - 1. In f32, as there.
std::vector<float> usual_rates(uint32_t heads, size_t layer, size_t layers) {
  const double whole = 1.0 - static_cast<double>(layer) / (static_cast<double>(layers) - 1 + 1e-5);
  const auto part = static_cast<float>(whole + 1e-5);
  std::vector<float> rates;
  for (uint32_t head = 1; head <= heads; ++head) {
    rates.push_back(static_cast<float>(std::exp2(-8.0 * head / heads)) * part);
  }
  return rates;
}

bool is_near(double value, double expected) {
  return std::abs(value - expected) <= 1e-6 + 1e-4 * expected;
}

}  // namespace

bool TensorTaker::take_rates(const TensorSpec& spec) {
  if (spec.role != Role::ssm_rate || !folder_ || has(name(spec.name))) return false;
  const auto layer = static_cast<size_t>(spec.layer);
  model_.layers[layer].ssm_a =
      usual_rates(static_cast<uint32_t>(spec.rows), layer, model_.plan.layers.size());
  return true;
}

// The number of powers in a tensor [heads, tokens, 1] or [1, heads, tokens, tokens], or 0 where it
// is of another shape.
static uint64_t tokens_of(const TensorView& view, uint64_t heads) {
  const uint64_t rank = view.rank;
  if (rank == 3 && view.shape[0] == heads && view.shape[2] == 1) return view.shape[1];
  const bool square = rank == 4 && view.shape[0] == 1 && view.shape[1] == heads;
  return square && view.shape[2] == view.shape[3] ? view.shape[2] : 0;
}

bool TensorTaker::is_of_rates(const std::string& name) {
  const bool of_queries = name.ends_with(kOfQueries), of_keys = name.ends_with(kOfKeys);
  const bool of_pairs = name.ends_with(kOfPairs);
  const std::optional<uint64_t> layer = layer_of(name);
  if (!(of_queries || of_keys || of_pairs) || !layer || *layer >= model_.layers.size())
    return false;
  const RecurrentPlan& recurrent = model_.plan.layers[*layer].recurrent;
  const TensorView* view = checkpoint_.find(name);
  if (recurrent.kind != Recurrence::lightning || view == nullptr) return false;
  const std::vector<float>& rates = model_.layers[*layer].ssm_a;
  const uint64_t tokens = tokens_of(*view, recurrent.heads);
  const uint64_t columns = of_pairs ? tokens : 1;
  bool follows = tokens > 0 && rates.size() == recurrent.heads && is_plain_type(view->dtype) &&
                 (view->rank == 4) == of_pairs;
  for (uint64_t at = 0; follows && at < recurrent.heads * tokens * columns; ++at) {
    const uint64_t row = at / columns % tokens, column = at % columns;
    const double rate = rates[at / columns / tokens];
    const double power = of_queries ? row + 1.0
                         : of_keys  ? static_cast<double>(tokens - row - 1)
                                    : static_cast<double>(row) - static_cast<double>(column);
    follows = is_near(element(*view, at), power < 0 ? 0.0 : std::exp(-rate * power));
  }
  if (!follows) {
    fault("tensor " + in_quotes(checkpoint_.stored_name(name)) +
          " does not follow from 'slope_rate'; this runs with decays that do alone");
  }
  return true;
}

}  // namespace tenon
