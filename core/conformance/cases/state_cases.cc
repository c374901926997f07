// What <tenon/state.h> promises, by the recurrence of the kind "mamba" (docs/futures.md).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/quote.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/watch/guarded_memory.h"
#include "core/conformance/watch/run_watch.h"
#include "core/conformance/worlds/slices.h"
#include "core/contract/checked_state.h"

namespace tenon {
namespace {

// Sizes of a layer of the kind "mamba": the one whose formula is shortest.
constexpr uint32_t kChannels = 19, kState = 5, kWidth = 4;
constexpr uint64_t kKept = uint64_t{kWidth - 1} * kChannels;
constexpr uint64_t kStateFloats = kKept + uint64_t{kState} * kChannels;
constexpr uint32_t kRows = 24, kMostSequences = 3, kSlots = 12;
constexpr LayerId kLayers = 2, kTried = 1;  // a slot has the state of both
constexpr uint64_t kSlotFloats = kLayers * kStateFloats;
constexpr uint32_t kTogether = 5;  // so many slices, and they run at once

std::vector<float> numbers(uint64_t seed, uint64_t count) {
  CaseRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.value();
  return values;
}

// The inputs of a text of kRows tokens.
struct Text {
  std::vector<float> x, dt, bc;

  explicit Text(uint64_t seed)
      : x(numbers(seed * 7 + 1, kRows * kChannels)),
        dt(numbers(seed * 7 + 2, kRows * kChannels)),
        bc(numbers(seed * 7 + 3, kRows * 2 * kState)) {}
};

// Rows of a text in a step, and the slots of its table.
struct Part {
  const Text& text;
  uint32_t first = 0;
  uint32_t rows = 0;
  std::vector<BlockId> blocks;  // where it starts, and where states go …
  std::vector<uint32_t> ends;   // … after so many tokens
};

std::vector<float> gathered(const std::vector<Part>& parts, std::vector<float> Text::*of,
                            uint32_t width) {
  std::vector<float> all;
  for (const Part& part : parts) {
    const auto from = (part.text.*of).begin() + ptrdiff_t{part.first} * width;
    all.insert(all.end(), from, from + ptrdiff_t{part.rows} * width);
  }
  return all;
}

class Bench {
 public:
  static Result<std::unique_ptr<Bench>> make(Subject& subject, uint32_t slices) {
    auto made = std::make_unique<Bench>(subject.seed(), slices);
    TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<StateKernel>());
    made->kernel_ =
        std::make_unique<CheckedState>(*made->plugin_, subject.name(), subject.checks());
    TENON_RETURN_IF_ERROR(made->kernel_->accepts(made->layers_[kTried]));
    StateBinding binding;
    binding.model = &made->model_;
    binding.groups = {&made->group_id_, 1};
    binding.storage = {&made->storage_, 1};
    binding.parameters = made->of_layers_;
    binding.max_rows = kRows;
    binding.max_sequences = kMostSequences;
    binding.slices = slices;
    TENON_RETURN_IF_ERROR(made->kernel_->bind(binding));
    return made;
  }

  Bench(uint64_t seed, uint32_t slices) : slices_(slices) {
    parameters_ = {numbers(seed + 1, kChannels * kWidth), numbers(seed + 2, kChannels),
                   numbers(seed + 3, kChannels * kState), numbers(seed + 4, kChannels),
                   numbers(seed + 5, kChannels)};
    for (float& a : parameters_[2]) a = -std::exp(a);
    for (const auto& values : parameters_) {
      TensorView& view = views_.emplace_back();
      view.data = values.data();
      view.rank = 1;
      view.shape[0] = values.size();
    }
    for (LayerId id = 0; id < kLayers; ++id) {
      LayerShape& layer = layers_[id];
      layer.group = kNoGroup;
      layer.state_group = 0;
      layer.state_kind = "mamba";
      layer.state_dims[0] = kChannels;
      layer.state_dims[1] = kState;
      layer.state_dims[2] = kWidth;
      layer.state_bytes = kStateFloats * sizeof(float);
      layer.state_offset = id * layer.state_bytes;
      of_layers_[id] = views_;
    }
    group_.kind = KvKind::recurrent;
    group_.layers = kLayers;
    group_.state_bytes = kSlotFloats * sizeof(float);
    model_.layer_count = kLayers;
    model_.group_count = 1;
    model_.hidden = kChannels;
    model_.context_tokens = kRows;
    model_.groups = &group_;
    model_.layers = layers_;
    slots_.emplace(kSlots * group_.state_bytes);
    storage_ = {slots_->as<std::byte>(), group_.state_bytes};
  }

