// What <tenon/attention.h> promises.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/half.h"
#include "core/base/quote.h"
#include "core/conformance/cases.h"
#include "core/conformance/exercise.h"
#include "core/conformance/guarded_memory.h"
#include "core/conformance/run_watch.h"
#include "core/contract/checked_attention.h"

namespace tenon {
namespace {

constexpr uint32_t kHeads = 4, kKvHeads = 2, kDim = 16;
constexpr uint32_t kMostRows = 64, kMostSequences = 4, kContext = 96;

std::vector<float> values_at(uint64_t seed, uint64_t position, uint32_t count) {
  CaseRandom random(seed * 100003 + position);
  std::vector<float> values(count);
  for (float& value : values) value = random.value();
  return values;
}

// A text: its q, k and v of each position follow from its seed.
struct Text {
  uint64_t seed = 0;
  std::vector<float> q(uint32_t p) const { return values_at(seed * 3, p, kHeads * kDim); }
  std::vector<float> k(uint32_t p) const { return values_at(seed * 3 + 1, p, kKvHeads * kDim); }
  std::vector<float> v(uint32_t p) const { return values_at(seed * 3 + 2, p, kKvHeads * kDim); }
};

// Rows of one text in a step: those of positions [first, first + rows).
struct Part {
  Text text;
  uint32_t sequence = 0;  // whose blocks
  uint32_t first = 0;
  uint32_t rows = 0;
};

struct Layout {
  uint32_t block_tokens = 8;
  uint32_t slices = 2;
  uint32_t window_tokens = 0;
  DType dtype = DType::f32;
  // What a layer may have beside the formula's first two lines.
  float soft_cap = 0;
  bool has_sinks = false, has_alibi = false;
  bool sees_ahead = false;  // rows see all rows of their part
  uint32_t moved_by = 0;    // BatchView::positions begin there
  bool on_threads = false;  // slices run at once
};
constexpr float kSinks[kHeads] = {0.5f, -1.0f, 2.0f, 0.0f};
constexpr float kSlopes[kHeads] = {0.25f, 0.125f, 0.5f, 0.03f};
constexpr uint32_t kLayers = 3;  // the last one reads what the first one stored

// A kernel bound to one layer, with a cache of its own.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> make(Subject& subject, const Layout& layout) {
    auto made = std::make_unique<Bench>(layout);
    TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<AttentionKernel>());
    made->kernel_ =
        std::make_unique<CheckedAttention>(*made->plugin_, subject.name(), subject.checks());
    AttentionBinding& binding = made->binding_;
    binding.model = &made->model_;
    binding.groups = {&made->group_id_, 1};
    binding.storage = {&made->storage_, 1};
    binding.max_rows = kMostRows;
    binding.max_sequences = kMostSequences;
    binding.slices = layout.slices;
    TENON_RETURN_IF_ERROR(made->kernel_->bind(binding));
    return made;
  }

  explicit Bench(const Layout& layout)
      : layout_(layout), row_bytes_(kv_row_bytes(layout.dtype, kDim)) {
    blocks_each_ = (kContext + layout.block_tokens - 1) / layout.block_tokens;
    const uint64_t head_bytes = layout.block_tokens * row_bytes_;
    const uint64_t block_bytes = kKvHeads * head_bytes;
    const uint64_t plane_bytes = kMostSequences * blocks_each_ * block_bytes;
    // Every byte is set to what reads as NaN: slots that nobody wrote may hold anything.
    for (auto& plane : planes_) plane.emplace(plane_bytes);
    const KvPlane plane{nullptr, block_bytes, head_bytes, row_bytes_};
    for (size_t i = 0; i < 2; ++i) {
      layer_storage_[i].k = layer_storage_[i].v = plane;
      layer_storage_[i].k.base = planes_[2 * i]->as<std::byte>();
      layer_storage_[i].v.base = planes_[2 * i + 1]->as<std::byte>();
    }
    storage_ = {layout.dtype, layout.block_tokens, layer_storage_};
    group_.layers = 2;
    group_.kv_heads = kKvHeads;
    group_.k_dim = group_.v_dim = kDim;
    group_.window_tokens = layout.window_tokens;
    for (LayerShape& layer : layers_) {
      layer.query_heads = kHeads;
      layer.scale = 0.25f;
      layer.soft_cap = layout.soft_cap;
      if (layout.has_sinks) layer.sinks = kSinks;
      if (layout.has_alibi) layer.alibi_slopes = kSlopes;
    }
    layers_[1].index_in_group = 1;
    layers_[2].shares_kv_with = 0;
    model_.layer_count = kLayers;
    model_.group_count = 1;
    model_.hidden = kHeads * kDim;
    model_.vocabulary = 10;
    model_.context_tokens = kContext;
    model_.groups = &group_;
    model_.layers = layers_;
    // Blocks of the sequences lie in no order.
    for (uint32_t s = 0; s < kMostSequences; ++s) {
      std::vector<BlockId>& blocks = blocks_.emplace_back();
      for (uint32_t b = 0; b < blocks_each_; ++b) {
        blocks.push_back(static_cast<BlockId>((b * 5 + 3) % blocks_each_ * kMostSequences + s));
      }
    }
  }

  // From here on; null = not.
  void watch_runs(RunWatch* watch) { watch_ = watch; }
  // Behind each plan another one is made, of the first sequence alone, which is never run.
  void plan_further() { plans_further_ = true; }

  // out [rows, heads · dim] of all parts, one behind the other. With `own` the kernel is asked for
  // these parts alone; rows of others are NaN then.
  Result<std::vector<float>> step(const std::vector<Part>& parts, LayerId layer = 0,
                                  std::vector<uint32_t> own = {}) {
    std::vector<BatchSequence> sequences;
    std::vector<uint32_t> slots, positions, kv_tokens, sees_to;
    const bool asks_all = own.empty();
    std::vector<KvTableView> tables;
    std::vector<TokenId> tokens;
    std::vector<float> q, k, v;
    for (const Part& part : parts) {
      if (asks_all) own.push_back(static_cast<uint32_t>(sequences.size()));
      const auto last_row = static_cast<uint32_t>(slots.size()) + part.rows - 1;
      sequences.push_back({part.sequence, static_cast<uint32_t>(slots.size()), part.rows, 0, 0});
      tables.push_back({blocks_[part.sequence], {}, 0});
      kv_tokens.push_back(part.first + part.rows);
      for (uint32_t p = part.first; p < part.first + part.rows; ++p) {
        slots.push_back(p);
        positions.push_back(p + layout_.moved_by);
        if (layout_.sees_ahead) sees_to.push_back(last_row);
        tokens.push_back(1);
        const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
          to.insert(to.end(), from.begin(), from.end());
        };
        append(q, part.text.q(p)), append(k, part.text.k(p)), append(v, part.text.v(p));
      }
    }
    const BatchGroup group{slots, kv_tokens, tables};
    BatchView batch;
    batch.step_id = ++step_;
    batch.rows = batch.padded_rows = static_cast<uint32_t>(slots.size());
    batch.padded_sequences = static_cast<uint32_t>(parts.size());
    batch.tokens = tokens;
    batch.positions = positions;
    batch.sees_to = sees_to;
    batch.sequences = sequences;
    batch.groups = {&group, 1};
    return run(batch, layer, own, q, k, v);
  }

 private:
  Result<std::vector<float>> run(const BatchView& batch, LayerId layer,
                                 std::span<const uint32_t> own, const std::vector<float>& q,
                                 const std::vector<float>& k, const std::vector<float>& v) {
    const GuardedMemory plan(kernel_->plan_bytes(0)), workspace(kernel_->workspace_bytes(0));
    const GuardedMemory queries = GuardedMemory::copy_of(std::span<const float>(q));
    const GuardedMemory keys = GuardedMemory::copy_of(std::span<const float>(k));
    const GuardedMemory rows = GuardedMemory::copy_of(std::span<const float>(v));
    const GuardedMemory out(q.size() * sizeof(float));
    KernelPlanOut planned;
    TENON_RETURN_IF_ERROR(kernel_->plan({0, &batch, own, plan.get()}, planned));
    const GuardedMemory further(kernel_->plan_bytes(0));
    if (plans_further_) {
      KernelPlanOut unused;
      TENON_RETURN_IF_ERROR(kernel_->plan({0, &batch, own.first(1), further.get()}, unused));
    }
    AttentionCall call;
    call.layer = layer;
    call.q = queries.get();
    if (layers_[layer].shares_kv_with < 0) {
      call.k = keys.get();
      call.v = rows.get();
    }
    call.out = out.get();
    call.plan = plan.get();
    call.workspace = workspace.get();
    call.padded_rows = batch.padded_rows;
    call.padded_sequences = batch.padded_sequences;
    if (watch_ != nullptr) watch_->begin();
    for (uint32_t phase = 0; phase < planned.phases; ++phase) {
      TENON_RETURN_IF_ERROR(run_phase(call, phase));
    }
    if (watch_ != nullptr) watch_->end();
    bool sound = plan.intact() && workspace.intact() && out.intact();
    for (const auto& plane : planes_) sound = sound && plane->intact();
    if (!sound) return internal("plan or run wrote beside the memory that it was given");
    return std::vector<float>(out.as<float>(), out.as<float>() + q.size());
  }

  Status run_phase(const AttentionCall& call, uint32_t phase) {
    const uint32_t slices = layout_.slices;
    if (!layout_.on_threads) {
      for (uint32_t slice = slices; slice-- > 0;) {
        TENON_RETURN_IF_ERROR(kernel_->run(call, phase, {slice, slices}));
      }
      return {};
    }
    std::vector<Status> failures(slices);
    {
      std::vector<std::jthread> threads;
      for (uint32_t slice = 0; slice < slices; ++slice) {
        threads.emplace_back([&, slice] {
          failures[slice] = kernel_->run(call, phase, {slice, slices});
        });
      }
    }
    for (Status& failure : failures) TENON_RETURN_IF_ERROR(std::move(failure));
    return {};
  }

  const Layout layout_;
  const uint64_t row_bytes_;
  uint32_t blocks_each_ = 0;
  std::optional<GuardedMemory> planes_[4];  // K, V of both storages
  KvLayerStorage layer_storage_[2];
  KvGroupStorage storage_;
  KvGroup group_;
  LayerShape layers_[kLayers];
  ModelShape model_;
  const GroupId group_id_ = 0;
  AttentionBinding binding_;
  std::vector<std::vector<BlockId>> blocks_;
  PluginInstance<AttentionKernel> plugin_;
  std::unique_ptr<CheckedAttention> kernel_;
  RunWatch* watch_ = nullptr;
  bool plans_further_ = false;
  uint64_t step_ = 0;
};

