#include "tools/tenon/plan/replicas.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/compare/arms/pipeline_arm.h"
#include "core/compare/cluster/cluster.h"
#include "core/config/toml_reader.h"
#include "core/model/stored_formats.h"
#include "core/pipeline/memory_text.h"
#include "core/report/pages/format.h"
#include "core/report/statistics/goodput.h"
#include "core/sim/executor.h"
#include "core/workload/draw.h"
#include "core/workload/prompt_request.h"

namespace tenon {
namespace {

using capacity::Probe;

constexpr size_t kAloneRequests = 16;
// Fewer say little of a share of nine in ten.
constexpr size_t kFewestRequests = 200;

// The value that a share of them do not exceed; of none 0.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = static_cast<size_t>(std::ceil(share * last));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// The format of most matrices.
std::string weights_of(const Pipeline& pipeline) {
  const auto formats = stored_formats(*pipeline.model);
  return std::ranges::max_element(formats, {}, [](const auto& each) { return each.second; })->first;
}

Probe probe_of(const MeasuredPiece& piece, const capacity::Goal& goal, uint32_t replicas) {
  Probe out{.replicas = replicas};
  const MeasuredPlan bounds = goal.bounds();
  std::vector<double> ttft, gaps;
  double tpot = 0;
  for (const RequestRow& row : piece.requests) {
    ttft.push_back(row.ttft_ms < 0 ? row.latency_ms : row.ttft_ms);
    gaps.push_back(row.longest_gap_ms);
    tpot += row.tpot_ms;
  }
  out.requests = static_cast<uint32_t>(piece.requests.size());
  out.kept_share = share_within_bounds(piece, bounds);
  out.saturated = is_saturated(piece);
  out.ttft_ms = quantile(std::move(ttft), goal.share);
  out.gap_ms = quantile(std::move(gaps), goal.share);
  out.tpot_ms = tpot / std::max<double>(1, out.requests);
  out.tokens_per_second = static_cast<double>(piece.generated_tokens) / piece.seconds;
  out.busy = (piece.prefill[0] + piece.decode[0]) / (piece.seconds * replicas);
  const auto counter = [&](const char* name) {
    const auto found = piece.counters.find(name);
    return found == piece.counters.end() ? 0 : found->second;
  };
  out.kv_share = counter("kv_peak_bytes") / std::max(1.0, counter("kv_pool_bytes"));
  out.preemptions = static_cast<uint64_t>(counter("preemptions"));
  return out;
}

}  // namespace

Result<std::unique_ptr<SimulatedReplicas>> SimulatedReplicas::open(
    const PlanWork& work, const capacity::Candidate& candidate, std::mutex& opening) {
  std::unique_ptr<SimulatedReplicas> made(new SimulatedReplicas(work, candidate, opening));
  TENON_RETURN_IF_ERROR(made->measure_memory());
  TENON_RETURN_IF_ERROR(made->open_until(1));
  TENON_RETURN_IF_ERROR(made->make_requests());
  return made;
}

// With the option that each is from, for messages. Those of users stand in place of the
// candidate's.
Result<std::vector<Setting>> SimulatedReplicas::settings() const {
  std::vector<Setting> out;
  const auto add = [&out](const char* option, const char* key, SettingValue value) {
    out.push_back({key, std::move(value), {option, 0, 0}});
  };
  const int64_t rows = std::max(candidate_.batch_tokens, work_.max_sequences);
  add("executor", "executor.plugin", "sim");
  add("--machine", "executor.machine", candidate_.machine.file);
  add("--model", "model.path", work_.model);
  add("--scheduler", "scheduler.plugin", candidate_.scheduler);
  add("--kv-cache", "kv_cache.plugin", candidate_.kv_cache);
  add("--kv-dtype", "kv_cache.dtype", candidate_.dtype);
  add("--max-sequences", "limits.max_sequences", int64_t{work_.max_sequences});
  add("--batch-tokens", "limits.max_batch_tokens", rows);
  add("the traffic", "limits.context_tokens", int64_t{work_.context_tokens});
  if (!candidate_.weights.empty()) add("--weights", "executor.weights", candidate_.weights);
  if (candidate_.ranks > 1) add("--tensor", "parallel.tensor", int64_t{candidate_.ranks});
  for (const std::string& text : work_.settings) {
    TENON_ASSIGN_OR_RETURN(Setting setting, read_override(text));
    std::erase_if(out, [&](const Setting& earlier) { return earlier.key == setting.key; });
    out.push_back(std::move(setting));
  }
  return out;
}

Result<llm::OpenedPipeline> SimulatedReplicas::open_one(
    const std::vector<std::pair<std::string, SettingValue>>& own, bool loaded) const {
  TENON_ASSIGN_OR_RETURN(std::vector<Setting> all, settings());
  for (const auto& [key, value] : own) {
    std::erase_if(all, [&key = key](const Setting& earlier) { return earlier.key == key; });
    all.push_back({key, value, {"the plan", 0, 0}});
  }
  const std::scoped_lock lock(opening_);
  TENON_ASSIGN_OR_RETURN(PipelineConfig config,
                         llm::read_config({.file = work_.base, .settings = std::move(all)}));
  return llm::open_pipeline(
      std::move(config), work_.plugin_path,
      {.weights = loaded, .memory_bytes = loaded ? 0 : llm::kBoundlessMemory, .moves_clock = true});
}

Status SimulatedReplicas::measure_memory() {
  const std::pair<std::string, SettingValue> one = {"limits.max_sequences", int64_t{1}};
  // Heads of a part are cut, so that the model's size is that of the whole.
  TENON_ASSIGN_OR_RETURN(const llm::OpenedPipeline all,
                         open_one({one, {"parallel.tensor", int64_t{1}}}, false));
  TENON_ASSIGN_OR_RETURN(const llm::OpenedPipeline own, open_one({one}, false));
  model_words_ = compare::model_words(*all.pipeline);
  weights_ = weights_of(*all.pipeline);
  capacity::Candidate named = candidate_;
  named.weights = weights_;
  TENON_ASSIGN_OR_RETURN(
      memory_, capacity::fit_memory(named, work_.memory_share,
                                    all.pipeline->weight_bytes() / candidate_.ranks,
                                    sequence_bytes(own.pipeline->kv_needs, work_.context_tokens),
                                    work_.context_tokens));
  return {};
}

Status SimulatedReplicas::open_until(uint32_t replicas) {
  const std::string memory = std::to_string(memory_.kv_bytes) + "B";
  while (opened_.size() < replicas) {
    TENON_ASSIGN_OR_RETURN(llm::OpenedPipeline opened,
                           open_one({{"kv_cache.memory", memory}}, true));
    opened_.push_back(std::move(opened));
  }
  return {};
}

Status SimulatedReplicas::make_requests() {
  const Pipeline& pipeline = *opened_.front().pipeline;
  all_drawn_ = std::ranges::all_of(
      work_.prompts, [](const Prompt& prompt) { return !prompt.drawn.empty() && !prompt.grammar; });
  WorkloadDraw draw(work_.seed);
  double at = 0;
  for (size_t i = 0; i < work_.prompts.size(); ++i) {
    Result<Request> request = request_of(pipeline, work_.prompts[i], {}, grammars_);
    if (!request.ok()) return with_context("request " + std::to_string(i), request.status());
    if (!all_drawn_) requests_.push_back(*std::move(request));
    arrivals_.push_back(at);
    at += static_cast<double>(draw.gap_ns(1)) * 1e-9;
  }
  return {};
}

sim::StepTime SimulatedReplicas::spent() const {
  sim::StepTime all;
  for (const llm::OpenedPipeline& opened : opened_) {
    all += sim::spent(*opened.pipeline->executor).value_or(sim::StepTime());
  }
  return all;
}

Result<Probe> SimulatedReplicas::probe(uint32_t replicas, double rate, bool whole) {
  // Schedulers learn from the steps that they see: new ones, so that no probe depends on another.
  opened_.clear();
  TENON_RETURN_IF_ERROR(open_until(replicas));
  // Of one replica as many as arrive in the same time, or somewhat more.
  const size_t all = arrivals_.size();
  const auto share = static_cast<size_t>(static_cast<double>(all) * rate / work_.goal.rate);
  const size_t count =
      rate == 0 ? kAloneRequests : std::clamp(share, std::min(all, kFewestRequests), all);
  compare::ReplayWork piece;
  for (size_t i = 0; i < std::min(count, all); ++i) {
    if (all_drawn_) {
      piece.samples += work_.prompts[i].answer.samples.value_or(1);
    } else {
      piece.requests.push_back(requests_[i]);
    }
    piece.arrivals_ns.push_back(rate == 0 ? 0 : std::llround(arrivals_[i] / rate * 1e9));
  }
  if (all_drawn_) {
    piece.make = [this](size_t index) {
      return request_of(*opened_.front().pipeline, work_.prompts[index], {}, grammars_);
    };
  }
  if (rate == 0) piece.in_flight = 1;
  std::vector<Pipeline*> pipelines;
  for (const llm::OpenedPipeline& opened : opened_) pipelines.push_back(opened.pipeline.get());
  compare::EarlyEnd early{.bounds = work_.goal.bounds()};
  TENON_ASSIGN_OR_RETURN(const MeasuredPiece measured,
                         compare::replay_cluster(pipelines, {.routing = work_.routing}, piece,
                                                 {.salt = 1}, whole ? nullptr : &early));
  Probe out = probe_of(measured, work_.goal, replicas);
  out.rate = rate;
  out.cut_short = early.ended;
  if (early.ended) out.kept_share = early.most_kept();
  out.spent = spent();
  return out;
}

}  // namespace tenon
