#include "core/engine/requests/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/request/parameters.h"
#include "core/request/sampling_keys.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;

RequestLimits roomy() {
  RequestLimits limits;
  limits.scheduler.context_tokens = 1 << 26;
  limits.scheduler.max_sequences = limits.scheduler.max_batch_tokens = 4096;
  limits.vocabulary = 100;
  limits.sequence_tokens = 1 << 26;
  limits.kv_tokens = uint64_t{1} << 50;
  return limits;
}

Request plain() {
  Request request;
  request.prompt = {1};
  return request;
}

std::string refusal(const Request& request) {
  const Status status = check_request(request, roomy());
  return std::string(status.message());
}

struct Count {
  std::string_view name;
  uint32_t Request::*member;
};
constexpr Count kCounts[] = {{"max_tokens", &Request::max_tokens},
                             {"min_tokens", &Request::min_tokens},
                             {"samples", &Request::samples},
                             {"best_of", &Request::best_of},
                             {"beams", &Request::beams}};

TEST(RequestCheck, takes_what_is_not_said) {
  EXPECT_EQ(refusal(plain()), "");
}

TEST(RequestCheck, takes_counts_within_the_range_of_their_parameter_alone) {
  for (const Count& count : kCounts) {
    const NumberSpec& spec = parameter(count.name).number;
    const std::string fault = std::string(count.name) + " is ";
    const auto with = [&](int64_t value) {
      Request request = plain();
      request.*count.member = static_cast<uint32_t>(value);
      return refusal(request);
    };
    EXPECT_THAT(with(spec.most), Not(HasSubstr(fault))) << count.name;
    EXPECT_THAT(with(spec.least), Not(HasSubstr(fault))) << count.name;
    EXPECT_THAT(with(spec.most + 1), HasSubstr(number_fault(spec, spec.most + 1)));
  }
  Request request = plain();
  request.samples = 0;
  EXPECT_EQ(refusal(request), number_fault(parameter("samples").number, int64_t{0}));
  request = plain();
  request.sampling.logprobs = 1025;
  EXPECT_EQ(refusal(request), number_fault(parameter("logprobs").number, int64_t{1025}));
}

// Mirostat speaks of other numbers too, so a fault is one that names the value.
TEST(RequestCheck, takes_numbers_of_sampling_within_their_range_alone) {
  for (const SamplingKey& key : sampling_keys()) {
    const NumberSpec& spec = parameter(key.name).number;
    const std::string fault = std::string(key.name) + " is ";
    const auto with = [&](double value) {
      Request request = plain();
      key.set(request.sampling, value);
      return refusal(request);
    };
    const double min = spec.whole ? static_cast<double>(spec.least) : spec.min;
    const double max = spec.whole ? static_cast<double>(spec.most) : spec.max;
    EXPECT_EQ(with(max).find(fault + number_text(max)) != std::string::npos, spec.below_max);
    EXPECT_EQ(with(min).find(fault + number_text(min)) != std::string::npos, spec.above_min);
    EXPECT_THAT(with(max + 1), HasSubstr(fault)) << key.name;
    if (spec.whole) continue;
    EXPECT_THAT(with(min - 0.5), HasSubstr(fault)) << key.name;
    EXPECT_THAT(with(std::nan("")), HasSubstr(fault + "nan")) << key.name;
    EXPECT_THAT(with(INFINITY), HasSubstr(fault + "inf")) << key.name;
  }
}

TEST(RequestCheck, counts_of_a_beam_what_is_kept_of_it) {
  RequestLimits limits = roomy();
  limits.kv_tokens = 1000;
  Request request = plain();
  request.sampling.temperature = 0.0f;
  request.beams = 4;
  request.max_tokens = 500;
  EXPECT_THAT(std::string(check_request(request, limits).message()), HasSubstr("4 beams may need"));
  limits.held_tokens = 250;
  EXPECT_TRUE(check_request(request, limits).ok());
  limits.held_tokens = 251;
  EXPECT_FALSE(check_request(request, limits).ok());
}