float stored(float value, DType dtype) {
  if (dtype == DType::bf16) return float_from_bf16(bf16_from_float(value));
  if (dtype == DType::f16) return float_from_f16(f16_from_float(value));
  return value;
}

// One of `rows` rows by the formula, in double precision.
std::vector<double> wanted_row(const Text& text, uint32_t p, uint32_t rows, const Layout& layout) {
  std::vector<double> out(kHeads * kDim, 0.0);
  const std::vector<float> q = text.q(p);
  const uint32_t first = first_visible(p, layout.window_tokens);
  const uint32_t last = layout.sees_ahead ? rows - 1 : p;
  for (uint32_t h = 0; h < kHeads; ++h) {
    const uint32_t g = h / (kHeads / kKvHeads);
    std::vector<double> shares;
    double total = layout.has_sinks ? std::exp(double{kSinks[h]}) : 0.0;
    for (uint32_t at = first; at <= last; ++at) {
      const std::vector<float> k = text.k(at);
      double score = 0;
      for (uint32_t i = 0; i < kDim; ++i) {
        score += double{q[h * kDim + i]} * stored(k[g * kDim + i], layout.dtype);
      }
      score *= 0.25;
      if (layout.soft_cap > 0) score = layout.soft_cap * std::tanh(score / layout.soft_cap);
      if (layout.has_alibi)
        score += kSlopes[h] * (static_cast<double>(at) - static_cast<double>(p));
      shares.push_back(std::exp(score));
      total += shares.back();
    }
    for (uint32_t at = first, n = 0; at <= last; ++at, ++n) {
      const std::vector<float> v = text.v(at);
      for (uint32_t i = 0; i < kDim; ++i) {
        out[h * kDim + i] += shares[n] / total * stored(v[g * kDim + i], layout.dtype);
      }
    }
  }
  return out;
}

