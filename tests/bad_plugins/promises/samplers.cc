// Samplers that break one promise each.
#define SOUND_PLUGIN "sound_sampler.h"
#include <cmath>
#include <vector>

#include "tests/bad_plugins/promises/wrong.h"

namespace {

using Sound = SoundSampler;
using Rows = std::span<const SampleRow>;
using Results = std::span<SampleResult>;

// Samples rows that `change(row, index)` has changed.
template <typename Change>
void sample_changed(const Sound& sound, Rows rows, Results results, Change change) {
  for (size_t i = 0; i < rows.size(); ++i) {
    SampleRow row = rows[i];
    change(row, i);
    sound.sample({&row, 1}, results.subspan(i, 1));
  }
}

struct CountsRows : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    sample_changed(*this, rows, results,
                   [](SampleRow& row, size_t i) { row.key.position += static_cast<uint32_t>(i); });
  }
};
struct IgnoresSeeds : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    sample_changed(*this, rows, results, [](SampleRow& row, size_t) { row.key.seed = 0; });
  }
};
struct IgnoresPositions : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    sample_changed(*this, rows, results, [](SampleRow& row, size_t) { row.key.position = 0; });
  }
};
struct TakesTheLastOfEquals : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float> turned(std::reverse_iterator(rows[i].logits + rows[i].vocabulary),
                                      std::reverse_iterator(rows[i].logits));
      SampleRow row = rows[i];
      row.logits = turned.data();
      Sound::sample({&row, 1}, results.subspan(i, 1));
      results[i].token = static_cast<TokenId>(row.vocabulary) - 1 - results[i].token;
    }
  }
};
struct IgnoresAllowed : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    sample_changed(*this, rows, results, [](SampleRow& row, size_t) { row.allowed = nullptr; });
  }
};
struct FailsForAll : Sound {
  using Sound::Sound;
  Status sample(Rows rows, Results results) const {
    Sound::sample(rows, results);
    for (const SampleResult& result : results) {
      if (result.token == kNoToken) {
        return Status::error(StatusCode::failed, "a row has nothing to draw from");
      }
    }
    return {};
  }
};
struct DrawsFromNothing : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    Sound::sample(rows, results);
    for (SampleResult& result : results) result.token = std::max(result.token, 0);
  }
};
struct IgnoresScores : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    sample_changed(*this, rows, results, [](SampleRow& row, size_t) { row.score = kNoToken; });
  }
};
struct SaysOtherShares : Sound {
  using Sound::Sound;
  void distribution(const SampleRow& row, std::span<float> probs) const {
    Sound::distribution(row, probs);
    float total = 0;
    for (float& share : probs) total += share *= share;
    for (float& share : probs) share /= total;
  }
};
struct SumsToTwo : Sound {
  using Sound::Sound;
  void distribution(const SampleRow& row, std::span<float> probs) const {
    Sound::distribution(row, probs);
    for (float& share : probs) share *= 2;
  }
};
struct DrawsWhenAsked : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    sample_changed(*this, rows, results, [&](SampleRow& row, size_t) { row.key.sample += looks_; });
  }
  void distribution(const SampleRow& row, std::span<float> probs) const {
    ++looks_;
    Sound::distribution(row, probs);
  }
  mutable uint32_t looks_ = 0;
};
struct KeepsTooMany : Sound {
  using Sound::Sound;
  void begin(SeqId seq, SamplingParams params, SeqId parent) {
    if (params.top_k > 0) params.top_k += 20;
    Sound::begin(seq, params, parent);
  }
};
struct AcceptsAll : Sound {
  using Sound::Sound;
  void verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t drafts = rows[i].drafts.size();
      for (size_t d = 0; d < drafts; ++d) results[i].tokens[d].token = rows[i].drafts[d];
      Sound::sample(rows[i].rows.subspan(drafts, 1), results[i].tokens.subspan(drafts, 1));
      results[i].count = static_cast<uint32_t>(drafts) + 1;
    }
  }
};
struct NamesStrangers : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      results[i].token = static_cast<TokenId>(rows[i].vocabulary);
    }
  }
};

