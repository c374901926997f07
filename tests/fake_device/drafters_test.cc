// Real drafters over the fake device: what they may never change, and what they must propose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

constexpr uint32_t kVocabulary = 17;
// A short window makes the toy model repeat itself, so that lookups find something.
constexpr uint32_t kWindow = 3;

struct Kind {
  const char* plugin;
  const char* options;
};
constexpr Kind kKinds[] = {
    {"ngram", "adaptive=false min_ngram=1 max_draft_tokens=5"},
    {"ngram", "adaptive=true"},
    {"suffix", "adaptive=false min_match=1 min_share=0.0"},
    {"suffix", "adaptive=true"},
    {"draft_model", "adaptive=false max_draft_tokens=3"},
    {"draft_model", "adaptive=true max_draft_tokens=7"},
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.plugin << " " << kind.options;
}

RigOptions rig_with(const Kind& kind) {
  RigOptions options;
  options.vocabulary = kVocabulary;
  options.window_tokens = kWindow;
  options.drafter_plugin = kind.plugin;
  options.drafter_options = kind.options;
  if (std::string_view(kind.plugin) == "draft_model") {
    options.second_model = ToyModel{kVocabulary, kWindow, 4};
  }
  return options;
}

// Greedy and drawn, one and several samples, short and long; some begin alike.
std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  TestRandom random(23);
  const std::vector<TokenId> common = random.tokens(40, kVocabulary);
  for (uint32_t length : {1u, 15u, 16u, 40u, 33u, 7u, 64u, 2u, 9u, 30u}) {
    Request request;
    request.prompt = random.tokens(length, kVocabulary);
    if (requests.size() % 2 == 0) {
      request.prompt.insert(request.prompt.begin(), common.begin(), common.end());
    }
    request.max_tokens = 5 + random.below(60);
    request.samples = requests.size() % 3 == 1 ? 3 : 1;
    request.sampling.temperature = requests.size() % 2 == 0 ? 0.0f : 0.8f;
    request.sampling.seed = 400 + requests.size();
    requests.push_back(request);
  }
  return requests;
}

void expect_oracle(Rig& rig, const RigOptions& options) {
  const std::vector<Request> requests = mixed_requests();
  for (const Request& request : requests) rig.submit(request);
  rig.run();
  const ToyModel model{options.vocabulary, options.window_tokens};
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
      const Expected expected = oracle(model, requests[i], sample, options.context_tokens);
      EXPECT_EQ(rig.result(i + 1, sample).ids(), expected.ids) << "request " << i;
      EXPECT_EQ(rig.result(i + 1, sample).record.logits_digest, expected.digest);
    }
  }
  EXPECT_EQ(rig.engine().last_fault(), "");
}

class Drafters : public testing::TestWithParam<Kind> {};

TEST_P(Drafters, change_no_token_under_exact_verification) {
  const RigOptions options = rig_with(GetParam());
  Rig rig(options);
  expect_oracle(rig, options);
  EXPECT_GT(rig.engine().totals().drafts.accepted, 0u);
}

TEST_P(Drafters, change_no_token_when_memory_is_short) {
  for (const uint32_t block_tokens : {1u, 16u}) {
    RigOptions options = rig_with(GetParam());
    options.block_tokens = block_tokens;
    options.context_tokens = 160;
    options.kv_tokens = 176;
    options.max_batch_tokens = 40;
    options.window_tokens = 0;  // every position is read again
    if (options.second_model) options.second_model->window_tokens = 0;
    Rig rig(options);
    expect_oracle(rig, options);
    EXPECT_GT(rig.engine().totals().preemptions, 0u);
  }
}

TEST_P(Drafters, change_no_token_with_contiguous_memory_or_chunked_prompts) {
  RigOptions contiguous = rig_with(GetParam());
  contiguous.kv_cache = "naive";
  contiguous.kv_tokens = 4 * contiguous.context_tokens;
  Rig first(contiguous);
  expect_oracle(first, contiguous);
  RigOptions chunked = rig_with(GetParam());
  chunked.scheduler_options = "chunk_tokens=5";
  Rig second(chunked);
  expect_oracle(second, chunked);
}

