// `tenon calibrate`: measures steps of small models on this machine, and writes the machine file
// that simulations of it take.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/base/clock.h"
#include "core/base/files/new_file.h"
#include "core/base/machine/cpu_features.h"
#include "core/base/machine/host_facts.h"
#include "core/base/machine/system_memory.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/exec/cpu/limits/machine_limits.h"
#include "core/report/pages/picture.h"
#include "core/sim/machine_file.h"
#include "tools/tenon/calibrate/against.h"
#include "tools/tenon/calibrate/measure.h"
#include "tools/tenon/calibrate/models.h"
#include "tools/tenon/calibrate/picture.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/outputs.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct CalibrateFlags {
  std::string out, title, picture, against;
  std::optional<double> pace;
  uint32_t threads = 0, repeats = 3;
  bool json = false;
};

// Models to fit to, of different width and depth so that overheads of a layer are told from
// products: one stays in a core's caches, two are larger than any cache. One between them is only
// predicted.
struct Shape : CalibrationShape {
  bool held_out;
};
constexpr Shape kShapes[] = {{{"tale", 0}, false},
                             {{"smollm-135m", 4}, false},
                             {{"smollm-135m", 40}, false},
                             {{"smollm-360m", 16}, false},
                             {{"smollm-135m", 12}, true}};
const std::vector<double> kPoints = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
const std::vector<StepPlan> kPlans = {{1, 16},  {1, 48},  {1, 128}, {1, 384}, {1, 1000},
                                      {2, 32},  {3, 24},  {4, 16},  {8, 16},  {16, 16},
                                      {32, 16}, {4, 220}, {12, 100}};
constexpr double kLimitSeconds = 1.0;
// What is read again from caches: from 2 MiB to 512 MiB.
constexpr uint64_t kLeastReread = uint64_t{2} << 20, kMostReread = uint64_t{512} << 20;
constexpr double kRereadSeconds = 0.3;
// Caches that are hardly faster than memory are none.
constexpr double kFaster = 1.05;
// Shares of the processors that mean that others took part of what was measured.
constexpr double kBusyShare = 0.9;
// Copies between two places of one memory: read and written.
constexpr double kCopyShare = 0.5;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

// Up to the point from which on the memory is as fast.
sim::CachedReading cached_reading(uint32_t threads, double bandwidth) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = kLeastReread; bytes <= kMostReread; bytes *= 2) sizes.push_back(bytes);
  const std::vector<double> rates =
      measure_rereading(host_facts().cpu, threads, sizes, kRereadSeconds);
  sim::CachedReading out;
  double last = 1e30;
  for (size_t i = 0; i < rates.size(); ++i) {
    last = std::min(last, rates[i] * 1e9);
    const bool faster = last > bandwidth * kFaster;
    if (!faster && out.bytes.empty()) return out;
    out.bytes.push_back(static_cast<double>(sizes[i]));
    out.bandwidths.push_back(faster ? last : bandwidth);
    if (!faster) break;
  }
  return out;
}

sim::Machine limits_of(const CalibrateFlags& flags, const MachineLimits& limits) {
  sim::Machine out;
  out.name = fs::path(flags.out).stem().string();
  out.title = flags.title.empty() ? cpu_brand() + ", " + std::to_string(flags.threads) + " threads"
                                  : flags.title;
  out.source = "steps of small models, measured by tenon calibrate";
  out.calibrated = true;
  out.date = today();
  out.memory_bytes = total_memory_bytes();
  out.bandwidth = limits.read_median_gbps * 1e9;
  out.cached = cached_reading(flags.threads, out.bandwidth);
  out.link_bandwidth = out.bandwidth * kCopyShare;
  out.attention_operations = limits.fma_flops;
  // Of formats that the set has no instruction for: what converts and multiplies in f32.
  out.products = {{.format = "bf16",
                   .operations = std::max(limits.bf16_flops, limits.fma_flops),
                   .rows = {1},
                   .shares = {1}},
                  {.format = "q8_0",
                   .operations = std::max(limits.int8_ops, limits.fma_flops),
                   .rows = {1},
                   .shares = {1}}};
  return out;
}

struct Measurements {
  std::vector<CalibratedModel> models;
  std::vector<sim::MeasuredStep> steps;
};