struct SpeaksOfBanned : Sound {
  using Sound::Sound;
  void distribution(SampleRow row, std::span<float> probs) const {
    row.allowed = nullptr;
    Sound::distribution(row, probs);
  }
};
struct CountsSequences : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    sample_changed(*this, rows, results, [](SampleRow& row, size_t) { row.key.seed += row.seq; });
  }
};
struct CutsIds : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    Sound::sample(rows, results);
    for (SampleResult& result : results) result.token &= 0xffff;
  }
};
struct ReadsBehind : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    for (const SampleRow& row : rows) {
      const volatile float behind = row.logits[row.vocabulary];
      static_cast<void>(behind);
    }
    Sound::sample(rows, results);
  }
};
struct IgnoresTemperature : Sound {
  using Sound::Sound;
  void begin(SeqId seq, SamplingParams params, SeqId parent) {
    if (params.temperature > 0) params.temperature = 1;
    Sound::begin(seq, params, parent);
  }
};
struct IgnoresTopP : Sound {
  using Sound::Sound;
  void begin(SeqId seq, SamplingParams params, SeqId parent) {
    params.top_p = 1;
    Sound::begin(seq, params, parent);
  }
};
struct KnowsNoForks : Sound {
  using Sound::Sound;
  Status begin(SeqId seq, const SamplingParams& params, SeqId parent) {
    if (parent != kNoSeq) return Status::error(StatusCode::failed, "a sequence has a parent");
    Sound::begin(seq, params, parent);
    return {};
  }
};
struct TakesTreesForChains : Sound {
  using Sound::Sound;
  Status verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results) const {
    std::vector<VerifyRows> chains(rows.begin(), rows.end());
    for (VerifyRows& one : chains) one.parents = {};
    return Sound::verify(chains, results);
  }
};
struct RemembersEveryone : Sound {
  using Sound::Sound;
  void end(SeqId) {}
};

struct WritesItsInput : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    for (const SampleRow& row : rows) *const_cast<float*>(row.logits) += 0x1p-10f;
    Sound::sample(rows, results);
  }
};
struct Overflows : Sound {
  using Sound::Sound;
  void sample(Rows rows, Results results) const {
    Sound::sample(rows, results);
    for (size_t i = 0; i < rows.size(); ++i) {
      float total = 0;
      for (uint32_t t = 0; t < rows[i].vocabulary; ++t) total += std::exp(rows[i].logits[t]);
      if (std::isinf(total)) results[i].token = 0;
    }
  }
};

// All stages stand in its facts, and it has no more than before.
constexpr Fact kClaims[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact"},
    {.key = "sampler.stages",
     .op = FactOp::in,
     .number = 0,
     .words = "bias bans penalties dry temperature top_n_sigma top_k top_p min_p xtc"},
};

template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<Sampler, Class>(id);
}
constexpr PluginDescriptor claims(std::string_view id) {
  PluginDescriptor made = wrong<Sampler, Sound>(id);
  made.provides = kClaims;
  made.provide_count = 2;
  return made;
}
constexpr PluginDescriptor kWrong[] = {
    made<CountsRows>("test.counts_rows"),
    made<IgnoresSeeds>("test.ignores_seeds"),
    made<IgnoresPositions>("test.ignores_positions"),
    made<TakesTheLastOfEquals>("test.last_of_equals"),
    made<IgnoresAllowed>("test.ignores_allowed"),
    made<FailsForAll>("test.fails_for_all"),
    made<DrawsFromNothing>("test.draws_from_nothing"),
    made<IgnoresScores>("test.ignores_scores"),
    made<SaysOtherShares>("test.says_other_shares"),
    made<SumsToTwo>("test.sums_to_two"),
    made<DrawsWhenAsked>("test.draws_when_asked"),
    made<KeepsTooMany>("test.keeps_too_many"),
    made<AcceptsAll>("test.accepts_all"),
    made<NamesStrangers>("test.names_strangers"),
    made<SpeaksOfBanned>("test.speaks_of_banned"),
    made<CountsSequences>("test.counts_sequences"),
    made<CutsIds>("test.cuts_ids"),
    made<ReadsBehind>("test.reads_behind"),
    made<IgnoresTemperature>("test.ignores_temperature"),
    made<IgnoresTopP>("test.ignores_top_p"),
    made<KnowsNoForks>("test.knows_no_forks"),
    made<TakesTreesForChains>("test.takes_trees_for_chains"),
    claims("test.claims_bias"),
    claims("test.claims_bans"),
    claims("test.claims_penalties"),
    claims("test.claims_dry"),
    claims("test.claims_top_n_sigma"),
    claims("test.claims_min_p"),
    claims("test.claims_xtc"),
    made<RemembersEveryone>("test.remembers_everyone"),
    made<WritesItsInput>("test.writes_its_input"),
    made<Overflows>("test.overflows"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6], &kWrong[7], &kWrong[8], &kWrong[9], &kWrong[10],
                     &kWrong[11], &kWrong[12], &kWrong[13], &kWrong[14], &kWrong[15], &kWrong[16],
                     &kWrong[17], &kWrong[18], &kWrong[19], &kWrong[20], &kWrong[21], &kWrong[22],
                     &kWrong[23], &kWrong[24], &kWrong[25], &kWrong[26], &kWrong[27], &kWrong[28],
                     &kWrong[29], &kWrong[30], &kWrong[31])