Finding differs_from_formula(const std::vector<float>& out, const Text& text, uint32_t rows,
                             const Layout& layout) {
  for (uint32_t p = 0; p < rows; ++p) {
    const std::vector<double> wanted = wanted_row(text, p, rows, layout);
    double error = 0, size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double found = out[p * wanted.size() + i];
      error += (found - wanted[i]) * (found - wanted[i]);
      size += wanted[i] * wanted[i];
    }
    if (std::sqrt(error / size) <= 1e-3) continue;
    return broke("over a cache of " + std::string(dtype_name(layout.dtype)) +
                 " the row at position " + std::to_string(p) + " differs from the formula by " +
                 std::to_string(std::sqrt(error / size)) + " of its size");
  }
  return {};
}

// Lets `look` see the layout with each element type that the kernel takes and these cases know.
template <typename Look>
Finding each_dtype(Subject& subject, Layout layout, Look look) {
  bool any = false;
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    if (!subject.provides("kv.dtype", dtype_name(type))) continue;
    any = true;
    layout.dtype = type;
    Finding found = look(layout);
    if (found.verdict != CaseVerdict::pass) return found;
  }
  return any ? Finding() : skipped("its caches are of types that these cases do not know");
}

Finding attend_text(Subject& subject, const Layout& any) {
  return each_dtype(subject, any, [&](const Layout& layout) -> Finding {
    auto bench = Bench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const Text text{subject.seed() + 1};
    const auto out = (*bench)->step({{text, 0, 0, 40}});
    if (!out.ok()) return broke(message_of(out.status()));
    return differs_from_formula(*out, text, 40, layout);
  });
}