// Whichever memory is short is named; a hybrid has both.
TEST(RequestCheck, counts_slots_of_state_next_to_tokens) {
  RequestLimits limits = roomy();
  limits.kv_tokens = 100;
  limits.kv_block_tokens = 4;
  limits.state_slots = 5;
  Request request = plain();
  request.sampling.temperature = 0.0f;
  request.beams = 3;
  request.max_tokens = 20;
  const auto faults = [&] { return std::string(check_request(request, limits).message()); };
  EXPECT_EQ(faults(),
            "3 beams need 6 slots of recurrent state – the cache has 5 – ask for fewer beams, or "
            "raise kv_cache.memory");
  limits.state_slots = 6;
  EXPECT_EQ(faults(), "");
  request.max_tokens = 60;
  EXPECT_THAT(faults(),
              HasSubstr("3 beams may need 180 tokens of K/V – the cache has room for 100"));
  // Where no layer attends, there is no K/V to be short of.
  limits.kv_block_tokens = 0;
  limits.kv_tokens = 6;
  EXPECT_EQ(faults(), "");
  limits.state_slots = 5;
  EXPECT_THAT(faults(), HasSubstr("need 6 slots"));
}

// A manager that evicts by weight rewrites what a fork begins with.
TEST(RequestCheck, counts_the_prompt_of_every_beam_where_forks_share_nothing) {
  RequestLimits limits = roomy();
  limits.kv_tokens = 100;
  Request request = plain();
  request.prompt.assign(60, 1);
  request.sampling.temperature = 0.0f;
  request.beams = 2;
  request.max_tokens = 10;
  EXPECT_TRUE(check_request(request, limits).ok());
  limits.forks_share = false;
  EXPECT_THAT(std::string(check_request(request, limits).message()),
              HasSubstr("2 beams may need 138 tokens of K/V"));
}

TEST(RequestCheck, refuses_what_only_beams_have_where_there_are_none) {
  Request request = plain();
  request.length_penalty = 0.5f;
  request.beam_stop = BeamStop::never;
  EXPECT_EQ(refusal(request),
            "length_penalty is 0.5 – it ranks beams, and there are none – leave it out or set "
            "beams\n"
            "early_stopping is set – it ends beam searches, and there is none – leave it out or "
            "set beams");
  request.beams = 2;
  EXPECT_EQ(refusal(request), "");
  request.length_penalty = 101.0f;
  EXPECT_THAT(refusal(request), HasSubstr("length_penalty is 101.0 – it must be a number from"));
}