  // From here on; null = not.
  void watch_runs(RunWatch* watch) { watch_ = watch; }

  // The layer's part of it.
  std::vector<float> slot(BlockId block) const {
    const float* from =
        slots_->as<float>() + static_cast<uint64_t>(block) * kSlotFloats + kTried * kStateFloats;
    return {from, from + kStateFloats};
  }
  // Whether the parts of other layers are as they were made.
  bool others_are_untouched() const {
    for (uint64_t i = 0; i < kSlots * kSlotFloats; ++i) {
      const bool is_tried = i % kSlotFloats / kStateFloats == kTried;
      if (!is_tried && !std::isnan(slots_->as<float>()[i])) return false;
    }
    return true;
  }
  const std::vector<float>& parameter(size_t which) const { return parameters_[which]; }

  // y [rows, channels] of all parts, one after the other.
  Result<std::vector<float>> step(const std::vector<Part>& parts) {
    std::vector<BatchSequence> sequences;
    std::vector<KvTableView> tables;
    uint32_t rows = 0;
    for (const Part& part : parts) {
      sequences.push_back({static_cast<SeqId>(sequences.size()), rows, part.rows, 0, 0});
      tables.push_back({part.blocks, part.ends, 0});
      rows += part.rows;
    }
    const BatchGroup group{{}, {}, tables};
    BatchView batch;
    batch.step_id = ++step_;
    batch.rows = batch.padded_rows = rows;
    batch.padded_sequences = static_cast<uint32_t>(parts.size());
    batch.sequences = sequences;
    batch.groups = {&group, 1};
    const GuardedMemory plan(kernel_->plan_bytes(0)), workspace(kernel_->workspace_bytes(0));
    KernelPlanOut planned;
    TENON_RETURN_IF_ERROR(kernel_->plan({0, &batch, plan.get()}, planned));
    const auto memory = [&](std::vector<float> Text::*of, uint32_t width) {
      return GuardedMemory::copy_of(std::span<const float>(gathered(parts, of, width)));
    };
    const GuardedMemory x = memory(&Text::x, kChannels), dt = memory(&Text::dt, kChannels),
                        bc = memory(&Text::bc, 2 * kState);
    const GuardedMemory c(rows * kChannels * sizeof(float)), y(rows * kChannels * sizeof(float));
    StateCall call;
    call.layer = kTried;
    call.plan = plan.get();
    call.workspace = workspace.get();
    call.padded_rows = rows;
    call.padded_sequences = batch.padded_sequences;
    const void* first[] = {x.get()};
    const void* second[] = {c.get(), dt.get(), bc.get()};
    if (watch_ != nullptr) watch_->begin();
    call.inputs = first;
    call.out = c.get();
    TENON_RETURN_IF_ERROR(run(call, planned.phases));
    call.inputs = second;
    call.out = y.get();
    TENON_RETURN_IF_ERROR(run(call, planned.phases));
    if (watch_ != nullptr) watch_->end();
    if (!plan.intact() || !workspace.intact() || !c.intact() || !y.intact() || !slots_->intact()) {
      return internal("plan or run wrote beside the memory that it was given");
    }
    if (!others_are_untouched()) return internal("run wrote to the state of another layer");
    return std::vector<float>(y.as<float>(), y.as<float>() + size_t{rows} * kChannels);
  }

 private:
  Status run(const StateCall& call, uint32_t phases) {
    for (uint32_t phase = 0; phase < phases; ++phase) {
      if (slices_ >= kTogether) {
        TENON_RETURN_IF_ERROR(run_together(call, phase));
        continue;
      }
      for (uint32_t slice = slices_; slice-- > 0;) {
        TENON_RETURN_IF_ERROR(kernel_->run(call, phase, {slice, slices_}));
      }
    }
    return {};
  }
  Status run_together(const StateCall& call, uint32_t phase) {
    return run_at_once(slices_, [&](uint32_t slice) {
      return kernel_->run(call, phase, {slice, slices_});
    });
  }