// Some filters look at the tokens before, one keeps a state; drafts are drawn through them too.
std::vector<Request> filtered_requests() {
  std::vector<Request> requests = mixed_requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    SamplingParams& sampling = requests[i].sampling;
    sampling.temperature = 0.9f;
    if (i % 5 == 0) sampling.mirostat = 2;
    if (i % 5 == 1) sampling.presence_penalty = 1.5f;
    if (i % 5 == 2) sampling.dry_multiplier = 0.8f;
    if (i % 5 == 3) sampling.xtc_probability = 0.5f;
    if (i % 5 == 4) sampling.min_p = 0.1f;
  }
  return requests;
}

TEST_P(Drafters, change_no_token_behind_filters_that_look_back) {
  RigOptions plain = rig_with(GetParam());
  plain.drafter_plugin.clear();
  plain.second_model.reset();
  Rig without(plain), with(rig_with(GetParam()));
  const std::vector<Request> requests = filtered_requests();
  for (Rig* rig : {&without, &with}) {
    for (const Request& request : requests) rig->submit(request);
    rig->run();
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
      EXPECT_EQ(with.result(i + 1, sample).ids(), without.result(i + 1, sample).ids()) << i;
    }
  }
  EXPECT_GT(with.engine().totals().drafts.tokens, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Drafters, testing::ValuesIn(kKinds));

// Holds every draft of a second model against what that model says from scratch.
class DraftsFromScratch final : public Drafter {
 public:
  DraftsFromScratch(const ToyModel& model, const std::vector<Request>& requests) : model_(model) {
    for (const Request& request : requests) requests_[request.sampling.seed] = &request;
  }
  Drafter* around(Drafter& inner) { return inner_ = &inner, this; }
  uint64_t compared() const { return compared_; }

  Status bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept override {
    return inner_->bind(target, wanted);
  }
  Status begin(SeqId seq, SeqId parent) noexcept override { return inner_->begin(seq, parent); }
  Status end(SeqId seq) noexcept override { return inner_->end(seq); }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override {
    return inner_->offer(requests, offered);
  }
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override {
    Status status = inner_->draft(requests, drafts);
    for (size_t i = 0; status.ok() && i < requests.size(); ++i) compare(requests[i], drafts[i]);
    return status;
  }
  Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                uint32_t accepted) noexcept override {
    return inner_->accept(seq, history, drafted, accepted);
  }
  Status measured(const DraftStepCost& cost) noexcept override { return inner_->measured(cost); }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

 private:
  void compare(const DraftRequest& request, const DraftOut& out) {
    EXPECT_EQ(out.count, request.max_tokens);
    std::vector<TokenId> history(request.history.begin(), request.history.end());
    (void)sampler_->begin(0, requests_.at(request.key.seed)->sampling, kNoSeq);
    for (uint32_t d = 0; d < out.count; ++d) {
      const std::vector<float> logits = model_.next_logits(history);
      SampleRow row;
      row.seq = 0;
      row.logits = logits.data();
      row.vocabulary = model_.vocabulary;
      row.history = history;
      row.key = {request.key.seed, request.key.sample, request.key.position + d};
      SampleResult result;
      (void)sampler_->sample({&row, 1}, {&result, 1});
      EXPECT_EQ(out.tokens[d], result.token) << "draft " << d << " behind " << history.size();
      history.push_back(out.tokens[d]);
      ++compared_;
    }
  }

  ToyModel model_;
  std::map<uint64_t, const Request*> requests_;
  LoadedPlugin<Sampler> sampler_{"sampler", "standard"};
  Drafter* inner_ = nullptr;
  uint64_t compared_ = 0;
};

