// What <tenon/state.h> promises, by recurrences of all kinds that the kernel accepts.
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
#include "core/conformance/worlds/state_kinds.h"
#include "core/contract/checked_state.h"

namespace tenon {
namespace {

constexpr uint32_t kRows = 24, kMostSequences = 3, kSlots = 12;
constexpr LayerId kLayers = 2, kTried = 1;  // a slot has the state of both
constexpr uint32_t kTogether = 5;           // so many slices, and they run at once

std::vector<float> numbers(uint64_t seed, uint64_t count) {
  CaseRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.value();
  return values;
}

// The inputs of a text of kRows tokens.
struct Text {
  std::vector<std::vector<float>> inputs;

  Text(const StateKind& kind, uint64_t seed) {
    for (const uint32_t width : kind.inputs) {
      inputs.push_back(numbers(seed * 7 + inputs.size() + 1, uint64_t{kRows} * width));
    }
  }
};

// Rows of a text in a step, and the slots of its table.
struct Part {
  const Text& text;
  uint32_t first = 0;
  uint32_t rows = 0;
  std::vector<BlockId> blocks;  // where it starts, and where states go …
  std::vector<uint32_t> ends;   // … after so many tokens
};

std::vector<float> gathered(const std::vector<Part>& parts, size_t input, uint32_t width) {
  std::vector<float> all;
  for (const Part& part : parts) {
    const auto from = part.text.inputs[input].begin() + ptrdiff_t{part.first} * width;
    all.insert(all.end(), from, from + ptrdiff_t{part.rows} * width);
  }
  return all;
}

class Bench {
 public:
  static Result<std::unique_ptr<Bench>> make(Subject& subject, const StateKind& kind,
                                             uint32_t slices) {
    auto made = std::make_unique<Bench>(kind, subject.seed(), slices);
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

  Bench(const StateKind& kind, uint64_t seed, uint32_t slices) : kind_(kind), slices_(slices) {
    for (const uint64_t count : kind.parameters) {
      parameters_.push_back(numbers(seed + parameters_.size() + 1, count));
    }
    kind.settle(parameters_);
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
      layer.state_kind = kind.kind.name;
      std::ranges::copy(kind.kind.dims(kind.plan), layer.state_dims);
      layer.state_bytes = kind.floats * sizeof(float);
      layer.state_offset = id * layer.state_bytes;
      of_layers_[id] = views_;
    }
    group_.kind = KvKind::recurrent;
    group_.layers = kLayers;
    group_.state_bytes = slot_floats() * sizeof(float);
    model_.layer_count = kLayers;
    model_.group_count = 1;
    model_.hidden = kind.out;
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
        slots_->as<float>() + static_cast<uint64_t>(block) * slot_floats() + kTried * kind_.floats;
    return {from, from + kind_.floats};
  }
  // Whether the parts of other layers are as they were made.
  bool others_are_untouched() const {
    for (uint64_t i = 0; i < kSlots * slot_floats(); ++i) {
      const bool is_tried = i % slot_floats() / kind_.floats == kTried;
      if (!is_tried && !std::isnan(slots_->as<float>()[i])) return false;
    }
    return true;
  }
  const StateKind& kind() const { return kind_; }
  const StateKind::Arrays& parameters() const { return parameters_; }

  // y [rows, out] of all parts, one after the other.
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
    std::vector<GuardedMemory> inputs;
    for (size_t i = 0; i < kind_.inputs.size(); ++i) {
      const std::vector<float> values = gathered(parts, i, kind_.inputs[i]);
      inputs.push_back(GuardedMemory::copy_of(std::span<const float>(values)));
    }
    const GuardedMemory c(uint64_t{rows} * kind_.channels * sizeof(float)),
        y(uint64_t{rows} * kind_.out * sizeof(float));
    StateCall call;
    call.layer = kTried;
    call.plan = plan.get();
    call.workspace = workspace.get();
    call.padded_rows = rows;
    call.padded_sequences = batch.padded_sequences;
    std::vector<const void*> all;
    for (const GuardedMemory& input : inputs) all.push_back(input.get());
    if (watch_ != nullptr) watch_->begin();
    if (kind_.twice) {
      call.inputs = std::span(all).first(1);
      call.out = c.get();
      TENON_RETURN_IF_ERROR(run(call, planned.phases));
      all[0] = c.get();
    }
    call.inputs = all;
    call.out = y.get();
    TENON_RETURN_IF_ERROR(run(call, planned.phases));
    if (watch_ != nullptr) watch_->end();
    if (!plan.intact() || !workspace.intact() || !c.intact() || !y.intact() || !slots_->intact()) {
      return internal("plan or run wrote beside the memory that it was given");
    }
    if (!others_are_untouched()) return internal("run wrote to the state of another layer");
    return std::vector<float>(y.as<float>(), y.as<float>() + size_t{rows} * kind_.out);
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

  uint64_t slot_floats() const { return kLayers * kind_.floats; }

