// Pipelines of the executor "sim" next to those that compute, random work for both, and what they
// made of it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <random>

#include "core/compare/json.h"
#include "core/compare/replay/recorded_run.h"
#include "core/exec/cpu/executor.h"
#include "core/model/synth/shape_model.h"
#include "core/sim/executor.h"
#include "tests/pipeline/pipeline_fixture.h"
#include "tests/support/temporary_folder.h"

namespace tenon::compare {

inline sim::Machine machine(double network) {
  return {.name = "m",
          .title = "a machine",
          .memory_bytes = 8 * kGiB,
          .bandwidth = 1e10,
          .link_bandwidth = 1e9,
          .network_bandwidth = network,
          .products = {{"bf16", 1e11, {1, 64}, {0.8, 0.5}}},
          .attention_operations = 1e11,
          .step_ns = 20e3,
          .sequence_ns = 1e3};
}

// What requests of random worlds ask for: tokens alone, log probabilities and ends of their own as
// well, or several samples, too, which no record can be followed with.
enum class Asked : uint8_t { tokens, more, samples };

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() {
    PluginSearch search;
    for (const char* name :
         {"plugins/libtenon-scheduler_static", "plugins/libtenon-scheduler_continuous",
          "plugins/libtenon-scheduler_chunked", "plugins/libtenon-scheduler_fair",
          "plugins/libtenon-kv_cache_naive", "plugins/libtenon-kv_cache_paged",
          "plugins/libtenon-kv_cache_prefix", "plugins/libtenon-kv_cache_radix",
          "plugins/libtenon-sampler_standard", "plugins/libtenon-drafter_ngram",
          "plugins/libtenon-drafter_suffix", "plugins/libtenon-drafter_draft_model",
          "plugins/libtenon-linear_dense", "plugins/libtenon-attention_cpu",
          "tests/pipeline/libtenon-least_slack"}) {
      search.files.push_back({build_folder() + "/" + name + ".so", {"test", 0, 0}});
    }
    auto opened = PluginRegistry::open(search);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  Result<std::unique_ptr<Pipeline>> open(std::vector<std::string> settings, bool simulated,
                                         const std::string& model = "") {
    settings.push_back("model.path=" +
                       (model.empty() ? source_folder() + "/configs/models/tale" : model));
    settings.push_back(std::string("executor.plugin=") + (simulated ? "sim" : "cpu"));
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", settings);
    if (!config.ok()) return config.take_status();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors["cpu"] = [](const HostFacts& host) {
      return make_cpu_executor({.threads = host.workers, .isa = host.cpu});
    };
    request.executors["sim"] = [this](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
      return sim::make_sim_executor({.clock = clock_.get(),
                                     .times = sim::times_of(machine(network_)),
                                     .acceptance = acceptance_});
    };
    request.host.cpu = {};
    request.host.workers = 1;
    request.available_memory_bytes = request.total_memory_bytes = 8 * kGiB;
    if (simulated) {
      clock_ = std::make_unique<VirtualClock>(1);
      request.virtual_clock = clock_.get();
      request.open = [](const std::string& path, std::string_view as) {
        return open_without_weights(path, as, "");
      };
    }
    return build_pipeline(std::move(request));
  }
  std::unique_ptr<Pipeline> opened(const std::vector<std::string>& settings, bool simulated,
                                   const std::string& model = "") {
    auto pipeline = open(settings, simulated, model);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }

  // Prompts that share beginnings, with answers, priorities and deadlines of all kinds.
  std::string random_work(uint64_t seed, Asked asked = Asked::tokens, int requests = 9) {
    std::mt19937_64 random(seed);
    const auto below = [&random](uint64_t count) { return random() % count; };
    std::string text;
    for (int i = 0; i < requests; ++i) {
      std::string tokens;
      const uint64_t shared = below(3), length = 1 + below(44);
      for (uint64_t at = 0; at < length; ++at) {
        const uint64_t token = at < 24 ? 3 + shared * 100 + at : 3 + below(500);
        tokens += (at == 0 ? "" : ", ") + std::to_string(token);
      }
      text += "{\"prompt\": [" + tokens + "], \"max_tokens\": " + std::to_string(1 + below(10)) +
              ", \"ignore_eos\": " + (below(2) == 0 ? "true" : "false") +
              (asked == Asked::tokens ? "" : more_of(random, asked)) + "}\n";
    }
    const std::string name = "work-" + std::to_string(seed) + ".jsonl";
    return folder_.write_file(name, text);
  }
  // Nothing that draws from logits, which a simulation does not have.
  static std::string more_of(std::mt19937_64& random, Asked asked) {
    const auto number = [&random](uint64_t below) { return std::to_string(1 + random() % below); };
    switch (random() % (asked == Asked::more ? 10 : 12)) {
      case 0:
        return ", \"temperature\": 0.8, \"seed\": " + number(99);
      case 1:
        return ", \"logprobs\": " + number(4);
      case 2:
        return ", \"prompt_logprobs\": true";
      case 3:
        return ", \"stop_tokens\": [" + number(500) + ", " + number(500) + "]";
      case 10:
        return ", \"samples\": " + number(3);
      case 11:
        return ", \"samples\": 2, \"temperature\": 1.2, \"seed\": " + number(99);
      default:
        return "";
    }
  }

  ReplayWork work_of(const Pipeline& pipeline, const std::string& path, uint64_t seed) {
    auto work = read_replay_work(pipeline, path, 8);
    EXPECT_TRUE(work.ok()) << work.status().message();
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < work->requests.size(); ++i) {
      Request& request = work->requests[i];
      request.priority = static_cast<int32_t>(random() % 3);
      request.tenant = static_cast<uint32_t>(random() % 2);
      request.deadline_ns = static_cast<int64_t>(random() % 2 * 40'000'000);
      work->arrivals_ns[i] = static_cast<int64_t>(random() % 12) * 1'000'000;
    }
    if (seed % 3 == 0) work->in_flight = 4;
    return *std::move(work);
  }

