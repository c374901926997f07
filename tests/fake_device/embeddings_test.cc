// Embeddings: what becomes of a prompt's hidden states, whoever schedules and keeps K/V.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/fake_device/rig/rig.h"
#include "tests/fake_device/rig/toy_drafters.h"

namespace tenon {
namespace {

Request embedding_of(std::vector<TokenId> prompt, Pooling pooling, bool normalise = false) {
  Request request;
  request.prompt = std::move(prompt);
  request.pooling = pooling;
  request.normalise = normalise;
  return request;
}

std::vector<float> state_behind(const ToyModel& model, std::span<const TokenId> history) {
  std::vector<float> state(ToyModel::kHidden);
  ToyModel::hidden(model.state_behind(history), ToyModel::kLayers, state.data());
  return state;
}

// Row by row, without an engine.
std::vector<float> expected(const ToyModel& model, const Request& request) {
  const std::span<const TokenId> prompt = request.prompt;
  if (request.pooling == Pooling::last) return state_behind(model, prompt);
  if (request.pooling == Pooling::first) return state_behind(model, prompt.first(1));
  std::vector<double> sums(ToyModel::kHidden);
  for (size_t count = 1; count <= prompt.size(); ++count) {
    const std::vector<float> state = state_behind(model, prompt.first(count));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(state[i]);
  }
  std::vector<float> mean;
  for (const double sum : sums) {
    mean.push_back(static_cast<float>(sum / static_cast<double>(prompt.size())));
  }
  return mean;
}

class Embeddings : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  RigOptions options() const {
    RigOptions options;
    options.scheduler = std::get<0>(GetParam());
    options.kv_cache = std::get<1>(GetParam());
    return options;
  }
};

TEST_P(Embeddings, are_those_of_the_rows_among_answers_and_in_small_chunks) {
  RigOptions options = this->options();
  options.max_batch_tokens = 16;
  if (options.scheduler == "static") options.max_batch_tokens = 512;
  Rig rig(options);
  TestRandom random(1);
  std::vector<Request> requests;
  for (const Pooling pooling : {Pooling::last, Pooling::mean, Pooling::first}) {
    for (const uint32_t tokens : {1u, 15u, 40u}) {
      requests.push_back(embedding_of(random.tokens(tokens, 61), pooling));
    }
    requests.push_back(greedy_request(random.tokens(20, 61), 9));
  }
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(rig.submit(request));
  rig.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].pooling == Pooling::none) {
      EXPECT_EQ(rig.result(ids[i]).ids(), oracle(options.model(), requests[i], 0, 256).ids);
      continue;
    }
    EXPECT_EQ(rig.result(ids[i]).reason, FinishReason::pooled) << i;
    EXPECT_EQ(rig.sink(ids[i])->embedding(), expected(options.model(), requests[i])) << i;
    EXPECT_TRUE(rig.result(ids[i]).tokens.empty());
  }
}

TEST_P(Embeddings, of_a_text_that_is_cached_are_the_same) {
  Rig rig(options());
  TestRandom random(2);
  const std::vector<TokenId> prompt = random.tokens(48, 61);
  (void)rig.submit(greedy_request(prompt, 3));
  rig.run();
  for (const Pooling pooling : {Pooling::last, Pooling::mean, Pooling::first}) {
    const Request request = embedding_of(prompt, pooling);
    for (int turn = 0; turn < 2; ++turn) {
      const RequestId id = rig.submit(request);
      rig.run();
      EXPECT_EQ(rig.sink(id)->embedding(), expected(options().model(), request));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, Embeddings,
                         testing::Combine(testing::Values("static", "continuous", "chunked",
                                                          "fair"),
                                          testing::Values("naive", "paged", "prefix", "radix")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::get<1>(test.param);
                         });

TEST(Embedding, is_the_same_after_its_memory_was_taken) {
  RigOptions options;
  options.scheduler = "chunked";
  options.max_batch_tokens = 16;
  options.kv_tokens = 160;
  Rig rig(options);
  TestRandom random(3);
  std::vector<Request> requests;
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(greedy_request(random.tokens(16, 61), 60));
    requests.push_back(embedding_of(random.tokens(90, 61), Pooling::mean));
  }
  for (const Request& request : requests) ids.push_back(rig.submit(request));
  rig.run();
  uint32_t preemptions = 0;
  for (size_t i = 1; i < ids.size(); i += 2) {
    EXPECT_EQ(rig.sink(ids[i])->embedding(), expected(options.model(), requests[i]));
    preemptions += rig.result(ids[i]).record.preemptions;
  }
  EXPECT_GT(preemptions, 0u) << "no embedding was interrupted";
}

TEST(Embedding, has_length_one_where_that_is_asked_for) {
  Rig rig({});
  const Request request = embedding_of({1, 2, 3}, Pooling::mean, true);
  const RequestId id = rig.submit(request);
  rig.run();
  const std::vector<float> raw = expected(RigOptions().model(), request);
  const std::vector<float>& values = rig.sink(id)->embedding();
  double squares = 0.0, length = 0.0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  for (const float value : raw) length += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares, 1.0, 1e-6);
  EXPECT_NEAR(static_cast<double>(values[0]), static_cast<double>(raw[0]) / std::sqrt(length),
              1e-6);
}

TEST(Embedding, beside_a_drafter_that_sees_other_layers_is_the_same) {
  RigOptions options;
  HiddenDrafter drafter(options.model(), false);
  options.drafter = &drafter;
  Rig rig(options);
  TestRandom random(4);
  const Request request = embedding_of(random.tokens(30, 61), Pooling::mean);
  const RequestId answer = rig.submit(greedy_request(random.tokens(10, 61), 12));
  const RequestId id = rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.sink(id)->embedding(), expected(options.model(), request));
  EXPECT_EQ(rig.result(answer).tokens.size(), 12u);
}

TEST(Embedding, is_refused_together_with_what_belongs_to_an_answer) {
  Rig rig({});
  Request request = embedding_of({1, 2}, Pooling::last);
  request.max_tokens = 4;
  EXPECT_THAT(std::string(rig.engine().submit(request).status().message()),
              testing::HasSubstr("an embedding is asked for, and something of an answer"));
  request = embedding_of({1, 2}, Pooling::last);
  request.sampling.temperature = 0.25f;
  EXPECT_THAT(std::string(rig.engine().submit(request).status().message()),
              testing::HasSubstr("temperature is 0.25 – leave it out"));
}

}  // namespace
}  // namespace tenon