  const StateKind& kind_;
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

// Lets `body` find something with each kind that the kernel runs; its errors are broken promises.
template <typename Body>
Finding with_each_kind(Subject& subject, uint32_t slices, Body body) {
  std::string refusals;
  bool any = false;
  for (const StateKind& kind : state_kinds()) {
    auto bench = Bench::make(subject, kind, slices);
    if (!bench.ok() && bench.status().code() == StatusCode::unsupported) {
      refusals += (refusals.empty() ? "" : "; ") + message_of(bench.status());
      continue;
    }
    any = true;
    const auto of_kind = [&](const Status& status) {
      return broke("of the kind " + std::string(kind.what) + ": " + message_of(status));
    };
    if (!bench.ok()) return of_kind(bench.status());
    const Result<Finding> found = body(**bench);
    if (!found.ok()) return of_kind(found.status());
    if (found->verdict != CaseVerdict::pass) return *found;
  }
  return any ? Finding() : skipped("it runs none of the kinds that are tried: " + refusals);
}

Finding follows_the_formula(Subject& subject) {
  return with_each_kind(subject, 2, [&](Bench& bench) -> Result<Finding> {
    const StateKind& kind = bench.kind();
    const Text text(kind, subject.seed());
    TENON_ASSIGN_OR_RETURN(const std::vector<float> y,
                           bench.step({{text, 0, kRows, {kNoBlock, 3}, {0, kRows}}}));
    const std::vector<float> wanted = kind.rows(bench.parameters(), text.inputs, kRows);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::abs(y[i] - wanted[i]) <= 1e-3 * (1 + std::abs(wanted[i]))) continue;
      return broke("row " + std::to_string(i / kind.out) + ", channel " +
                   std::to_string(i % kind.out) + " is " + std::to_string(y[i]) +
                   ", by the formula of " + std::string(kind.what) + " " +
                   std::to_string(wanted[i]));
    }
    return Finding();
  });
}

Finding gives_rows_their_own_bits(Subject& subject) {
  if (subject.provides("numerics.rows", "batch")) return skipped("it states numerics.rows = batch");
  return with_each_kind(subject, 2, [&](Bench& bench) -> Result<Finding> {
    const StateKind& kind = bench.kind();
    const Text text(kind, subject.seed()), other(kind, subject.seed() + 1);
    TENON_ASSIGN_OR_RETURN(const std::vector<float> whole,
                           bench.step({{text, 0, kRows, {kNoBlock, 1}, {0, kRows}}}));
    const std::vector<float> state = bench.slot(1);
    std::vector<uint32_t> ways(30, kTogether);  // so often that slices meet
    ways[0] = 1, ways[1] = 2;
    for (const uint32_t slices : ways) {
      TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> again,
                             Bench::make(subject, kind, slices));
      std::vector<float> cut;
      BlockId from = kNoBlock, to = 2;
      for (uint32_t first = 0; first < kRows;) {
        const uint32_t rows = std::min(1 + first % 6, kRows - first);
        std::vector<Part> parts;
        parts.push_back({text, first, rows, {from, to}, {first, first + rows}});
        parts.push_back({other, 0, 2, {kNoBlock, 8}, {0, 2}});
        TENON_ASSIGN_OR_RETURN(const std::vector<float> y, again->step(parts));
        cut.insert(cut.end(), y.begin(), y.begin() + ptrdiff_t{rows} * kind.out);
        first += rows;
        from = std::exchange(to, to == 2 ? 5 : 2);
      }
      if (std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)) != 0) {
        return broke("rows have other bits in small steps, with " + std::to_string(slices) +
                     " slices, beside another sequence");
      }
      if (std::memcmp(again->slot(from).data(), state.data(), state.size() * sizeof(float)) != 0) {
        return broke("the state has other bits when it was reached in small steps");
      }
    }
    return Finding();
  });
}

Finding leaves_its_start_alone(Subject& subject) {
  return with_each_kind(subject, 3, [&](Bench& bench) -> Result<Finding> {
    const Text text(bench.kind(), subject.seed());
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
    TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> again,
                           Bench::make(subject, bench.kind(), 1));
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
  return with_each_kind(subject, 2, [&](Bench& bench) -> Result<Finding> {
    const Text text(bench.kind(), subject.seed());
    RunWatch watch(subject);
    for (uint32_t i = 0; i < 3; ++i) {
      bench.watch_runs(i == 2 ? &watch : nullptr);
      auto y = bench.step({{text, 0, kRows, {kNoBlock, 1}, {0, kRows}}});
      if (!y.ok()) return y.take_status();
    }
    return watch.finding(CaseVerdict::fail, "expected all scratch memory in `workspace`");
  });
}

}  // namespace

Result<Transcript> exercise_state(Subject& subject, uint64_t seed) {
  Transcript transcript;
  Status refusal;
  for (const StateKind& kind : state_kinds()) {
    auto bench = Bench::make(subject, kind, 2);
    if (!bench.ok() && bench.status().code() == StatusCode::unsupported) {
      refusal = bench.take_status();
      continue;
    }
    if (!bench.ok()) return bench.take_status();
    const Text text(kind, seed);
    TENON_ASSIGN_OR_RETURN(const std::vector<float> y,
                           (*bench)->step({{text, 0, kRows, {kNoBlock, 1}, {0, kRows}}}));
    for (size_t i = 0; i < y.size(); i += 11) {
      uint32_t bits;
      std::memcpy(&bits, &y[i], sizeof(bits));
      transcript.push_back("y[" + std::to_string(i) + "] has the bits " + std::to_string(bits));
    }
  }
  if (transcript.empty()) return refusal;
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
