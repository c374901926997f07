// What <tenon/attention.h> promises.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/base/half.h"
#include "core/base/quote.h"
#include "core/conformance/cases.h"
#include "core/conformance/exercise.h"
#include "core/conformance/guarded_memory.h"
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
};

// A kernel bound to one layer, with a cache of its own.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> make(Subject& subject, const Layout& layout) {
    auto made = std::make_unique<Bench>(subject, layout);
    TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<AttentionKernel>());
    made->kernel_ = std::make_unique<CheckedAttention>(*made->plugin_, subject.name());
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

  Bench(const Subject& subject, const Layout& layout)
      : layout_(layout), dtype_(dtype_of(subject)), row_bytes_(kv_row_bytes(dtype_, kDim)) {
    blocks_each_ = (kContext + layout.block_tokens - 1) / layout.block_tokens;
    const uint64_t head_bytes = layout.block_tokens * row_bytes_;
    const uint64_t block_bytes = kKvHeads * head_bytes;
    const uint64_t plane_bytes = kMostSequences * blocks_each_ * block_bytes;
    // Every byte is set to what reads as NaN: slots that nobody wrote may hold anything.
    for (auto& plane : planes_) plane.emplace(plane_bytes);
    KvPlane plane{nullptr, block_bytes, head_bytes, row_bytes_};
    layer_storage_.k = layer_storage_.v = plane;
    layer_storage_.k.base = planes_[0]->as<std::byte>();
    layer_storage_.v.base = planes_[1]->as<std::byte>();
    storage_ = {dtype_, layout.block_tokens, {&layer_storage_, 1}};
    group_.layers = 1;
    group_.kv_heads = kKvHeads;
    group_.k_dim = group_.v_dim = kDim;
    group_.window_tokens = layout.window_tokens;
    layer_.query_heads = kHeads;
    layer_.scale = 0.25f;
    model_.layer_count = model_.group_count = 1;
    model_.hidden = kHeads * kDim;
    model_.vocabulary = 10;
    model_.context_tokens = kContext;
    model_.groups = &group_;
    model_.layers = &layer_;
    // Blocks of the sequences lie in no order.
    for (uint32_t s = 0; s < kMostSequences; ++s) {
      std::vector<BlockId>& blocks = blocks_.emplace_back();
      for (uint32_t b = 0; b < blocks_each_; ++b) {
        blocks.push_back(static_cast<BlockId>((b * 5 + 3) % blocks_each_ * kMostSequences + s));
      }
    }
  }

  DType dtype() const { return dtype_; }

  // out [rows, heads · dim] of all parts, one behind the other.
  Result<std::vector<float>> step(const std::vector<Part>& parts) {
    std::vector<BatchSequence> sequences;
    std::vector<uint32_t> slots, positions, kv_tokens, own;
    std::vector<KvTableView> tables;
    std::vector<TokenId> tokens;
    std::vector<float> q, k, v;
    for (const Part& part : parts) {
      own.push_back(static_cast<uint32_t>(sequences.size()));
      sequences.push_back({part.sequence, static_cast<uint32_t>(slots.size()), part.rows, 0, 0});
      tables.push_back({blocks_[part.sequence], {}, 0});
      kv_tokens.push_back(part.first + part.rows);
      for (uint32_t p = part.first; p < part.first + part.rows; ++p) {
        slots.push_back(p);
        positions.push_back(p);
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
    batch.sequences = sequences;
    batch.groups = {&group, 1};
    return run(batch, own, q, k, v);
  }

 private:
  static DType dtype_of(const Subject& subject) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      if (subject.provides("kv.dtype", dtype_name(type))) return type;
    }
    return DType::f32;
  }

  Result<std::vector<float>> run(const BatchView& batch, std::span<const uint32_t> own,
                                 const std::vector<float>& q, const std::vector<float>& k,
                                 const std::vector<float>& v) {
    const GuardedMemory plan(kernel_->plan_bytes(0)), workspace(kernel_->workspace_bytes(0));
    const GuardedMemory queries = GuardedMemory::copy_of(std::span<const float>(q));
    const GuardedMemory keys = GuardedMemory::copy_of(std::span<const float>(k));
    const GuardedMemory rows = GuardedMemory::copy_of(std::span<const float>(v));
    const GuardedMemory out(q.size() * sizeof(float));
    KernelPlanOut planned;
    TENON_RETURN_IF_ERROR(kernel_->plan({0, &batch, own, plan.get()}, planned));
    AttentionCall call;
    call.q = queries.get();
    call.k = keys.get();
    call.v = rows.get();
    call.out = out.get();
    call.plan = plan.get();
    call.workspace = workspace.get();
    call.padded_rows = batch.padded_rows;
    call.padded_sequences = batch.padded_sequences;
    for (uint32_t phase = 0; phase < planned.phases; ++phase) {
      for (uint32_t slice = layout_.slices; slice-- > 0;) {
        TENON_RETURN_IF_ERROR(kernel_->run(call, phase, {slice, layout_.slices}));
      }
    }
    const bool sound = plan.intact() && workspace.intact() && out.intact() &&
                       planes_[0]->intact() && planes_[1]->intact();
    if (!sound) return internal("plan or run wrote beside the memory that it was given");
    return std::vector<float>(out.as<float>(), out.as<float>() + q.size());
  }

  const Layout layout_;
  const DType dtype_;
  const uint64_t row_bytes_;
  uint32_t blocks_each_ = 0;
  std::optional<GuardedMemory> planes_[2];  // K, V
  KvLayerStorage layer_storage_;
  KvGroupStorage storage_;
  KvGroup group_;
  LayerShape layer_;
  ModelShape model_;
  const GroupId group_id_ = 0;
  AttentionBinding binding_;
  std::vector<std::vector<BlockId>> blocks_;
  PluginInstance<AttentionKernel> plugin_;
  std::unique_ptr<CheckedAttention> kernel_;
  uint64_t step_ = 0;
};

