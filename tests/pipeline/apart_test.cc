// Prefill and decode by two pipelines of this process, over the executor `cpu` and sockets: the
// decode worker asks while the prompt is computed, so layers come while others are made. Tokens and
// digests are those of one pipeline.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/engine.h"
#include "core/exec/cpu/executor.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

using Settings = std::vector<std::string>;

// An engine that steps on a thread of its own.
class Worker {
 public:
  explicit Worker(const Settings& more) {
    PluginSearch search;
    search.folders.push_back({build_folder() + "/plugins", "tests", true});
    auto opened = PluginRegistry::open(std::move(search));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
    Settings settings = {"model.path=" + source_folder() + "/configs/models/tale",
                         "kv_cache.plugin=prefix",
                         "kv_cache.block_tokens=8",
                         "kv_cache.memory=16MiB",
                         "limits.context_tokens=256",
                         "executor.threads=2"};
    settings.insert(settings.end(), more.begin(), more.end());
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", settings);
    EXPECT_TRUE(config.ok()) << config.status().message();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors["cpu"] = [](const HostFacts& host) {
      return make_cpu_executor({host.workers, host.cpu});
    };
    request.host.cpu = kCpuPortable;
    request.host.workers = 2;
    auto built = build_pipeline(std::move(request));
    EXPECT_TRUE(built.ok()) << built.status().message();
    pipeline_ = *std::move(built);
    EngineOptions options = pipeline_->engine_options();
    options.logits_digest = options.check_kv = true;
    engine_ = std::make_unique<Engine>(pipeline_->parts(), options);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (!engine_->step().ok()) broken_ = true;
        (void)engine_->wait_for_work(std::chrono::milliseconds(2));
      }
    });
  }
  ~Worker() {
    stop();
    EXPECT_FALSE(broken_);
  }

  std::shared_ptr<ResultSink> submit(Request request) {
    auto sink = std::make_shared<ResultSink>();
    request.sink = sink;
    EXPECT_TRUE(engine_->submit(std::move(request)).ok());
    return sink;
  }
  // Of a request that has ended.
  const ResultSink::Sample& wait_for(const std::shared_ptr<ResultSink>& sink) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!engine_->idle() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    stop();
    return sink->samples().at(0);
  }
  KvTransfer& transfer() { return *pipeline_->transfer; }

 private:
  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }

  std::unique_ptr<PluginRegistry> registry_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Engine> engine_;
  std::atomic<bool> broken_ = false;
  std::jthread thread_;
};

Request story(uint32_t tokens) {
  Request request;
  for (uint32_t i = 0; i < 100; ++i) request.prompt.push_back(static_cast<TokenId>(5 + i * 7 % 90));
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

TEST(Apart, layers_that_come_while_others_are_computed_change_no_bit) {
  for (const Settings& more :
       std::vector<Settings>{{},
                             {"kv_cache.dtype=i4"},
                             {"scheduler.plugin=chunked", "scheduler.options.step_tokens=24"},
                             {"scheduler.plugin=chunked", "scheduler.options.step_tokens=24",
                              "engine.plan_ahead=1"}}) {
    SCOPED_TRACE(more.empty() ? "plain" : more.back());
    Worker alone(more);
    const ResultSink::Sample expected = alone.wait_for(alone.submit(story(12)));
    Settings apart = more;
    apart.push_back("disaggregation.role=both");
    Worker prefill(apart), decode(apart);
    Request second = story(12), first = story(1);
    second.kv_import = decode.transfer().import_from({prefill.transfer().address(), 7, true});
    const auto answer = decode.submit(std::move(second));
    first.kv_export = prefill.transfer().export_as(7);
    const auto done = prefill.submit(std::move(first));
    const ResultSink::Sample& got = decode.wait_for(answer);
    EXPECT_EQ(got.message, "");
    EXPECT_EQ(got.ids(), expected.ids());
    EXPECT_EQ(got.record.logits_digest, expected.record.logits_digest);
    EXPECT_EQ(decode.transfer().totals().imports.found_tokens, 96u);
    const ExportTotals sent = prefill.transfer().totals().exports;
    EXPECT_EQ(sent.sent_blocks, 12u);
    EXPECT_LE(sent.early_bytes, sent.sent_bytes);
    EXPECT_EQ(decode.transfer().totals().imports.received_bytes, sent.sent_bytes);
  }
}

}  // namespace
}  // namespace tenon
