// Two engines with one model behind a server: requests that one of them fails are answered by the
// other, with the tokens that one engine alone gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "core/exec/cpu/executor.h"
#include "core/pipeline/pipeline.h"
#include "core/server/api/read/json.h"
#include "core/server/service.h"
#include "tests/support/folders.h"

namespace tenon::server {
namespace {

using testing::HasSubstr;

// What happens to the steps of one engine.
struct Fate {
  std::atomic<int> good_steps{1 << 30};  // until they fail
  std::atomic<int> steps{0};
};

class FailingExecutor final : public Executor {
 public:
  FailingExecutor(std::unique_ptr<Executor> inner, Fate& fate)
      : inner_(std::move(inner)), fate_(fate) {}
  std::string_view name() const override { return inner_->name(); }
  std::span<const Fact> provides() const override { return inner_->provides(); }
  std::span<const Fact> requirements() const override { return inner_->requirements(); }
  bool uses_kernels() const override { return inner_->uses_kernels(); }
  uint32_t workers() const override { return inner_->workers(); }
  Status load(const ExecutorSetup& setup) override { return inner_->load(setup); }
  Status apply(std::span<const KvMove> moves) override { return inner_->apply(moves); }
  Status launch(const BatchView& batch) override {
    ++fate_.steps;
    if (fate_.good_steps-- <= 0) return failed("the machine is on fire");
    return inner_->launch(batch);
  }
  Result<StepOutput> collect(uint64_t step_id) override { return inner_->collect(step_id); }
  std::string numerics() const override { return inner_->numerics(); }
  uint64_t weight_bytes() const override { return inner_->weight_bytes(); }
  uint64_t shared_weight_bytes() const override { return inner_->shared_weight_bytes(); }
  uint64_t kv_bytes() const override { return inner_->kv_bytes(); }

 private:
  std::unique_ptr<Executor> inner_;
  Fate& fate_;
};

// A client that reads as fast as it can.
class TestExchange final : public http::Exchange {
 public:
  void answer(http::Response response) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    answered_ = true;
    changed_.notify_all();
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    ++wakes_;
    changed_.notify_all();
  }
  void watch(std::function<void()>) override {}

  // All of the body; `on_piece` sees what has come so far.
  std::string read(const std::function<void(const std::string&)>& on_piece = {}) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answered_; });
    if (response_.stream == nullptr) return response_.body;
    std::string all;
    for (uint64_t seen = 0;;) {
      lock.unlock();
      const auto next = response_.stream->take(all);
      if (on_piece) on_piece(all);
      lock.lock();
      if (next != http::BodyStream::Next::more) return all;
      changed_.wait_for(lock, std::chrono::milliseconds(20), [&] { return wakes_ > seen; });
      seen = wakes_;
    }
  }
  unsigned status() const { return response_.status; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  http::Response response_;
  bool answered_ = false;
  uint64_t wakes_ = 0;
};

