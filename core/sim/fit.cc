#include "core/sim/fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/quote.h"
#include "core/sim/between.h"
#include "core/sim/step_cost.h"

namespace tenon::sim {
namespace {

constexpr int kSweeps = 20000;
constexpr double kConverged = 1e-12;
// What is read and what is computed follow from the shares, which follow from the fit.
constexpr int kRounds = 4;

// The places of unknowns in a row of the system.
struct Columns {
  size_t points = 0, formats = 0;
  size_t share(size_t format, size_t point) const { return format * points + point; }
  size_t decode() const { return formats * points; }
  size_t prompt() const { return decode() + 1; }
  size_t step() const { return decode() + 2; }
  size_t layer() const { return decode() + 3; }
  size_t memory_layer() const { return decode() + 4; }
  size_t sequence() const { return decode() + 5; }
  size_t logits() const { return decode() + 6; }
  size_t count() const { return decode() + 7; }
};

// One step's row of the system, in seconds a unit of each unknown.
std::vector<double> row_of(const Machine& limits, const std::vector<double>& rows,
                           const Columns& columns, const StepNeeds& needs) {
  std::vector<double> out(columns.count());
  const double bytes = read_bytes(needs), bandwidth = limits.bandwidth_at(bytes);
  for (const ProductNeed& need : needs.products) {
    const ProductRate* rate = limits.find(need.format);
    const auto format = static_cast<size_t>(rate == nullptr ? 0 : rate - limits.products.data());
    const ProductRate& used = limits.products[format];
    const double seconds = product_limit_seconds(bandwidth, used, need);
    const Between at = between(rows, need.rows);
    out[columns.share(format, at.low)] += seconds * (1 - at.high_part);
    if (at.high_part > 0) out[columns.share(format, at.low + 1)] += seconds * at.high_part;
  }
  out[columns.decode()] = needs.decode_bytes / bandwidth;
  out[columns.prompt()] = needs.prompt_operations / limits.attention_operations;
  out[columns.step()] = 1e-6;
  out[columns.layer()] = needs.layers * 1e-6;
  const bool has_caches = !limits.cached.bytes.empty();
  if (has_caches && limits.from_memory(bytes)) out[columns.memory_layer()] = needs.layers * 1e-6;
  out[columns.sequence()] = needs.sequences * 1e-6;
  out[columns.logits()] = needs.logits * 1e-9;
  return out;
}

// A share from what was found; of what no step tells, `otherwise`.
double share_from(double inverse, double otherwise) {
  return inverse > 0 ? 1 / inverse : otherwise;
}

// Points that some step lies at, with shares at which more rows never take less time.
ProductRate settled(const Machine& limits, const ProductRate& of, const std::vector<double>& rows,
                    const std::vector<double>& inverse) {
  ProductRate out{.format = of.format, .operations = of.operations};
  const auto limit = [&](double row_count) {
    return std::max(2 / limits.bandwidth, 2 * row_count / of.operations);
  };
  double last = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (inverse[i] <= 0) continue;
    const double seconds = std::max(limit(rows[i]) * inverse[i], last);
    last = seconds;
    out.rows.push_back(rows[i]);
    out.shares.push_back(limit(rows[i]) / seconds);
  }
  if (out.rows.empty()) {
    out.rows = {1};
    out.shares = {1};
  }
  return out;
}

Machine machine_from(const Machine& limits, const std::vector<double>& rows, const Columns& columns,
                     const std::vector<double>& found) {
  Machine out = limits;
  for (size_t format = 0; format < columns.formats; ++format) {
    const auto first = found.begin() + static_cast<ptrdiff_t>(columns.share(format, 0));
    out.products[format] = settled(limits, limits.products[format], rows,
                                   {first, first + static_cast<ptrdiff_t>(columns.points)});
  }
  out.decode_share = share_from(found[columns.decode()], 1);
  out.prompt_share = share_from(found[columns.prompt()], 1);
  out.step_ns = found[columns.step()] * 1e3;
  out.layer_ns = found[columns.layer()] * 1e3;
  out.memory_layer_ns = found[columns.memory_layer()] * 1e3;
  out.sequence_ns = found[columns.sequence()] * 1e3;
  out.logits_ns = found[columns.logits()];
  return out;
}

double mean_error(const std::vector<FittedStep>& steps, bool held_out) {
  double sum = 0;
  size_t count = 0;
  for (const FittedStep& each : steps) {
    if (each.step->held_out != held_out) continue;
    sum += std::abs(each.error());
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

// One unknown after the other, each set to what is best for the others as they are.
std::vector<double> non_negative_least_squares(const std::vector<double>& a,
                                               const std::vector<double>& b, size_t columns) {
  const size_t rows = b.size();
  std::vector<double> x(columns), residual = b, squares(columns);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < columns; ++i) squares[i] += a[row * columns + i] * a[row * columns + i];
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0;
    for (size_t i = 0; i < columns; ++i) {
      if (squares[i] <= 0) continue;
      double slope = 0;
      for (size_t row = 0; row < rows; ++row) slope += a[row * columns + i] * residual[row];
      const double next = std::max(0.0, x[i] + slope / squares[i]);
      const double change = next - x[i];
      if (change == 0) continue;
      x[i] = next;
      for (size_t row = 0; row < rows; ++row) residual[row] -= change * a[row * columns + i];
      moved += change * change * squares[i];
    }
    if (moved < kConverged) break;
  }
  return x;
}

Result<Fit> fit_machine(const Machine& limits, const std::vector<double>& rows,
                        const std::vector<MeasuredStep>& steps) {
  const Columns columns{rows.size(), limits.products.size()};
  if (columns.formats == 0) return invalid_argument("no format has a rate to fit steps to");
  size_t fitted = 0;
  for (const MeasuredStep& step : steps) fitted += step.held_out ? 0 : 1;
  constexpr size_t kFewest = 8;
  if (fitted < kFewest) {
    return invalid_argument("there are " + std::to_string(fitted) +
                            " steps to fit a machine to; expected " + std::to_string(kFewest) +
                            " at least");
  }
  Fit out;
  out.machine = limits;
  for (int round = 0; round < kRounds; ++round) {
    const double turn = machine_turn(out.machine);
    std::vector<double> a, b;
    for (const MeasuredStep& step : steps) {
      if (step.held_out) continue;
      const StepNeeds needs = step.model->needs_of(step.sequences, step.logits_rows, turn);
      for (const double value : row_of(limits, rows, columns, needs)) {
        a.push_back(value / step.seconds);
      }
      b.push_back(1);
    }
    out.machine =
        machine_from(limits, rows, columns, non_negative_least_squares(a, b, columns.count()));
  }
  const double turn = machine_turn(out.machine);
  for (const MeasuredStep& step : steps) {
    const StepNeeds needs = step.model->needs_of(step.sequences, step.logits_rows, turn);
    out.steps.push_back({&step, static_cast<double>(step_ns(out.machine, needs)) * 1e-9});
  }
  out.mean_error = mean_error(out.steps, false);
  out.held_out_error = mean_error(out.steps, true);
  return out;
}

}  // namespace tenon::sim