Status measure_all(const CalibrateFlags& flags, Measurements& out) {
  TENON_ASSIGN_OR_RETURN(const TemporaryModels folder, TemporaryModels::make());
  for (const Shape& shape : kShapes) {
    std::string name = shape.shape;
    if (shape.layers > 0) name += " of " + std::to_string(shape.layers) + " layers";
    TENON_ASSIGN_OR_RETURN(const std::string bf16, folder.folder(shape));
    out.models.push_back({name + ", bf16", bf16, shape.held_out});
    TENON_ASSIGN_OR_RETURN(const std::string q8_0, folder.eight_bits(bf16));
    out.models.push_back({name + ", q8_0", q8_0, shape.held_out});
  }
  for (uint32_t round = 1; round <= flags.repeats; ++round) {
    const std::string of_all = std::to_string(round) + " of " + std::to_string(flags.repeats);
    for (CalibratedModel& model : out.models) {
      say("round " + of_all + ": " + model.name);
      TENON_RETURN_IF_ERROR(measure_round(kPlans, flags.threads, model));
    }
  }
  for (const CalibratedModel& model : out.models) {
    for (sim::MeasuredStep& step : measured_steps(kPlans, model)) {
      out.steps.push_back(std::move(step));
    }
  }
  return {};
}

void print_fit(const sim::Fit& fit) {
  putf("%-44s %12s %12s %8s\n", "step", "measured µs", "fitted µs", "error");
  for (const sim::FittedStep& each : fit.steps) {
    putf("%-44s %12.0f %12.0f %+7.1f %%%s\n", each.step->name.c_str(), each.step->seconds * 1e6,
         each.seconds * 1e6, each.error() * 100, each.step->held_out ? "  held out" : "");
  }
  putf("mean error: %.1f %% of steps fitted to, %.1f %% of those held out\n", fit.mean_error * 100,
       fit.held_out_error * 100);
}

Status calibrate(CalibrateFlags flags) {
  if (flags.threads == 0) flags.threads = host_facts().workers;
  if (!flags.against.empty()) {
    return pace_against({.machine = flags.against,
                         .out = flags.out,
                         .pace = flags.pace,
                         .threads = flags.threads,
                         .json = flags.json});
  }
  if (flags.out.empty()) flags.out = "machine.toml";
  const std::string picture = flags.picture.empty()
                                  ? fs::path(flags.out).replace_extension(".svg").string()
                                  : flags.picture;
  for (const std::string& file : {flags.out, picture}) TENON_RETURN_IF_ERROR(check_output(file));
  const WallClock clock;
  const int64_t began_ns = clock.now_ns();
  say("measuring what " + std::to_string(flags.threads) + " threads can do at most");
  const MachineLimits limits =
      measure_machine_limits(host_facts().cpu, flags.threads, kLimitSeconds);
  Measurements measured;
  TENON_RETURN_IF_ERROR(measure_all(flags, measured));
  TENON_ASSIGN_OR_RETURN(const sim::Fit fit,
                         sim::fit_machine(limits_of(flags, limits), kPoints, measured.steps));
  sim::Machine machine = fit.machine;
  if (limits.processor_share < kBusyShare) {
    char share[96];
    std::snprintf(share, sizeof(share), "; busy: %.0f %% of the processors were given to it",
                  limits.processor_share * 100);
    machine.source += share;
  }
  if (const Status status = sim::check_machine(machine); !status.ok()) {
    return with_context("what was fitted", status);
  }
  print_fit(fit);
  if (limits.processor_share < kBusyShare) {
    tell(
        "warning: other programs took part of the processors meanwhile; calibrate again when the "
        "machine is quiet");
  }
  TENON_RETURN_IF_ERROR(write_file(flags.out, {sim::machine_toml(machine)}));
  TENON_RETURN_IF_ERROR(
      write_file(picture, {svg_file(fit_picture(fit), machine.title + ", " + machine.date)}));
  putf("wrote %s and %s in %.0f s\n", flags.out.c_str(), picture.c_str(),
       static_cast<double>(clock.now_ns() - began_ns) * 1e-9);
  return {};
}

}  // namespace

void add_calibrate_command(Command app, Action& action) {
  auto flags = std::make_shared<CalibrateFlags>();
  Command command = app.add_subcommand(
      "calibrate", "Measure this machine, and write the file that `tenon simulate` takes");
  add_text(command, "--out", flags->out, "machine file to write (default: machine.toml)");
  Option against =
      add_text(command, "--against", flags->against,
               "calibrate nothing: say how much longer steps take now than this machine file says, "
               "and write it at that pace to --out, if that is given");
  command.add_flag("--json", flags->json, "of --against: the figures as one document")
      .needs(against);
  add_number(command, real_number("--pace", 0.01, 100), flags->pace,
             "of --against: measure nothing, and write the file at this pace")
      .needs(against);
  add_text(command, "--title", flags->title, "what reports call it (default: the processor)");
  add_text(command, "--picture", flags->picture,
           "SVG file of the fit (default: as --out, with .svg)");
  add_number(command, whole_number("--threads", 1, 512), flags->threads,
             "workers of the executor (default: all cores)");
  add_number(command, whole_number("--repeats", 1, 1000), flags->repeats,
             "rounds through all steps, of which the median counts (default: 3)");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = calibrate(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