class ReplicasOfServer : public testing::Test {
 protected:
  ReplicasOfServer() {
    PluginSearch search;
    search.folders.push_back({build_folder() + "/plugins", "tests", true});
    auto opened = PluginRegistry::open(std::move(search));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  std::unique_ptr<Pipeline> build(Fate& fate) {
    auto config = parse_pipeline_config(
        "format = 1\n", "p.toml", "/",
        {"model.path=" + source_folder() + "/configs/models/tale", "kv_cache.plugin=prefix",
         "kv_cache.memory=64MiB", "executor.threads=1", "parallel.data=2"});
    EXPECT_TRUE(config.ok()) << config.status().message();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.shared_weights = &weights_;
    request.executors["cpu"] = [&fate](const HostFacts& host) -> Result<std::unique_ptr<Executor>> {
      TENON_ASSIGN_OR_RETURN(auto inner, make_cpu_executor({host.workers, host.cpu}));
      return std::unique_ptr<Executor>(std::make_unique<FailingExecutor>(std::move(inner), fate));
    };
    request.host.cpu = kCpuPortable;
    request.host.workers = 1;
    auto pipeline = build_pipeline(std::move(request));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }

  std::unique_ptr<Service> serve(uint32_t replicas) {
    std::unique_ptr<ServedModel> model;
    for (uint32_t rank = 0; rank < replicas; ++rank) {
      pipelines_.push_back(build(fates_[rank]));
      Pipeline& pipeline = *pipelines_.back();
      if (rank > 0) {
        model->others.push_back(another_replica(*model, pipeline, rank));
        continue;
      }
      auto opened = open_served_model("tale", pipeline, "");
      EXPECT_TRUE(opened.ok());
      model = *std::move(opened);
      model->replicas = replicas;
    }
    std::vector<ModelSource> models;
    models.push_back({.name = "tale", .loaded = std::move(model), .keep = true});
    return std::make_unique<Service>(std::move(models), ServiceOptions{.version = "test"},
                                     [this] { broken_ = true; });
  }

  static std::shared_ptr<TestExchange> ask(Service& service, const std::string& body,
                                           std::vector<http::Field> fields = {}) {
    http::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.fields = std::move(fields);
    request.fields.push_back({"content-type", "application/json"});
    request.body = body;
    auto exchange = std::make_shared<TestExchange>();
    service.handlers().handle(std::move(request), exchange);
    return exchange;
  }
  static std::string metrics(Service& service) {
    auto exchange = std::make_shared<TestExchange>();
    http::Request request;
    request.method = "GET";
    request.path = "/metrics";
    service.handlers().handle(std::move(request), exchange);
    return exchange->read();
  }
  static std::string text_of(const std::string& body) {
    const auto json = api::from_text(body);
    if (!json.contains("choices")) return body;
    return json["choices"][0]["text"].get<std::string>();
  }
  // Of a stream of server-sent events.
  static std::string streamed_text(const std::string& events) {
    std::string text;
    for (size_t at = 0; (at = events.find("data: {", at)) != events.npos; at += 6) {
      const auto json = api::from_text(events.substr(at + 6, events.find('\n', at) - at - 6));
      if (json.contains("choices") && !json["choices"].empty()) {
        text += json["choices"][0]["text"].get<std::string>();
      }
    }
    return text;
  }

  SharedWeights weights_;
  Fate fates_[2];
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
  std::unique_ptr<PluginRegistry> registry_;
  std::atomic<bool> broken_{false};
};

const std::string kAsk =
    R"({"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0.8, "seed": 5)";

std::vector<http::Field> at_rank(const char* rank) {
  return {{"x-data-parallel-rank", rank}};
}

TEST_F(ReplicasOfServer, both_give_the_same_tokens_and_are_counted_apart) {
  auto service = serve(2);
  const std::string first = text_of(ask(*service, kAsk + "}", at_rank("0"))->read());
  EXPECT_GT(first.size(), 40u);
  EXPECT_EQ(text_of(ask(*service, kAsk + "}", at_rank("1"))->read()), first);
  EXPECT_EQ(fates_[0].steps, fates_[1].steps);
  // A step is counted once its tokens are out.
  std::string text = metrics(*service);
  const std::string last = "tokens_total{model_name=\"tale\",engine=\"1\"} 40";
  for (int i = 0; i < 500 && text.find("vllm:generation_" + last) == text.npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    text = metrics(*service);
  }
  for (const char* engine : {"0", "1"}) {
    EXPECT_THAT(text, HasSubstr("vllm:generation_tokens_total{model_name=\"tale\",engine=\"" +
                                std::string(engine) + "\"} 40"));
    EXPECT_THAT(text, HasSubstr("tenon:replica_up{model_name=\"tale\",engine=\"" +
                                std::string(engine) + "\"} 1"));
  }
  EXPECT_THAT(text,
              HasSubstr("tenon:weight_bytes{model_name=\"tale\",engine=\"1\",held=\"own\"} 0"));
}

TEST_F(ReplicasOfServer, a_request_whose_step_fails_is_made_again_by_the_other) {
  auto service = serve(2);
  const std::string good = text_of(ask(*service, kAsk + "}", at_rank("0"))->read());
  for (const int good_steps : {0, 1, 7}) {
    // Wherever it goes first, it ends at the other.
    const int before = fates_[0].steps;
    fates_[0].good_steps = good_steps;
    const auto exchange = ask(*service, kAsk + "}");
    EXPECT_EQ(text_of(exchange->read()), good) << good_steps;
    EXPECT_EQ(exchange->status(), 200u);
    EXPECT_GT(fates_[0].steps, before) << "it never was at the replica that fails";
    fates_[0].good_steps = 1 << 30;
  }
  EXPECT_THAT(metrics(*service), HasSubstr("tenon:repeated_requests_total{model_name=\"tale\"} 3"));
  EXPECT_FALSE(broken_);
}