struct Memory {
  const char* kv_cache;
  uint32_t block_tokens;
  uint32_t kv_tokens;
  uint32_t max_batch_tokens;
  const char* scheduler_options;
  uint32_t swap_tokens;
};
class SecondModel : public testing::TestWithParam<Memory> {};

// Wherever its K/V comes from: computed now or earlier, shared by forks, copied, taken back after a
// rejection, computed again after a preemption. It also tells that no position is missing.
TEST_P(SecondModel, says_what_it_says_without_any_cache) {
  const Memory& memory = GetParam();
  RigOptions options = rig_with({"draft_model", "adaptive=false max_draft_tokens=4"});
  options.window_tokens = 0;
  options.second_model = ToyModel{kVocabulary, 0, 3};
  options.kv_cache = memory.kv_cache;
  options.block_tokens = memory.block_tokens;
  options.kv_tokens = memory.kv_tokens;
  options.max_batch_tokens = memory.max_batch_tokens;
  options.scheduler_options = memory.scheduler_options;
  options.swap_tokens = memory.swap_tokens;
  options.context_tokens = 176;
  const std::vector<Request> requests = mixed_requests();
  DraftsFromScratch check(*options.second_model, requests);
  options.around_drafter = [&check](Drafter& inner) { return check.around(inner); };
  Rig rig(options);
  expect_oracle(rig, options);
  EXPECT_GT(check.compared(), 200u);
}

constexpr Memory kMemories[] = {
    {"paged", 16, 4096, 512, "", 0},
    {"paged", 16, 192, 60, "", 0},
    {"paged", 1, 192, 60, "chunk_tokens=7", 0},
    {"paged", 64, 256, 20, "", 0},
    {"naive", 0, 176 * 2, 40, "", 0},
    {"prefix", 16, 4096, 512, "", 0},
    {"prefix", 16, 192, 60, "", 0},
    {"prefix", 4, 200, 60, "chunk_tokens=7", 0},
    {"prefix", 8, 192, 60, "preempt=swap", 512},
    {"radix", 16, 4096, 512, "", 0},
    {"radix", 16, 192, 60, "chunk_tokens=7", 0},
    {"radix", 1, 200, 60, "", 0},
    {"radix", 8, 192, 60, "preempt=swap", 64},
};
INSTANTIATE_TEST_SUITE_P(Memories, SecondModel, testing::ValuesIn(kMemories));

TEST(SecondModelStatistics, are_those_that_the_two_models_agreement_predicts) {
  RigOptions options = rig_with({"draft_model", "adaptive=false max_draft_tokens=3"});
  options.window_tokens = 0;
  options.second_model = ToyModel{kVocabulary, 0, 4};
  Rig rig(options);
  const Request request = greedy_request({3, 1, 4}, 150);
  const RequestId id = rig.submit(request);
  rig.run();
  const ToyModel target{kVocabulary};
  const auto best = [](const ToyModel& model, std::span<const TokenId> history) {
    const std::vector<float> logits = model.next_logits(history);
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  };
  std::vector<TokenId> history = request.prompt;
  const std::vector<TokenId> ids = rig.result(id).ids();
  history.insert(history.end(), ids.begin(), ids.end());
  DraftStatistics predicted;
  // The first token comes with the prompt; from then on each step drafts after what is known.
  for (size_t known = request.prompt.size() + 1; known < history.size();) {
    const auto most = std::min<size_t>(3, history.size() - known - 1);
    uint32_t agreed = 0;
    while (agreed < most) {
      const std::span<const TokenId> before = std::span(history).first(known + agreed);
      if (best(*options.second_model, before) != best(target, before)) break;
      ++agreed;
    }
    predicted.add(static_cast<uint32_t>(most), agreed);
    known += agreed + 1;
  }
  const DraftStatistics& found = rig.engine().totals().drafts;
  EXPECT_EQ(found.drafts, predicted.drafts);
  EXPECT_EQ(found.tokens, predicted.tokens);
  EXPECT_EQ(found.accepted, predicted.accepted);
  EXPECT_EQ(found.accepted_at, predicted.accepted_at);
  EXPECT_GT(found.acceptance(), 0.4);
  EXPECT_LT(found.acceptance(), 0.95);
}