TEST(RequestCheck, names_the_setting_that_is_to_blame) {
  const auto blamed = [](void (*change)(Request&)) {
    RequestLimits limits = roomy();
    limits.sequence_tokens = 64;
    limits.scheduler.max_sequences = 8;
    limits.sampler_logprobs = 4;
    Request request = plain();
    change(request);
    std::string settings;
    for (const RequestFault& fault : request_faults(request, limits)) {
      settings += (settings.empty() ? "" : " ") + std::string(fault.setting);
    }
    return settings;
  };
  using R = Request&;
  EXPECT_EQ(blamed([](R r) { r.prompt = {}; }), "prompt");
  EXPECT_EQ(blamed([](R r) { r.prompt = {1, 100}; }), "prompt");
  EXPECT_EQ(blamed([](R r) { r.prompt.assign(64, 1); }), "prompt");
  EXPECT_EQ(blamed([](R r) { r.max_tokens = 64; }), "max_tokens");
  EXPECT_EQ(blamed([](R r) { r.max_tokens = 4, r.min_tokens = 5; }), "min_tokens");
  EXPECT_EQ(blamed([](R r) { r.samples = 2, r.best_of = 1; }), "best_of");
  EXPECT_EQ(blamed([](R r) { r.sampling.temperature = -1.0f; }), "temperature");
  EXPECT_EQ(blamed([](R r) { r.sampling.mirostat = 2, r.sampling.top_k = 5; }), "mirostat");
  EXPECT_EQ(blamed([](R r) { r.sampling.logprobs = 5; }), "logprobs");
  EXPECT_EQ(blamed([](R r) { r.lists.allowed_tokens = {100}; }), "allowed_tokens");
  EXPECT_EQ(blamed([](R r) { r.lists.logit_bias = {{100, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(blamed([](R r) { r.lists.bad_words = {{}}; }), "bad_words");
  EXPECT_EQ(blamed([](R r) { r.stop_tokens = {-1}; }), "stop_tokens");
  EXPECT_EQ(blamed([](R r) { r.stop = {""}; }), "stop");
  EXPECT_EQ(blamed([](R r) { r.lists.params.resize(1); }), "params");
  EXPECT_EQ(blamed([](R r) { r.adapter = "x"; }), "adapter");
  EXPECT_EQ(blamed([](R r) { r.beams = 9; }), "beams");
  EXPECT_EQ(blamed([](R r) { r.beams = 2, r.samples = 3; }), "samples");
  EXPECT_EQ(blamed([](R r) { r.steps = 3; }), "steps");
  EXPECT_EQ(blamed([](R r) { r.steps = 3, r.adapter = "x"; }), "adapter steps");
  EXPECT_EQ(blamed([](R r) { r.stop_tokens.assign((1 << 20) + 1, 1); }), "stop_tokens");
}

TEST(RequestCheck, tells_an_unknown_id_by_the_setting_and_its_place_there) {
  const auto told = [](auto&& change) {
    Request request = plain();
    change(request);
    return refusal(request);
  };
  using R = Request&;
  const std::string known = " – the vocabulary has ids 0 to 99";
  EXPECT_EQ(told([](R r) { r.stop_tokens = {5, 100}; }), "stop_tokens[1] is 100" + known);
  EXPECT_EQ(told([](R r) { r.lists.allowed_tokens = {-1}; }), "allowed_tokens[0] is -1" + known);
  EXPECT_EQ(told([](R r) { r.lists.dry_breakers = {5, 100}; }), "dry_breakers[1] is 100" + known);
  EXPECT_EQ(told([](R r) {
              r.lists.logit_bias = {{5, 1.0f}, {100, 1.0f}};
            }),
            "logit_bias has token 100" + known);
  EXPECT_EQ(told([](R r) { r.prompt = {}, r.pooling = Pooling::mean; }),
            "the text is empty – a vector is made of its tokens, and it has none – give a text, or "
            "leave it out");
}

TEST(RequestCheck, refuses_what_bans_everything_that_it_allows) {
  const auto told = [](void (*change)(Request&)) {
    RequestLimits limits = roomy();
    const TokenId eos[] = {7, 8};
    limits.eos_tokens = eos;
    Request request = plain();
    change(request);
    const std::vector<RequestFault> faults = request_faults(request, limits);
    return faults.empty() ? "" : std::string(faults.front().setting) + ": " + faults.front().text;
  };
  const auto banned = [](const std::string& by) {
    return HasSubstr("the request leaves no token to draw at position 1: " + by +
                     " together ban them all");
  };
  using R = Request&;
  const auto words = [](R r) { r.lists.allowed_tokens = {4, 5}, r.lists.bad_words = {{4}, {5}}; };
  EXPECT_THAT(told(words), testing::StartsWith("allowed_tokens: "));
  EXPECT_THAT(told(words), banned("allowed_tokens and bad_words"));
  EXPECT_THAT(told([](R r) { r.lists.allowed_tokens = {8}, r.min_tokens = 1; }),
              banned("allowed_tokens and min_tokens"));
  EXPECT_THAT(told([](R r) {
                r.lists.allowed_tokens = {4, 7}, r.min_tokens = 1, r.stop_tokens = {4};
              }),
              banned("allowed_tokens and min_tokens"));
  EXPECT_THAT(told([](R r) {
                r.lists.allowed_tokens = {4}, r.lists.bad_words = {{1, 4}};
              }),
              banned("allowed_tokens and bad_words"));
  EXPECT_THAT(told([](R r) {
                for (TokenId id = 0; id < 100; ++id) r.lists.bad_words.push_back({id});
              }),
              testing::StartsWith("bad_words: "));
  // Something is left.
  EXPECT_EQ(told([](R r) { r.lists.allowed_tokens = {4, 5}, r.lists.bad_words = {{4}}; }), "");
  EXPECT_EQ(told([](R r) { r.lists.allowed_tokens = {4}, r.lists.bad_words = {{2, 4}}; }), "");
  EXPECT_EQ(told([](R r) { r.lists.allowed_tokens = {8}; }), "");
  EXPECT_EQ(told([](R r) { r.lists.allowed_tokens = {8}, r.min_tokens = 1, r.ignore_eos = true; }),
            "");
}

TEST(RequestCheck, refuses_an_empty_stop_text) {
  Request request = plain();
  request.stop = {"a", ""};
  EXPECT_THAT(refusal(request), HasSubstr("stop has an empty text"));
}

TEST(RequestCheck, adapters_are_those_of_the_pipeline) {
  const std::vector<std::string> known = {"legal", "poems"};
  RequestLimits limits = roomy();
  limits.adapters = known;
  Request request = plain();
  for (const char* name : {"", "none", "legal", "poems"}) {
    request.adapter = name;
    EXPECT_TRUE(check_request(request, limits).ok()) << name;
  }
  request.adapter = "poem";
  EXPECT_EQ(std::string(check_request(request, limits).message()),
            "adapter is \"poem\" – the pipeline has legal, poems; did you mean 'poems'? – name one "
            "of them, or leave it out");
  EXPECT_EQ(refusal(request),
            "adapter is \"poem\" – the pipeline has none – leave it out, or give its folder a name "
            "in [adapters]");
}

}  // namespace
}  // namespace tenon