float stored(float value, DType dtype) {
  if (dtype == DType::bf16) return float_from_bf16(bf16_from_float(value));
  if (dtype == DType::f16) return float_from_f16(f16_from_float(value));
  return value;
}

// One row by the formula, in double precision.
std::vector<double> wanted_row(const Text& text, uint32_t p, uint32_t window, DType dtype) {
  std::vector<double> out(kHeads * kDim, 0.0);
  const std::vector<float> q = text.q(p);
  for (uint32_t h = 0; h < kHeads; ++h) {
    const uint32_t g = h / (kHeads / kKvHeads);
    std::vector<double> scores;
    double total = 0;
    for (uint32_t at = first_visible(p, window); at <= p; ++at) {
      const std::vector<float> k = text.k(at);
      double sum = 0;
      for (uint32_t i = 0; i < kDim; ++i)
        sum += double{q[h * kDim + i]} * stored(k[g * kDim + i], dtype);
      scores.push_back(std::exp(0.25 * sum));
      total += scores.back();
    }
    for (uint32_t at = first_visible(p, window), n = 0; at <= p; ++at, ++n) {
      const std::vector<float> v = text.v(at);
      for (uint32_t i = 0; i < kDim; ++i) {
        out[h * kDim + i] += scores[n] / total * stored(v[g * kDim + i], dtype);
      }
    }
  }
  return out;
}

Finding differs_from_formula(const std::vector<float>& out, const Text& text, uint32_t rows,
                             uint32_t window, DType dtype) {
  for (uint32_t p = 0; p < rows; ++p) {
    const std::vector<double> wanted = wanted_row(text, p, window, dtype);
    double error = 0, size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double found = out[p * wanted.size() + i];
      error += (found - wanted[i]) * (found - wanted[i]);
      size += wanted[i] * wanted[i];
    }
    if (std::sqrt(error / size) <= 1e-3) continue;
    return broke("the row at position " + std::to_string(p) + " differs from the formula by " +
                 std::to_string(std::sqrt(error / size)) + " of its size");
  }
  return {};
}

Finding attend_text(Subject& subject, const Layout& layout) {
  auto bench = Bench::make(subject, layout);
  if (!bench.ok()) return broke(message_of(bench.status()));
  const Text text{subject.seed() + 1};
  const auto out = (*bench)->step({{text, 0, 0, 40}});
  if (!out.ok()) return broke(message_of(out.status()));
  return differs_from_formula(*out, text, 40, layout.window_tokens, (*bench)->dtype());
}

Finding attends(Subject& subject) {
  return attend_text(subject, {});
}
Finding attends_within_windows(Subject& subject) {
  if (!subject.provides("attn.mask.sliding", "yes")) return skipped("it attends within no window");
  return attend_text(subject, {.window_tokens = 7});
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

Finding gives_rows_their_own_bits(Subject& subject) {
  if (subject.provides("numerics.rows", "batch")) return skipped("it states numerics.rows = batch");
  const auto whole = in_steps(subject, {}, {40}, false);
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
      {"in blocks of 32 tokens", {.block_tokens = 32}, {40}, false},
      {"in blocks of one token", {.block_tokens = 1}, {40}, false},
      {"beside other sequences", {}, {40}, true},
      {"in pieces, beside other sequences", {.slices = 3}, {20, 1, 1, 18}, true},
  };
  for (const Way& way : ways) {
    const auto again = in_steps(subject, way.layout, way.cuts, way.others);
    if (!again.ok()) return broke(std::string(way.how) + ": " + message_of(again.status()));
    if (std::memcmp(again->data(), whole->data(), whole->size() * sizeof(float)) != 0) {
      return broke(std::string("rows have other bits ") + way.how);
    }
  }
  return {};
}

}  // namespace

Result<Transcript> exercise_attention(Subject& subject, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::make(subject, {}));
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
      {"attention.same_bits", kOf, kHeader,
       "A kernel promises equal bits for a row whatever else is in the batch, however the prompt "
       "was "
       "chunked, whatever the block size, and however many slices there are",
       &gives_rows_their_own_bits},
  };
}

}  // namespace tenon