TEST_F(ReplicasOfServer, a_stream_goes_on_where_it_stood) {
  auto service = serve(2);
  const std::string good = text_of(ask(*service, kAsk + "}", at_rank("1"))->read());
  for (const char* more : {R"(, "stream": true})", R"(, "stream": true, "logprobs": 2, "n": 2})"}) {
    fates_[0].good_steps = 9;
    const auto exchange = ask(*service, kAsk + more);
    const std::string events = exchange->read();
    if (std::string(more).find("\"n\"") == std::string::npos) {
      EXPECT_EQ(streamed_text(events), good);
    }
    EXPECT_THAT(events, HasSubstr("data: [DONE]"));
    EXPECT_THAT(events, testing::Not(HasSubstr("error")));
    EXPECT_LE(fates_[0].good_steps, 0);
    fates_[0].good_steps = 1 << 30;
  }
}

TEST_F(ReplicasOfServer, a_request_for_one_replica_is_not_made_by_another) {
  auto service = serve(2);
  fates_[1].good_steps = 0;
  const auto exchange = ask(*service, kAsk + "}", at_rank("1"));
  EXPECT_THAT(exchange->read(), HasSubstr("the machine is on fire"));
  EXPECT_EQ(exchange->status(), 500u);
}

TEST_F(ReplicasOfServer, where_all_fail_the_last_one_says_why) {
  auto service = serve(2);
  fates_[0].good_steps = fates_[1].good_steps = 0;
  const auto exchange = ask(*service, kAsk + "}");
  EXPECT_THAT(exchange->read(), HasSubstr("the machine is on fire"));
  EXPECT_EQ(exchange->status(), 500u);
}

TEST_F(ReplicasOfServer, many_at_once_keep_their_answers_while_one_replica_fails_now_and_then) {
  auto service = serve(2);
  std::vector<std::string> good, asked;
  for (int i = 0; i < 8; ++i) {
    asked.push_back(R"({"prompt": "The old witch )" + std::to_string(i) +
                    R"(", "max_tokens": 24, "seed": 3})");
    good.push_back(text_of(ask(*service, asked.back(), at_rank("0"))->read()));
  }
  fates_[1].good_steps = 4;
  std::vector<std::shared_ptr<TestExchange>> exchanges;
  for (const std::string& body : asked) exchanges.push_back(ask(*service, body));
  for (size_t i = 0; i < exchanges.size(); ++i) EXPECT_EQ(text_of(exchanges[i]->read()), good[i]);
}

// The engine's end as the service hears of it.
TEST_F(ReplicasOfServer, who_waits_for_an_engine_that_is_lost_is_answered_by_the_other) {
  auto service = serve(2);
  const std::string good = text_of(ask(*service, kAsk + "}", at_rank("1"))->read());
  const auto exchange = ask(*service, kAsk + R"(, "stream": true})");
  bool lost = false;
  const std::string events = exchange->read([&](const std::string& so_far) {
    if (lost || streamed_text(so_far).size() < 10) return;
    lost = true;
    EXPECT_TRUE(service->lose_replica("tale", 0, "its memory is broken"));
  });
  EXPECT_TRUE(lost);
  EXPECT_EQ(streamed_text(events), good);
  EXPECT_THAT(metrics(*service), HasSubstr("tenon:replica_up{model_name=\"tale\",engine=\"0\"} 0"));
  const auto wished = ask(*service, kAsk + "}", at_rank("0"));
  EXPECT_THAT(wished->read(),
              HasSubstr("replica 0 of the model 'tale', which "
                        "X-data-parallel-rank names, is lost: its memory is broken"));
  EXPECT_EQ(wished->status(), 503u);
  EXPECT_FALSE(broken_);
  EXPECT_TRUE(service->lose_replica("tale", 1, "this one's as well"));
  EXPECT_TRUE(broken_);
}

}  // namespace
}  // namespace tenon::server
