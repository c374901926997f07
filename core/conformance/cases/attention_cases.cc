// What <tenon/attention.h> promises.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/quote.h"
#include "core/conformance/bench/attention_bench.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/worlds/random.h"

namespace tenon {
namespace {

Finding differs_from_formula(const std::vector<float>& out, const AttentionText& text,
                             uint32_t rows, const AttentionLayout& layout) {
  for (uint32_t p = 0; p < rows; ++p) {
    const std::vector<double> wanted = wanted_row(text, p, rows, layout);
    double error = 0, size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double found = out[p * wanted.size() + i];
      error += (found - wanted[i]) * (found - wanted[i]);
      size += wanted[i] * wanted[i];
    }
    if (std::sqrt(error / size) <= layout.allowed_error) continue;
    return broke("over a cache of " + std::string(dtype_name(layout.dtype)) +
                 " the row at position " + std::to_string(p) + " differs from the formula by " +
                 std::to_string(std::sqrt(error / size)) + " of its size");
  }
  return {};
}

constexpr DType kKnownTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i8, DType::i4};

// What the kernel takes of the types that these cases know.
struct TypesTaken {
  std::vector<DType> types;
  std::string refusal;  // of a type that its facts name; empty: none
};

// Facts do not know of options. With some a kernel takes fewer types: `bind` refuses the others.
TypesTaken types_taken(Subject& subject) {
  TypesTaken taken;
  for (const DType type : kKnownTypes) {
    if (!subject.provides("kv.dtype", dtype_name(type))) continue;
    if (subject.has_settings()) {
      const auto bench = AttentionBench::make(subject, {.dtype = type});
      if (!bench.ok() && bench.status().code() == StatusCode::unsupported) {
        taken.refusal = message_of(bench.status());
        continue;
      }
    }
    taken.types.push_back(type);
  }
  return taken;
}

// Lets `look` see the layout with each of these types. Options that leave out types may ask for
// products of their own, which round to bytes.
template <typename Look>
Finding each_dtype(Subject& subject, AttentionLayout layout, Look look) {
  const TypesTaken taken = types_taken(subject);
  if (!taken.refusal.empty()) layout.allowed_error = AttentionLayout::kErrorOfBytes;
  for (const DType type : taken.types) {
    layout.dtype = type;
    Finding found = look(layout);
    if (found.verdict != CaseVerdict::pass) return found;
  }
  if (!taken.types.empty()) return {};
  if (!taken.refusal.empty()) return broke(taken.refusal);
  return skipped("its caches are of types that these cases do not know");
}

Finding attend_text(Subject& subject, const AttentionLayout& any) {
  return each_dtype(subject, any, [&](const AttentionLayout& layout) -> Finding {
    auto bench = AttentionBench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const AttentionText text{subject.seed() + 1};
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
  AttentionLayout layout;
  layout.moved_by = 7;
  if (subject.provides("attn.mask.sliding", "yes")) layout.window_tokens = 9;
  layout.has_alibi = subject.provides("attn.alibi", "yes");
  return attend_text(subject, layout);
}

Finding leaves_others_alone(Subject& subject) {
  return each_dtype(subject, {}, [&](const AttentionLayout& layout) -> Finding {
    auto bench = AttentionBench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const AttentionText text{subject.seed() + 1}, other{subject.seed() + 2};
    const auto out = (*bench)->step({{other, 0, 0, 3}, {text, 1, 0, 5}, {other, 2, 0, 2}}, 0, {1});
    if (!out.ok()) return broke(message_of(out.status()));
    constexpr size_t kRow = AttentionText::kHeads * AttentionText::kDim;
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
  return each_dtype(subject, {}, [&](const AttentionLayout& layout) -> Finding {
    auto bench = AttentionBench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const AttentionText text{subject.seed() + 1}, other{subject.seed() + 2};
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

// The rows of one text of 40 tokens, cut into steps as `cuts` says, in batches with `others`.
Result<std::vector<float>> in_steps(Subject& subject, const AttentionLayout& layout,
                                    const std::vector<uint32_t>& cuts, bool others) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<AttentionBench> bench,
                         AttentionBench::make(subject, layout));
  const AttentionText text{subject.seed() + 1};
  std::vector<float> all;
  uint32_t first = 0;
  for (const uint32_t rows : cuts) {
    std::vector<AttentionPart> parts;
    if (others) parts.push_back({{subject.seed() + 7}, 2, first, 3});
    parts.push_back({text, 1, first, rows});
    if (others) parts.push_back({{subject.seed() + 8}, 3, first, 1});
    TENON_ASSIGN_OR_RETURN(const std::vector<float> out, bench->step(parts));
    const auto skip =
        static_cast<ptrdiff_t>(others ? 3 * AttentionText::kHeads * AttentionText::kDim : 0);
    all.insert(all.end(), out.begin() + skip,
               out.begin() + skip + ptrdiff_t{rows} * AttentionText::kHeads * AttentionText::kDim);
    first += rows;
  }
  return all;
}

Finding same_bits(Subject& subject, const AttentionLayout& usual) {
  const auto whole = in_steps(subject, usual, {40}, false);
  if (!whole.ok()) return broke(message_of(whole.status()));
  struct Way {
    const char* how;
    AttentionLayout layout;
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
  const auto as_usual = [&](AttentionLayout layout) {
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
  return each_dtype(subject, {},
                    [&](const AttentionLayout& layout) { return same_bits(subject, layout); });
}

Finding keeps_plans_apart(Subject& subject) {
  return each_dtype(subject, {}, [&](const AttentionLayout& layout) -> Finding {
    auto bench = AttentionBench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const AttentionText text{subject.seed() + 1}, other{subject.seed() + 2};
    (*bench)->plan_further();
    const auto out = (*bench)->step({{other, 0, 0, 3}, {text, 1, 0, 20}});
    if (!out.ok()) return broke(message_of(out.status()));
    const Finding found = differs_from_formula(
        {out->begin() + ptrdiff_t{3} * AttentionText::kHeads * AttentionText::kDim, out->end()},
        text, 20, layout);
    if (found.verdict == CaseVerdict::pass) return {};
    return broke("where another plan was made before `run`, " + found.what);
  });
}

Finding runs_without_allocating(Subject& subject) {
  return each_dtype(subject, {}, [&](const AttentionLayout& layout) -> Finding {
    auto bench = AttentionBench::make(subject, layout);
    if (!bench.ok()) return broke(message_of(bench.status()));
    const std::vector<AttentionPart> parts = {{{subject.seed() + 1}, 0, 0, 30},
                                              {{subject.seed()}, 1, 0, 1}};
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
  const std::vector<DType> types = types_taken(subject).types;
  AttentionLayout layout;
  if (!types.empty()) layout.dtype = types.front();
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<AttentionBench> bench,
                         AttentionBench::make(subject, layout));
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
      {"attention.windows", kOf, kHeader, "those that the group's window shows (first_visible)",
       &attends_within_windows},
      {"attention.soft_cap", kOf, kHeader,
       "with the layer's soft cap, slopes and sinks if it has them", &caps_scores},
      {"attention.sinks", kOf, kHeader,
       "with the layer's soft cap, slopes and sinks if it has them", &attends_to_sinks},
      {"attention.alibi", kOf, kHeader,
       "with the layer's soft cap, slopes and sinks if it has them", &attends_with_slopes},
      {"attention.spans", kOf, "batch.h", "the last row of its sequence that a row sees",
       &attends_ahead},
      {"attention.positions", kOf, "model.h",
       "A row's position here is the number of tokens before it, never a value "
       "of BatchView::positions.",
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