Finding attends(Subject& subject) {
  return attend_text(subject, {});
}
Finding attends_within_windows(Subject& subject) {
  if (!subject.provides("attn.mask.sliding", "yes")) return skipped("it attends within no window");
  return attend_text(subject, {.window_tokens = 7});
}
Finding caps_scores(Subject& subject) {
  if (!subject.provides("attn.soft_cap", "yes")) return skipped("it caps no scores");
  return attend_text(subject, {.soft_cap = 0.3f});
}
Finding attends_to_sinks(Subject& subject) {
  if (!subject.provides("attn.sinks", "yes")) return skipped("it knows no sinks");
  return attend_text(subject, {.has_sinks = true});
}
Finding attends_with_slopes(Subject& subject) {
  if (!subject.provides("attn.alibi", "yes")) return skipped("it knows no slopes");
  return attend_text(subject, {.has_alibi = true});
}
Finding attends_ahead(Subject& subject) {
  if (!subject.provides("attn.mask.spans", "yes")) return skipped("its rows see none behind them");
  return attend_text(subject, {.sees_ahead = true});
}
// The positions are those of rotary embedding, which is done.
Finding takes_no_positions(Subject& subject) {
  Layout layout;
  layout.moved_by = 7;
  if (subject.provides("attn.mask.sliding", "yes")) layout.window_tokens = 9;
  layout.has_alibi = subject.provides("attn.alibi", "yes");
  return attend_text(subject, layout);
}

Finding leaves_others_alone(Subject& subject) {
  return each_dtype(subject, {}, [&](const Layout& layout) -> Finding {
    auto bench = Bench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const Text text{subject.seed() + 1}, other{subject.seed() + 2};
    const auto out = (*bench)->step({{other, 0, 0, 3}, {text, 1, 0, 5}, {other, 2, 0, 2}}, 0, {1});
    if (!out.ok()) return broke(message_of(out.status()));
    constexpr size_t kRow = kHeads * kDim;
    for (size_t i = 0; i < out->size(); ++i) {
      const bool is_its_own = i >= 3 * kRow && i < 8 * kRow;
      if (is_its_own || std::isnan((*out)[i])) continue;
      return broke("asked for one of three sequences, it writes the rows of another one");
    }
    const auto own = out->begin() + 3 * kRow;
    return differs_from_formula({own, own + 5 * kRow}, text, 5, layout);
  });
}