  const uint32_t slices_;
  RunWatch* watch_ = nullptr;
  std::vector<std::vector<float>> parameters_;
  std::vector<TensorView> views_;
  std::span<const TensorView> of_layers_[kLayers];
  LayerShape layers_[kLayers];
  KvGroup group_;
  ModelShape model_;
  std::optional<GuardedMemory> slots_;
  StateStorage storage_;
  const GroupId group_id_ = 0;
  PluginInstance<StateKernel> plugin_;
  std::unique_ptr<CheckedState> kernel_;
  uint64_t step_ = 0;
};

// Lets `body` find something; its errors are broken promises. Kernels of other kinds are not asked.
template <typename Body>
Finding with_bench(Subject& subject, uint32_t slices, Body body) {
  auto bench = Bench::make(subject, slices);
  if (!bench.ok() && bench.status().code() == StatusCode::unsupported) {
    return skipped("it does not run the kind mamba: " + message_of(bench.status()));
  }
  if (!bench.ok()) return broke(message_of(bench.status()));
  const Result<Finding> found = body(**bench);
  return found.ok() ? *found : broke(message_of(found.status()));
}

double softplus(double x) {
  return std::log1p(std::exp(x));
}

// All rows of a text from nothing, in double precision.
std::vector<double> wanted_rows(const Bench& bench, const Text& text, uint32_t rows) {
  std::vector<double> h(uint64_t{kState} * kChannels, 0.0), y;
  for (uint32_t t = 0; t < rows; ++t) {
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      double c = bench.parameter(1)[channel];
      for (uint32_t j = 0; j < kWidth; ++j) {
        if (t + 1 + j < kWidth) continue;
        const uint64_t from = uint64_t{t + 1 + j - kWidth} * kChannels + channel;
        c += double{bench.parameter(0)[channel * kWidth + j]} * text.x[from];
      }
      c = c / (1 + std::exp(-c));
      const double delta = softplus(double{text.dt[uint64_t{t} * kChannels + channel]} +
                                    bench.parameter(3)[channel]);
      double out = bench.parameter(4)[channel] * c;
      for (uint32_t n = 0; n < kState; ++n) {
        double& kept = h[uint64_t{n} * kChannels + channel];
        kept = std::exp(delta * bench.parameter(2)[channel * kState + n]) * kept +
               delta * text.bc[uint64_t{t} * 2 * kState + n] * c;
        out += text.bc[uint64_t{t} * 2 * kState + kState + n] * kept;
      }
      y.push_back(out);
    }
  }
  return y;
}

Finding follows_the_formula(Subject& subject) {
  return with_bench(subject, 2, [&](Bench& bench) -> Result<Finding> {
    const Text text(subject.seed());
    TENON_ASSIGN_OR_RETURN(const std::vector<float> y,
                           bench.step({{text, 0, kRows, {kNoBlock, 3}, {0, kRows}}}));
    const std::vector<double> wanted = wanted_rows(bench, text, kRows);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::abs(y[i] - wanted[i]) <= 1e-3 * (1 + std::abs(wanted[i]))) continue;
      return broke("row " + std::to_string(i / kChannels) + ", channel " +
                   std::to_string(i % kChannels) + " is " + std::to_string(y[i]) +
                   ", by the formula " + std::to_string(wanted[i]));
    }
    return Finding();
  });
}

Finding gives_rows_their_own_bits(Subject& subject) {
  if (subject.provides("numerics.rows", "batch")) return skipped("it states numerics.rows = batch");
  return with_bench(subject, 2, [&](Bench& bench) -> Result<Finding> {
    const Text text(subject.seed()), other(subject.seed() + 1);
    TENON_ASSIGN_OR_RETURN(const std::vector<float> whole,
                           bench.step({{text, 0, kRows, {kNoBlock, 1}, {0, kRows}}}));
    const std::vector<float> state = bench.slot(1);
    std::vector<uint32_t> ways(30, kTogether);  // so often that slices meet
    ways[0] = 1, ways[1] = 2;
    for (const uint32_t slices : ways) {
      TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> again, Bench::make(subject, slices));
      std::vector<float> cut;
      BlockId from = kNoBlock, to = 2;
      for (uint32_t first = 0; first < kRows;) {
        const uint32_t rows = std::min(1 + first % 6, kRows - first);
        std::vector<Part> parts;
        parts.push_back({text, first, rows, {from, to}, {first, first + rows}});
        parts.push_back({other, 0, 2, {kNoBlock, 8}, {0, 2}});
        TENON_ASSIGN_OR_RETURN(const std::vector<float> y, again->step(parts));
        cut.insert(cut.end(), y.begin(), y.begin() + ptrdiff_t{rows} * kChannels);
        first += rows;
        from = std::exchange(to, to == 2 ? 5 : 2);
      }
      if (std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)) != 0) {
        return broke("rows have other bits in small steps, with " + std::to_string(slices) +
                     " slices, beside another sequence");
      }
      if (std::memcmp(again->slot(from).data(), state.data(), kStateFloats * sizeof(float)) != 0) {
        return broke("the state has other bits when it was reached in small steps");
      }
    }
    return Finding();
  });
}