TEST(SecondModelRows, are_computed_once_as_long_as_a_sequence_runs) {
  RigOptions options = rig_with({"draft_model", "adaptive=false max_draft_tokens=2"});
  options.second_model = ToyModel{kVocabulary, kWindow, 0};  // agrees always
  Rig rig(options);
  rig.submit(greedy_request(std::vector<TokenId>(20, 5), 31));
  rig.run();
  // Steps of three tokens. The draft reads 20 + 1 tokens, then what is new.
  EXPECT_EQ(rig.engine().totals().steps, 11u);
  EXPECT_LE(rig.runner().rows_computed(), 20u + 31u + 1u);
}

// Draws the second and third token of many requests; the first is drawn without drafts.
class Rejection : public testing::TestWithParam<Kind> {};

TEST_P(Rejection, keeps_the_distribution_of_the_target) {
  RigOptions options = rig_with(GetParam());
  options.vocabulary = 4;
  options.window_tokens = 0;
  if (options.second_model) options.second_model = ToyModel{4, 0, 2};
  options.verify_by_rejection = true;
  options.kv_tokens = 16384;
  options.max_sequences = 64;
  options.engine.check_kv = false;
  options.engine.inbox_requests = 10000;
  Rig rig(options);
  constexpr uint32_t kRequests = 4000;
  const std::vector<TokenId> prompt = {1, 2, 0, 1, 2, 0, 1, 2, 0};
  std::map<std::vector<TokenId>, uint32_t> seen;
  for (uint32_t i = 0; i < kRequests; ++i) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = 3;
    request.sampling.temperature = 6.0f;
    request.sampling.seed = 77000 + i;
    rig.submit(request);
  }
  rig.run(100000);
  for (uint32_t i = 1; i <= kRequests; ++i) ++seen[rig.result(i).ids()];
  EXPECT_GT(rig.engine().totals().drafts.accepted, 200u);

  const ToyModel model{4};
  const auto probabilities = [&](std::span<const TokenId> history) {
    std::vector<float> p = model.next_logits(history);
    double sum = 0;
    for (float& value : p) sum += value = std::exp(value / 6.0f);
    for (float& value : p) value /= static_cast<float>(sum);
    return p;
  };
  double chi_square = 0;
  for (uint32_t outcome = 0; outcome < 64; ++outcome) {
    std::vector<TokenId> history = prompt;
    double probability = 1;
    for (const uint32_t token : {outcome / 16, outcome / 4 % 4, outcome % 4}) {
      probability *= probabilities(history)[token];
      history.push_back(static_cast<TokenId>(token));
    }
    const double expected = probability * kRequests;
    const double found = seen[{history.end() - 3, history.end()}];
    chi_square += (found - expected) * (found - expected) / expected;
  }
  // 63 degrees of freedom: 103 is exceeded once in a thousand; the seeds are fixed.
  EXPECT_LT(chi_square, 103.0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Rejection, testing::Values(kKinds[0], kKinds[2], kKinds[4]));

TEST(DraftLimits, are_kept_where_an_answer_ends) {
  RigOptions options = rig_with({"ngram", "adaptive=false min_ngram=1 max_draft_tokens=8"});
  options.sampler = "replay";
  options.sampler_options = "tokens=7";
  Rig rig(options);
  // One token with the prompt; then eight drafts and one more; of the rest one is no draft.
  const RequestId id = rig.submit(greedy_request({7, 7, 7, 7}, 13));
  rig.run();
  EXPECT_EQ(rig.result(id).tokens.size(), 13u);
  EXPECT_EQ(rig.engine().totals().steps, 3u);
  EXPECT_THAT(rig.engine().totals().drafts.accepted_at,
              testing::ElementsAre(2, 2, 1, 1, 1, 1, 1, 1));
}

}  // namespace
}  // namespace tenon