  // Runs on the processor, then follows that run; what differs, if anything does.
  void follows(const std::vector<std::string>& settings, uint64_t seed,
               const std::string& model = "", Asked asked = Asked::tokens) {
    const std::string path = random_work(seed, asked), views = folder_.path() + "/views.jsonl";
    {
      const auto real = opened(settings, false, model);
      ASSERT_NE(real, nullptr);
      const auto piece = replay(*real, work_of(*real, path, seed), {.salt = 1, .record = views});
      ASSERT_TRUE(piece.ok()) << piece.status().message();
    }
    const auto simulated = opened(settings, true, model);
    ASSERT_NE(simulated, nullptr);
    const auto found = follow_run(*simulated, work_of(*simulated, path, seed), views);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_FALSE(found->differ) << testing::PrintToString(found->lines);
    EXPECT_GT(found->plans, 5u);
  }

  MeasuredPiece simulated_piece(const std::vector<std::string>& settings, uint64_t seed,
                                const std::string& model = "") {
    const auto pipeline = opened(settings, true, model);
    if (pipeline == nullptr) return {};
    const auto piece = replay(*pipeline, work_of(*pipeline, random_work(seed), seed), {.salt = 1});
    EXPECT_TRUE(piece.ok()) << piece.status().message();
    return piece.ok() ? *piece : MeasuredPiece();
  }

  // Answers so long that most steps repeat the one before.
  MeasuredPiece long_piece(const std::vector<std::string>& settings, uint64_t seed,
                           Asked asked = Asked::tokens) {
    const auto pipeline = opened(settings, true, source_folder() + "/configs/models/tale-draft");
    if (pipeline == nullptr) return {};
    const int count = asked == Asked::tokens ? 9 : static_cast<int>(9 + seed % 30);
    ReplayWork work = work_of(*pipeline, random_work(seed, asked, count), seed);
    std::mt19937_64 random(seed);
    for (Request& request : work.requests) {
      request.max_tokens = 1 + static_cast<uint32_t>(random() % 140);
      request.ignore_eos = true;
    }
    const auto piece = replay(*pipeline, work, {.salt = 1});
    EXPECT_TRUE(piece.ok()) << piece.status().message();
    return piece.ok() ? *piece : MeasuredPiece();
  }

  std::unique_ptr<PluginRegistry> registry_;
  std::unique_ptr<VirtualClock> clock_;
  std::optional<double> acceptance_;
  double network_ = 1e9;
  TemporaryFolder folder_;
};

// So little memory that sequences wait and are preempted.
inline std::vector<std::string> tight(const std::string& scheduler, const std::string& kv_cache) {
  // A region of "naive" is one block.
  const std::string block_tokens = kv_cache == "naive" ? "auto" : "16";
  return {"scheduler.plugin=" + scheduler, "kv_cache.plugin=" + kv_cache,
          "kv_cache.memory=1MiB",          "kv_cache.block_tokens=" + block_tokens,
          "limits.context_tokens=64",      "limits.max_sequences=4",
          "limits.max_batch_tokens=48"};
}

}  // namespace tenon::compare