Finding shares_between_layers(Subject& subject) {
  return each_dtype(subject, {}, [&](const Layout& layout) -> Finding {
    auto bench = Bench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const Text text{subject.seed() + 1}, other{subject.seed() + 2};
    const auto first = (*bench)->step({{text, 0, 0, 20}}, 0);
    const auto second = (*bench)->step({{other, 0, 0, 20}}, 1);
    const auto third = (*bench)->step({{text, 0, 0, 20}}, 2);
    for (const auto* out : {&first, &second, &third}) {
      if (!out->ok()) return broke(message_of(out->status()));
    }
    Finding found = differs_from_formula(*second, other, 20, layout);
    if (found.verdict != CaseVerdict::pass) return found;
    if (std::memcmp(first->data(), third->data(), first->size() * sizeof(float)) == 0) return {};
    return broke(
        "a layer that reads what another one stored, which it is given no K and V for, has "
        "other bits than that one");
  });
}

// The rows of one text of 40 tokens, cut into steps as `cuts` says, beside `others`.
Result<std::vector<float>> in_steps(Subject& subject, const Layout& layout,
                                    const std::vector<uint32_t>& cuts, bool others) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::make(subject, layout));
  const Text text{subject.seed() + 1};
  std::vector<float> all;
  uint32_t first = 0;
  for (const uint32_t rows : cuts) {
    std::vector<Part> parts;
    if (others) parts.push_back({{subject.seed() + 7}, 2, first, 3});
    parts.push_back({text, 1, first, rows});
    if (others) parts.push_back({{subject.seed() + 8}, 3, first, 1});
    TENON_ASSIGN_OR_RETURN(const std::vector<float> out, bench->step(parts));
    const auto skip = static_cast<ptrdiff_t>(others ? 3 * kHeads * kDim : 0);
    all.insert(all.end(), out.begin() + skip, out.begin() + skip + ptrdiff_t{rows} * kHeads * kDim);
    first += rows;
  }
  return all;
}

Finding same_bits(Subject& subject, const Layout& usual) {
  const auto whole = in_steps(subject, usual, {40}, false);
  if (!whole.ok()) return broke(message_of(whole.status()));
  struct Way {
    const char* how;
    Layout layout;
    std::vector<uint32_t> cuts;
    bool others;
  };
  const Way ways[] = {
      {"when the prompt is cut into pieces", {}, {13, 1, 1, 8, 17}, false},
      {"a token a step", {}, std::vector<uint32_t>(40, 1), false},
      {"with one slice", {.slices = 1}, {40}, false},
      {"with five slices", {.slices = 5}, {40}, false},
      {"when slices run at once", {.slices = 4, .on_threads = true}, {40}, false},
      {"in blocks of 32 tokens", {.block_tokens = 32}, {40}, false},
      {"in blocks of one token", {.block_tokens = 1}, {40}, false},
      {"beside other sequences", {}, {40}, true},
      {"in pieces, beside other sequences", {.slices = 3}, {20, 1, 1, 18}, true},
  };
  const auto as_usual = [&](Layout layout) {
    layout.dtype = usual.dtype;
    return layout;
  };
  for (const Way& way : ways) {
    const auto again = in_steps(subject, as_usual(way.layout), way.cuts, way.others);
    if (!again.ok()) return broke(std::string(way.how) + ": " + message_of(again.status()));
    if (std::memcmp(again->data(), whole->data(), whole->size() * sizeof(float)) != 0) {
      return broke(std::string("rows have other bits ") + way.how);
    }
  }
  return {};
}

