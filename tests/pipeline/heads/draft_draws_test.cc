// Drafts that are verified by rejection change which tokens come, but not how often each does: the
// counts of tokens, and of pairs of tokens, against those without drafts, over every drafter that
// runs a model, chains and trees, with every stage of the sampler that can be on.
//
// A few thousand draws a case as a test. TENON_TEST_DRAWS=1000000 makes as many (docs/experiments/
// 005-drafters.md has what came of it), TENON_TEST_DRAWS_SEED=3 others.
// TENON_TEST_DRAWS_CASES="eagle3;eagle3, tree" and TENON_TEST_DRAWS_WAYS="all stages" leave the
// other ones out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/models/chosen_executors.h"
#include "tests/support/models/random_head.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon {
namespace {

using test::Outcome;
using test::Overrides;
using test::RandomHead;

constexpr uint64_t kDraws = 3000;  // of a case, where nothing else is said
constexpr uint32_t kTextsOfARequest = 128, kRequestsAtOnce = 32;
constexpr uint32_t kCounted = 3;  // tokens of a text that drafts take part in: all but the first

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Whether `name` is among those that the variable lists, or all are.
bool is_wanted(const char* variable, std::string_view name) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return true;
  for (std::string_view left = text; !left.empty();) {
    const size_t end = std::min(left.find(';'), left.size());
    if (left.substr(0, end) == name) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

// Counts of what was drawn in one place after one thing, of two samples.
struct Counts {
  double alone = 0, drafted = 0;
};
using Table = std::map<uint64_t, Counts>;

// How far the two samples lie apart, in standard deviations of what chance brings (Wilson and
// Hilferty, 1931). What is rare counts as one kind of thing.
struct Distance {
  double chi_square = 0, degrees = 0, deviations = 0;
};
Distance distance(const Table& table) {
  Distance distance;
  Counts all, rare;
  for (const auto& [what, counts] : table) {
    all.alone += counts.alone;
    all.drafted += counts.drafted;
  }
  const double share = all.alone / (all.alone + all.drafted);
  uint32_t kinds = 0;
  const auto add = [&](const Counts& counts) {
    const double sum = counts.alone + counts.drafted;
    if (sum == 0) return;
    const double off = counts.alone - sum * share;
    distance.chi_square += off * off / (sum * share) + off * off / (sum * (1 - share));
    ++kinds;
  };
  for (const auto& [what, counts] : table) {
    if (counts.alone + counts.drafted >= 20) {
      add(counts);
    } else {
      rare.alone += counts.alone;
      rare.drafted += counts.drafted;
    }
  }
  add(rare);
  // Each place has as many draws in both samples.
  distance.degrees = kinds <= kCounted ? 1 : kinds - kCounted;
  const double spread = 2.0 / (9.0 * distance.degrees);
  distance.deviations =
      (std::cbrt(distance.chi_square / distance.degrees) - (1 - spread)) / std::sqrt(spread);
  return distance;
}

struct Way {
  const char* name;
  void (*set)(Request&);
};
constexpr Way kWays[] = {{"plain", [](Request& request) { request.sampling.temperature = 1.0f; }},
                         {"all stages",
                          [](Request& request) {
                            SamplingParams& sampling = request.sampling;
                            sampling.temperature = 1.3f;
                            sampling.top_k = 24;
                            sampling.top_p = 0.97f;
                            sampling.min_p = 0.01f;
                            sampling.typical_p = 0.98f;
                            sampling.top_n_sigma = 3.0f;
                            sampling.xtc_probability = 0.3f;
                            sampling.xtc_threshold = 0.2f;
                            sampling.dynamic_temperature_range = 0.2f;
                            sampling.repetition_penalty = 1.2f;
                            sampling.presence_penalty = 0.3f;
                            sampling.frequency_penalty = 0.2f;
                            sampling.dry_multiplier = 0.5f;
                            sampling.watermark_delta = 0.7f;
                            sampling.watermark_key = 12345;
                            request.lists.logit_bias = {{4, 1.0f}, {6, -1.0f}};
                            request.lists.bad_words = {{7}, {8, 9}};
                          }},
                         {"mirostat", [](Request& request) {
                            request.sampling.temperature = 1.2f;
                            request.sampling.mirostat = 2;
                            request.sampling.mirostat_tau = 3.0f;
                            request.sampling.repetition_penalty = 1.1f;
                          }}};

class DraftDraws : public test::RecurrentPipelinesOn {
 protected:
  using Texts = std::vector<std::vector<TokenId>>;

  DraftDraws() : RecurrentPipelinesOn(test::chosen_executors()) {}

  struct Case {
    std::string name;
    Overrides overrides;
  };
  static Overrides with(const std::string& plugin, const std::string& model, Overrides more) {
    more.push_back("drafter.plugin=" + plugin);
    if (!model.empty()) more.push_back("drafter.model=" + model);
    more.emplace_back("drafter.options.adaptive=false");
    more.emplace_back("drafter.verify=rejection");
    return more;
  }

  Texts texts(Overrides overrides, const Way& way, uint64_t count, uint64_t seed, uint64_t* kept) {
    // Room for all drafts of all sequences.
    overrides.emplace_back("limits.max_sequences=16");
    overrides.emplace_back("limits.max_batch_tokens=256");
    overrides.emplace_back("kv_cache.plugin=paged");
    Texts all;
    for (uint64_t made = 0; made < count;) {
      std::vector<Request> asked;
      for (uint32_t i = 0; i < kRequestsAtOnce && made < count; ++i, made += kTextsOfARequest) {
        Request& request = asked.emplace_back();
        request.prompt = {5, 9, 13, 5, 9, 12, 5, 9};
        request.max_tokens = 1 + kCounted;
        request.ignore_eos = true;
        request.samples = kTextsOfARequest;
        way.set(request);
        request.sampling.seed = seed + made;
      }
      const Outcome outcome = run(overrides, std::move(asked));
      if (kept != nullptr) *kept += outcome.totals.drafts.accepted;
      for (const auto& [text, digest] : outcome.samples) all.push_back(text);
    }
    return all;
  }

  // Both samples of one way, into tables of single tokens and of pairs, each by its place.
  static void compare(const Case& of, const Way& way, const Texts& alone, const Texts& drafted,
                      uint64_t kept) {
    ASSERT_EQ(alone.size(), drafted.size());
    EXPECT_GT(kept, alone.size() / 50) << of.name << ": drafts take part";
    Table tokens, pairs;
    for (size_t i = 0; i < alone.size(); ++i) {
      ASSERT_EQ(alone[i].size(), 1 + kCounted);
      ASSERT_EQ(drafted[i].size(), 1 + kCounted);
      for (uint64_t at = 1; at <= kCounted; ++at) {
        const auto single = [&](const std::vector<TokenId>& text) -> Counts& {
          return tokens[at << 32 | static_cast<uint32_t>(text[at])];
        };
        const auto pair = [&](const std::vector<TokenId>& text) -> Counts& {
          return pairs[at << 48 | uint64_t{static_cast<uint32_t>(text[at - 1])} << 24 |
                       static_cast<uint32_t>(text[at])];
        };
        ++single(alone[i]).alone;
        ++pair(alone[i]).alone;
        ++single(drafted[i]).drafted;
        ++pair(drafted[i]).drafted;
      }
    }
    const Distance single = distance(tokens), both = distance(pairs);
    if (std::getenv("TENON_TEST_DRAWS") != nullptr) {
      std::printf(
          "%-22s %-10s %8zu draws, %llu kept: tokens %.0f of %.0f (%+.2f), pairs %.0f of "
          "%.0f (%+.2f)\n",
          of.name.c_str(), way.name, alone.size() * kCounted, static_cast<unsigned long long>(kept),
          single.chi_square, single.degrees, single.deviations, both.chi_square, both.degrees,
          both.deviations);
      std::fflush(stdout);
    }
    // Less than one in a hundred thousand times by chance.
    EXPECT_LT(single.deviations, 4.3) << of.name << ", " << way.name;
    EXPECT_LT(both.deviations, 4.3) << of.name << ", " << way.name;
  }

  void compare_all(const std::vector<Case>& cases) {
    const uint64_t wanted = number("TENON_TEST_DRAWS", kDraws) / kCounted;
    const uint64_t seed = number("TENON_TEST_DRAWS_SEED", 2) << 40;
    for (const Way& way : kWays) {
      if (!is_wanted("TENON_TEST_DRAWS_WAYS", way.name)) continue;
      const Texts alone = texts({}, way, wanted, seed, nullptr);
      for (size_t i = 0; i < cases.size(); ++i) {
        if (!is_wanted("TENON_TEST_DRAWS_CASES", cases[i].name)) continue;
        uint64_t kept = 0;
        const Texts drafted = texts(cases[i].overrides, way, wanted, seed + ((i + 1) << 34), &kept);
        compare(cases[i], way, alone, drafted, kept);
      }
    }
  }
};

class DraftDrawsOfHeads : public DraftDraws {};
INSTANTIATE_TEST_SUITE_P(Models, DraftDrawsOfHeads, testing::Values("llama_tied"));

TEST_P(DraftDrawsOfHeads, are_distributed_as_the_targets) {
  const std::string heads = source_folder() + "/tests/golden/heads/";
  const std::string itself = golden_models() + "llama_tied";
  const std::string norms = "drafter.options.norm_before_residual=no";
  const std::string tree = "drafter.options.tree=\"3,2,1\"";
  const RandomHead eagle("eagle", {32, 99, 2, 96}, 1), gated("dspark", {32, 99, 2, 96}, 1);
  compare_all({{"eagle3", with("eagle3", heads + "llama_tied", {norms})},
               {"eagle3, tree", with("eagle3", heads + "llama_tied", {norms, tree})},
               {"eagle, tree", with("eagle3", eagle.path(), {tree})},
               {"dspark", with("dflash", heads + "dspark_llama_tied", {})},
               {"dspark, gated", with("dflash", gated.path(), {})},
               {"medusa", with("medusa", heads + "medusa_llama_tied", {})},
               {"draft_model", with("draft_model", itself, {})},
               {"draft_model, tree", with("draft_model", itself, {tree})}});
}

class DraftDrawsOfModules : public DraftDraws {};
INSTANTIATE_TEST_SUITE_P(Models, DraftDrawsOfModules,
                         testing::Values("../mtp/deepseek_v3", "../mtp/qwen3_5"),
                         [](const auto& one) { return std::string(one.param + 7); });

TEST_P(DraftDrawsOfModules, are_distributed_as_the_targets) {
  const std::string name = std::string("mtp, ") + (GetParam() + 7);
  std::vector<Case> cases = {{name, with("mtp", "", {})}};
  // Recurrent models follow chains only.
  if (name.find("qwen3_5") == std::string::npos) {
    cases.push_back({name + ", tree", with("mtp", "", {"drafter.options.tree=\"3,2\""})});
  }
  compare_all(cases);
}

}  // namespace
}  // namespace tenon
