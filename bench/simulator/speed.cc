// How fast a simulation is: seconds of a cluster in a second of one processor, and the memory that
// takes, with requests that are made as they arrive.
//
//   tenon-simulator-speed [requests] [machines] [requests a second of each] [model] [machine]
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/compare/cluster/cluster.h"
#include "core/llm/open/open_pipeline.h"
#include "core/pipeline/make_request.h"
#include "core/workload/draw.h"
#include "core/workload/workload.h"

namespace tenon {
namespace {

constexpr LengthDistribution kPrompt{.mean = 300, .spread = 0.8, .min = 4, .max = 2000};
constexpr LengthDistribution kAnswer{.mean = 200, .spread = 0.8, .min = 4, .max = 1500};

struct Asked {
  size_t requests = 20'000;
  size_t machines = 1;
  double rate = 10;  // of each machine
  std::string model = "llama-3.1-8b", machine = "h100";
};

struct Usage {
  double seconds = 0;
  double mebibytes = 0;  // at most so far
};
Usage usage() {
  rusage now{};
  ::getrusage(RUSAGE_SELF, &now);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {of(now.ru_utime) + of(now.ru_stime), static_cast<double>(now.ru_maxrss) / 1024};
}

Result<std::vector<llm::OpenedPipeline>> open_all(const Asked& asked) {
  std::vector<llm::OpenedPipeline> out;
  for (size_t i = 0; i < asked.machines; ++i) {
    TENON_ASSIGN_OR_RETURN(
        PipelineConfig config,
        llm::read_config({.overrides = {"executor.plugin=sim", "executor.machine=" + asked.machine,
                                        "model.path=" + asked.model, "scheduler.plugin=chunked",
                                        "kv_cache.plugin=paged", "kv_cache.memory=40GiB",
                                        "limits.context_tokens=4096", "limits.max_sequences=256",
                                        "limits.max_batch_tokens=2048"}}));
    TENON_ASSIGN_OR_RETURN(llm::OpenedPipeline opened,
                           llm::open_pipeline(std::move(config), {}, {.moves_clock = true}));
    out.push_back(std::move(opened));
  }
  return out;
}

// Lengths and arrivals are kept, which are small; prompts follow from their number.
compare::ReplayWork work_of(const Pipeline& pipeline, const Asked& asked) {
  compare::ReplayWork work;
  WorkloadDraw draw(1);
  auto lengths = std::make_shared<std::vector<std::pair<uint32_t, uint32_t>>>();
  double at_ns = 0;
  for (size_t i = 0; i < asked.requests; ++i) {
    lengths->emplace_back(draw.length(kPrompt), draw.length(kAnswer));
    work.arrivals_ns.push_back(static_cast<int64_t>(at_ns));
    at_ns += static_cast<double>(draw.gap_ns(asked.rate * static_cast<double>(asked.machines)));
  }
  work.make = [&pipeline, lengths](size_t index) {
    const auto [prompt, answer] = (*lengths)[index];
    const DrawnTokens tokens{.stream = index, .tokens = prompt};
    AnswerSettings settings;
    settings.max_tokens = answer;
    settings.ignore_eos = true;
    auto request = make_request(pipeline, settings,
                                drawn_prompt({&tokens, 1}, pipeline.model->plan.vocabulary));
    return request.ok() ? *std::move(request) : Request();
  };
  return work;
}

Status measure(const Asked& asked) {
  TENON_ASSIGN_OR_RETURN(const std::vector<llm::OpenedPipeline> opened, open_all(asked));
  std::vector<Pipeline*> machines;
  for (const llm::OpenedPipeline& each : opened) machines.push_back(each.pipeline.get());
  const compare::ReplayWork work = work_of(*machines.front(), asked);
  const Usage before = usage();
  const WallClock clock;
  const int64_t began_ns = clock.now_ns();
  TENON_ASSIGN_OR_RETURN(
      const MeasuredPiece piece,
      compare::replay_cluster(machines, {.routing = Routing::least_load}, work, {.salt = 1}));
  const Usage after = usage();
  const double cpu = after.seconds - before.seconds;
  const double wall = static_cast<double>(clock.now_ns() - began_ns) * 1e-9;
  double ttft = 0;
  for (const RequestRow& row : piece.requests) ttft += row.ttft_ms;
  const double steps = piece.counters.at("steps");
  std::printf("%zu requests, %zu machines: %.1f s simulated, %llu tokens, %.0f steps\n",
              piece.requests.size(), asked.machines, piece.seconds,
              static_cast<unsigned long long>(piece.generated_tokens), steps);
  std::printf("mean ttft %.1f ms, mean sequences of a step %.1f\n",
              ttft / static_cast<double>(piece.requests.size()),
              static_cast<double>(piece.generated_tokens) / steps);
  std::printf(
      "%.1f s of a processor (%.1f s of the wall): %.0f times real time, of one machine; "
      "%.2f us a step, %.0f ns a token; %.0f MiB at most (%.0f before)\n",
      cpu, wall, piece.seconds * static_cast<double>(asked.machines) / cpu, cpu / steps * 1e6,
      cpu / static_cast<double>(piece.generated_tokens) * 1e9, after.mebibytes, before.mebibytes);
  return {};
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::Asked asked;
  if (argc > 1) asked.requests = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) asked.machines = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3) asked.rate = std::strtod(argv[3], nullptr);
  if (argc > 4) asked.model = argv[4];
  if (argc > 5) asked.machine = argv[5];
  const tenon::Status status = tenon::measure(asked);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
