// `tenon calibrate`: measures steps of small models on this machine, and writes the machine file
// that simulations of it take.
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>

#include "core/base/clock.h"
#include "core/base/files/new_file.h"
#include "core/base/machine/cpu_features.h"
#include "core/base/machine/host_facts.h"
#include "core/base/machine/system_memory.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/exec/cpu/machine_limits.h"
#include "core/files/gguf.h"
#include "core/model/convert/convert.h"
#include "core/model/synth/synth.h"
#include "core/report/pages/picture.h"
#include "core/sim/machine_file.h"
#include "tools/tenon/calibrate/measure.h"
#include "tools/tenon/calibrate/picture.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/outputs.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct CalibrateFlags {
  std::string out = "machine.toml", title, picture;
  uint32_t threads = 0, repeats = 3;
};

// Models to fit to, of different width and depth so that overheads of a layer are told from
// products: one stays in a core's caches, one is larger than any cache. One between them is only
// predicted.
struct Shape {
  const char* shape;
  uint32_t layers;
  bool held_out;
};
constexpr Shape kShapes[] = {{"tale", 0, false},
                             {"smollm-135m", 4, false},
                             {"smollm-360m", 16, false},
                             {"smollm-135m", 12, true}};
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

class TemporaryModels {
 public:
  static Result<TemporaryModels> make() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "tenon-calibrate-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      return failed("no temporary folder can be made; set TMPDIR to one that has 1.5 GB free");
    }
    return TemporaryModels(std::move(name));
  }
  TemporaryModels(TemporaryModels&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryModels(const TemporaryModels&) = delete;
  TemporaryModels& operator=(const TemporaryModels&) = delete;
  TemporaryModels& operator=(TemporaryModels&&) = delete;
  ~TemporaryModels() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }

  // A folder in bf16.
  Result<std::string> folder(const Shape& shape) const {
    const std::string path = path_ + "/" + shape.shape + "-" + std::to_string(shape.layers);
    SynthesisOptions options;
    options.out_folder = path;
    options.layers = shape.layers;
    TENON_RETURN_IF_ERROR(synthesize_model(shape.shape, options));
    return path;
  }
  // The same in 8 bits.
  Result<std::string> eight_bits(const std::string& folder) const {
    TENON_ASSIGN_OR_RETURN(const auto model, open_model(folder));
    const std::string path = folder + ".gguf";
    TENON_RETURN_IF_ERROR(
        write_gguf_model(*model, path, {}, {.type = find_tensor_type("q8_0")}).take_status());
    return path;
  }

 private:
  explicit TemporaryModels(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

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
  out.bandwidth = limits.read_gbps * 1e9;
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

Status measure_model(const CalibrateFlags& flags, const std::string& name, const std::string& path,
                     bool held_out, Measurements& out) {
  say("measuring " + name);
  TENON_ASSIGN_OR_RETURN(CalibratedModel model,
                         open_calibrated(name, path, flags.threads, held_out));
  TENON_ASSIGN_OR_RETURN(const auto steps, measure_plans(model, kPlans, flags.repeats));
  out.steps.insert(out.steps.end(), steps.begin(), steps.end());
  // What steps need is kept, and the weights are not: the pipeline ends before its plugins.
  const llm::OpenedPipeline done = std::move(model.opened);
  out.models.push_back(std::move(model));
  return {};
}

Result<Measurements> measure_all(const CalibrateFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const TemporaryModels folder, TemporaryModels::make());
  Measurements out;
  for (const Shape& shape : kShapes) {
    std::string name = shape.shape;
    if (shape.layers > 0) name += " of " + std::to_string(shape.layers) + " layers";
    TENON_ASSIGN_OR_RETURN(const std::string bf16, folder.folder(shape));
    TENON_RETURN_IF_ERROR(measure_model(flags, name + ", bf16", bf16, shape.held_out, out));
    TENON_ASSIGN_OR_RETURN(const std::string q8_0, folder.eight_bits(bf16));
    TENON_RETURN_IF_ERROR(measure_model(flags, name + ", q8_0", q8_0, shape.held_out, out));
  }
  return out;
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
  const std::string picture = flags.picture.empty()
                                  ? fs::path(flags.out).replace_extension(".svg").string()
                                  : flags.picture;
  for (const std::string& file : {flags.out, picture}) TENON_RETURN_IF_ERROR(check_output(file));
  const WallClock clock;
  const int64_t began_ns = clock.now_ns();
  say("measuring what " + std::to_string(flags.threads) + " threads can do at most");
  const MachineLimits limits =
      measure_machine_limits(host_facts().cpu, flags.threads, kLimitSeconds);
  TENON_ASSIGN_OR_RETURN(const Measurements measured, measure_all(flags));
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
  add_text(command, "--title", flags->title, "what reports call it (default: the processor)");
  add_text(command, "--picture", flags->picture,
           "SVG file of the fit (default: as --out, with .svg)");
  add_number(command, whole_number("--threads", 1, 512), flags->threads,
             "workers of the executor (default: all cores)");
  add_number(command, whole_number("--repeats", 1, 1000), flags->repeats,
             "of each step's prompts, whose median counts (default: 3)");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = calibrate(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