Finding gives_rows_their_own_bits(Subject& subject) {
  if (subject.provides("numerics.rows", "batch")) return skipped("it states numerics.rows = batch");
  return each_dtype(subject, {}, [&](const Layout& layout) { return same_bits(subject, layout); });
}

Finding keeps_plans_apart(Subject& subject) {
  return each_dtype(subject, {}, [&](const Layout& layout) -> Finding {
    auto bench = Bench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const Text text{subject.seed() + 1}, other{subject.seed() + 2};
    (*bench)->plan_further();
    const auto out = (*bench)->step({{other, 0, 0, 3}, {text, 1, 0, 20}});
    if (!out.ok()) return broke(message_of(out.status()));
    const Finding found = differs_from_formula(
        {out->begin() + ptrdiff_t{3} * kHeads * kDim, out->end()}, text, 20, layout);
    if (found.verdict == CaseVerdict::pass) return {};
    return broke("where another plan was made before `run`, " + found.what);
  });
}

Finding runs_without_allocating(Subject& subject) {
  return each_dtype(subject, {}, [&](const Layout& layout) -> Finding {
    auto bench = Bench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const std::vector<Part> parts = {{{subject.seed() + 1}, 0, 0, 30}, {{subject.seed()}, 1, 0, 1}};
    RunWatch watch(subject);
    for (uint32_t i = 0; i < 3; ++i) {
      (*bench)->watch_runs(i == 2 ? &watch : nullptr);
      if (const auto out = (*bench)->step(parts); !out.ok()) return broke(message_of(out.status()));
    }
    return watch.finding(CaseVerdict::fail, "expected all scratch memory in `workspace`");
  });
}

}  // namespace

Result<Transcript> exercise_attention(Subject& subject, uint64_t seed) {
  Layout layout;
  for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
    if (subject.provides("kv.dtype", dtype_name(type))) layout.dtype = type;
  }
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::make(subject, layout));
  TENON_ASSIGN_OR_RETURN(const std::vector<float> out, bench->step({{{seed + 1}, 0, 0, 20}}));
  Transcript transcript;
  for (size_t i = 0; i < out.size(); i += 17) {
    uint32_t bits;
    std::memcpy(&bits, &out[i], sizeof(bits));
    transcript.push_back("out[" + std::to_string(i) + "] has the bits " + std::to_string(bits));
  }
  return transcript;
}

CaseList attention_cases() {
  constexpr std::string_view kOf = "attention", kHeader = "attention.h";
  return {
      {"attention.formula", kOf, kHeader,
       "score(p) = scale · q[r,h] · K[s,p,g] for each visible position p", &attends},
      {"attention.windows", kOf, kHeader, "what the group's window shows (first_visible)",
       &attends_within_windows},
      {"attention.soft_cap", kOf, kHeader,
       "with the layer's soft cap, slopes and sinks where it has them", &caps_scores},
      {"attention.sinks", kOf, kHeader,
       "with the layer's soft cap, slopes and sinks where it has them", &attends_to_sinks},
      {"attention.alibi", kOf, kHeader,
       "with the layer's soft cap, slopes and sinks where it has them", &attends_with_slopes},
      {"attention.spans", kOf, "batch.h", "the last row of its sequence that a row sees",
       &attends_ahead},
      {"attention.positions", kOf, "model.h",
       "A row's position here is the number of tokens in front of it, never what "
       "BatchView::positions says.",
       &takes_no_positions},
      {"attention.own_rows", kOf, kHeader, "Rows of others are not touched.", &leaves_others_alone},
      {"attention.shared_layers", kOf, kHeader, "null when the layer shares K/V",
       &shares_between_layers},
      {"attention.same_bits", kOf, kHeader,
       "A kernel promises equal bits for a row whatever else is in the batch, however the prompt "
       "was "
       "chunked, whatever the block size, and however many slices there are",
       &gives_rows_their_own_bits},
      {"attention.plans", kOf, kHeader,
       "and nothing else, so a step may be planned while another one runs.", &keeps_plans_apart},
      {"attention.memory", kOf, kHeader,
       "The most that `plan` writes for one group, and the scratch memory of its runs.",
       &runs_without_allocating},
  };
}

}  // namespace tenon
