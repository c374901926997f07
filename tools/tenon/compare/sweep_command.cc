#include "tools/tenon/compare/sweep_command.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/folder.h"
#include "core/report/pages/format.h"
#include "core/report/pages/pictures.h"
#include "core/report/pages/sweep_chart.h"
#include "core/report/pages/text_report.h"
#include "core/report/sweep.h"
#include "tools/tenon/compare/picture_files.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {
namespace {

using compare::Comparison;

Comparison at_load(Comparison comparison, const SweepRange& range, double load) {
  comparison.budget_ns /= static_cast<int64_t>(range.values.size());
  comparison.rate = range.what == SweepOf::rate ? load : 0;
  comparison.in_flight = range.what == SweepOf::concurrency ? static_cast<uint32_t>(load) : 0;
  return comparison;
}

// The curves so far: a point of each arm for each load that was measured.
class Curves {
 public:
  explicit Curves(SweepOf what) : what_(what) {}

  void add(const MeasuredComparison& measured, double load) {
    for (const MeasuredArm& arm : measured.arms) {
      auto curve = std::ranges::find(curves_, arm.name, &Sweep::name);
      if (curve == curves_.end()) {
        curves_.push_back({.name = arm.name, .what = what_, .points = {}});
        curve = std::prev(curves_.end());
      }
      curve->points.push_back(measured_point(measured, arm.name, load));
    }
    caption_ = caption_of(measured);
    for (const std::string& line : overview_of(measured, analyse(measured))) {
      overview_ += format("%s %g: ", std::string(sweep_word(what_)).c_str(), load) + line + "\n";
    }
  }
  // Whether no arm bears more.
  bool all_saturated() const {
    return !curves_.empty() && std::ranges::all_of(curves_, [](const Sweep& curve) {
      return saturation_of(curve).has_value();
    });
  }
  std::string text() const {
    std::string out = "\n" + overview_ + "\n";
    for (const Sweep& curve : curves_) out += sweep_text(curve);
    return out;
  }
  Status draw(const std::string& folder, const std::string& loads, PictureFormat format) const {
    if (curves_.empty()) return {};
    return write_pictures({sweep_chart(curves_, SweepLatency::ttft),
                           sweep_chart(curves_, SweepLatency::latency),
                           sweep_chart(curves_, SweepLatency::gap)},
                          loads + ", the last of them: " + caption_, folder, format)
        .take_status();
  }

 private:
  const SweepOf what_;
  std::vector<Sweep> curves_;
  std::string overview_, caption_;
};

}  // namespace

Result<int> compare_at_loads(const CompareFlags& flags, const Comparison& comparison,
                             const std::string& folder, const CompareOne& compare_one) {
  TENON_ASSIGN_OR_RETURN(const SweepRange range, parse_sweep(flags.sweep));
  if (comparison.probes > 0) {
    return invalid_argument("--sweep " + in_quotes(flags.sweep) +
                            " – the comparison searches a rate by itself (goodput); take one");
  }
  Curves curves(range.what);
  int worst = 0;
  for (const double load : range.values) {
    const std::string into =
        folder + format("/%s-%g", std::string(sweep_word(range.what)).c_str(), load);
    const Result<int> status = compare_one(at_load(comparison, range, load), into);
    if (interrupted()) return interrupted_status();
    if (!status.ok()) return copy(status.status());
    worst = std::max(worst, *status);
    std::vector<std::string> notes;
    TENON_ASSIGN_OR_RETURN(const MeasuredComparison measured, compare::read_folder(into, notes));
    curves.add(measured, load);
    // Higher rates would only queue for longer.
    if (range.what == SweepOf::rate && curves.all_saturated()) break;
  }
  put(printable(curves.text(), size_t{1} << 20));
  const auto wanted = picture_format(flags.pictures);
  TENON_RETURN_IF_ERROR(curves.draw(folder, flags.sweep, wanted.value_or(PictureFormat::svg)));
  if (!flags.quiet) say("pictures: " + folder + "/pictures");
  return worst;
}

}  // namespace tenon