Finding leaves_its_start_alone(Subject& subject) {
  return with_bench(subject, 3, [&](Bench& bench) -> Result<Finding> {
    const Text text(subject.seed());
    TENON_ASSIGN_OR_RETURN(const std::vector<float> first,
                           bench.step({{text, 0, 5, {kNoBlock, 4}, {0, 5}}}));
    const std::vector<float> before = bench.slot(4);
    // States after some drafts, of which the last ones are not reached.
    TENON_ASSIGN_OR_RETURN(const std::vector<float> second,
                           bench.step({{text, 5, 3, {4, 6, 7, 9}, {5, 6, 8, 11}}}));
    const std::vector<float> after = bench.slot(4);
    if (std::memcmp(before.data(), after.data(), before.size() * sizeof(float)) != 0) {
      return broke("the slot that a step starts from was changed");
    }
    const std::vector<float> unreached = bench.slot(9);
    if (std::any_of(unreached.begin(), unreached.end(), [](float x) { return !std::isnan(x); })) {
      return broke("a slot behind more tokens than the step has rows was written");
    }
    TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> again, Bench::make(subject, 1));
    TENON_ASSIGN_OR_RETURN(const std::vector<float> whole,
                           again->step({{text, 0, 6, {kNoBlock, 1}, {0, 6}}}));
    const std::vector<float> wanted = again->slot(1), found = bench.slot(6);
    if (std::memcmp(wanted.data(), found.data(), wanted.size() * sizeof(float)) != 0) {
      return broke("the state behind one of three rows is not the one behind that row");
    }
    return Finding();
  });
}

Finding runs_without_allocating(Subject& subject) {
  auto bench = Bench::make(subject, 2);
  if (!bench.ok()) return broke(message_of(bench.status()));
  const Text text(subject.seed());
  RunWatch watch(subject);
  for (uint32_t i = 0; i < 3; ++i) {
    (*bench)->watch_runs(i == 2 ? &watch : nullptr);
    const auto y = (*bench)->step({{text, 0, kRows, {kNoBlock, 1}, {0, kRows}}});
    if (!y.ok()) return broke(message_of(y.status()));
  }
  return watch.finding(CaseVerdict::fail, "expected all scratch memory in `workspace`");
}

}  // namespace

Result<Transcript> exercise_state(Subject& subject, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::make(subject, 2));
  const Text text(seed);
  TENON_ASSIGN_OR_RETURN(const std::vector<float> y,
                         bench->step({{text, 0, kRows, {kNoBlock, 1}, {0, kRows}}}));
  Transcript transcript;
  for (size_t i = 0; i < y.size(); i += 11) {
    uint32_t bits;
    std::memcpy(&bits, &y[i], sizeof(bits));
    transcript.push_back("y[" + std::to_string(i) + "] has the bits " + std::to_string(bits));
  }
  return transcript;
}

CaseList state_cases() {
  constexpr std::string_view kOf = "state", kHeader = "state.h";
  return {
      {"state.formula", kOf, kHeader,
       "writes the state after each token count that the table names", &follows_the_formula},
      {"state.same_bits", kOf, kHeader,
       "A kernel promises equal bits for a row whatever else is in the batch and however the "
       "sequence "
       "was cut into steps",
       &gives_rows_their_own_bits},
      {"state.start", kOf, kHeader, "a step starts from one slot, which it never changes",
       &leaves_its_start_alone},
      {"state.memory", kOf, kHeader,
       "Plans, workspaces, queues and captured graphs are as in <tenon/attention.h>.",
       &runs_without_allocating},
  };
}

}  // namespace tenon
