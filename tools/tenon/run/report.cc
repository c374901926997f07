#include "tools/tenon/run/report.h"

#include <tenon/abi_generated.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "core/base/quote.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/config/schema.h"
#include "tools/tenon/process/json_text.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;
using Sample = ResultSink::Sample;

double ms(double ns) {
  return ns / 1e6;
}

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Json logprobs_json(const std::vector<ResultSink::Token>& tokens) {
  Json all = Json::array();
  for (const ResultSink::Token& token : tokens) {
    Json top = Json::array();
    for (const TokenLogprob& entry : token.top) top.push_back({entry.token, entry.logprob});
    all.push_back({{"logprob", token.logprob}, {"rank", token.rank}, {"top", std::move(top)}});
  }
  return all;
}

Json sample_json(size_t index, size_t number, const ResultSink& result) {
  const Sample& sample = result.samples()[number];
  const RequestRecord& record = sample.record;
  Json out;
  out["index"] = index;
  out["sample"] = number;
  out["prompt_tokens"] = record.prompt_tokens;
  out["tokens"] = sample.ids();
  out["text"] = sample.text;
  out["finish"] = sample.ended ? finish_reason_name(sample.reason) : "unfinished";
  if (!sample.message.empty()) out["message"] = sample.message;
  if (!sample.stop.empty()) out["stop"] = sample.stop;
  out["digest"] = hex(record.logits_digest);
  const bool asked = std::any_of(sample.tokens.begin(), sample.tokens.end(),
                                 [](const auto& token) { return token.rank > 0; });
  if (asked) out["logprobs"] = logprobs_json(sample.tokens);
  if (number == 0 && !result.prompt().empty()) {
    out["prompt_logprobs"] = logprobs_json(result.prompt());
  }
  out["ttft_ms"] = ms(static_cast<double>(record.time_to_first_token_ns()));
  out["tpot_ms"] = ms(record.time_per_output_token_ns());
  out["total_ms"] = ms(static_cast<double>(record.end_ns - record.arrival_ns));
  if (record.deadline_ns > 0) {
    out["deadline_ms"] = ms(static_cast<double>(record.deadline_ns - record.arrival_ns));
  }
  out["reused_tokens"] = record.reused_tokens;
  out["preemptions"] = record.preemptions;
  return out;
}

// How closely calls of a plugin were looked at: only strangers' plugins are isolated.
std::string_view guard_word(const Pipeline& pipeline, const PluginObject& plugin) {
  if (plugin.isolated()) return guard_level_name(GuardLevel::isolate);
  return guard_level_name(std::min(pipeline.config.guard.value, GuardLevel::checks));
}

Json pipeline_json(const Pipeline& pipeline) {
  Json plugins = Json::object();
  plugins["executor"] = pipeline.executor->name();
  for (const auto& [word, object] : pipeline.plugins()) {
    Json& entry = plugins[word];
    const std::string id(object->descriptor().id);
    entry = entry.is_string() ? entry.get<std::string>() + " " + id : id;
  }
  return {{"hash", pipeline.hash},
          {"numerics", pipeline.numerics},
          {"guard", guard_level_name(pipeline.config.guard.value)},
          {"plugins", plugins}};
}

Json totals_json(const EngineTotals& totals, const RunFigures& figures) {
  const double rate =
      figures.seconds > 0 ? static_cast<double>(totals.generated_tokens) / figures.seconds : 0;
  return {{"seconds", figures.seconds},
          {"tokens_per_second", rate},
          {"prompt_tokens", totals.prompt_tokens},
          {"generated_tokens", totals.generated_tokens},
          {"steps", totals.steps},
          {"rows_computed", totals.rows_computed},
          {"row_steps", totals.row_steps},
          {"idle_row_steps", totals.idle_row_steps},
          {"preemptions", totals.preemptions},
          {"reused_tokens", totals.reused_tokens},
          {"swapped_out_tokens", totals.swapped_out_tokens},
          {"swapped_in_tokens", totals.swapped_in_tokens},
          {"drafts", totals.drafts.drafts},
          {"drafted_tokens", totals.drafts.tokens},
          {"accepted_tokens", totals.drafts.accepted},
          {"cut_drafts", totals.drafts.cut},
          {"accepted_at", totals.drafts.accepted_at},
          {"kv_moves", totals.kv_moves}};
}

// Of all samples: the time to the first token, and every gap between one token and the next.
struct Latencies {
  std::vector<double> first_ms, gap_ms, mean_gap_ms;

  explicit Latencies(const RunOutput& output) {
    for (const auto& result : output.results()) {
      for (const Sample& sample : result->samples()) add(sample);
    }
  }

 private:
  void add(const Sample& sample) {
    const RequestRecord& record = sample.record;
    if (record.time_to_first_token_ns() >= 0) {
      first_ms.push_back(ms(static_cast<double>(record.time_to_first_token_ns())));
    }
    if (sample.tokens.size() > 1) mean_gap_ms.push_back(ms(record.time_per_output_token_ns()));
    for (size_t i = 1; i < record.token_ns.size(); ++i) {
      gap_ms.push_back(ms(static_cast<double>(record.token_ns[i] - record.token_ns[i - 1])));
    }
  }
};

Json quantiles_json(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {{"mean", values.empty() ? 0 : sum / static_cast<double>(values.size())},
          {"p50", quantile(values, 0.5)},
          {"p90", quantile(values, 0.9)},
          {"p99", quantile(values, 0.99)},
          {"max", quantile(values, 1.0)}};
}

// Of the tokens that steps count as used.
const KvGroupGeometry& ledger_geometry(const Pipeline& pipeline) {
  return pipeline.group_geometry[pipeline.shape->shape().ledger_group];
}

Json kv_json(const Pipeline& pipeline, const EngineTotals& totals, const RunFigures& figures) {
  const KvGroupGeometry& group = ledger_geometry(pipeline);
  return {{"dtype", dtype_name(group.dtype)},
          {"block_tokens", group.block_tokens},
          {"blocks", group.blocks},
          {"swap_blocks", group.swap_blocks},
          {"bytes", pipeline.kv_bytes()},
          {"mean_reserved_tokens", totals.mean_kv_reserved_tokens()},
          {"mean_used_tokens", totals.mean_kv_used_tokens()},
          {"peak_used_tokens", figures.peak_used_tokens},
          {"unused_fraction", totals.kv_unused_fraction()}};
}

Json tiers_json(const Tiers& tiers) {
  const TierTotals totals = tiers.totals();
  Json stores = Json::array();
  for (const TierTotals::Store& store : totals.stores) {
    stores.push_back({{"kind", store.kind},
                      {"held_bytes", store.totals.held_bytes},
                      {"read_bytes", store.read_bytes},
                      {"written_bytes", store.written_bytes},
                      {"evicted_bytes", store.totals.evicted_bytes},
                      {"damaged", store.totals.damaged},
                      {"faults", store.totals.faults}});
  }
  return {{"found_tokens", totals.found_tokens},
          {"late", totals.late},
          {"refused_blocks", totals.refused_blocks},
          {"stores", stores}};
}

int64_t time_of(const PartTimes& times, std::string_view word) {
  if (word == "scheduler") return times.scheduler_ns;
  if (word == "kv_cache") return times.kv_cache_ns;
  if (word == "sampler") return times.sampler_ns;
  if (word == "drafter") return times.drafter_ns;
  return -1;  // kernels run inside the executor
}

Json plugins_json(const Pipeline& pipeline, const PartTimes& times) {
  Json all = Json::array();
  all.push_back({{"interface", "executor"},
                 {"id", pipeline.executor->name()},
                 {"ms", ms(static_cast<double>(times.executor_ns))}});
  for (const auto& [word, object] : pipeline.plugins()) {
    Json entry = {{"interface", word}, {"id", object->descriptor().id}};
    entry["guard"] = guard_word(pipeline, *object);
    const ProcessLosses lost = object->losses();
    if (lost.times > 0) {
      entry["lost"] = {{"times", lost.times}, {"why", lost.why}, {"then", lost.then}};
    }
    if (!lost.refused.empty()) entry["refused"] = lost.refused;
    const int64_t ns = time_of(times, word);
    if (ns >= 0) entry["ms"] = ms(static_cast<double>(ns));
    entry["counters"] = Json::object();
    for (const auto& [name, value] : object->host().counters()) entry["counters"][name] = value;
    all.push_back(std::move(entry));
  }
  all.push_back({{"interface", "engine"}, {"ms", ms(static_cast<double>(times.engine_ns))}});
  return all;
}

}  // namespace

std::string run_json(const Pipeline& pipeline, const RunOutput& output, const RunFigures& figures) {
  const EngineTotals& totals = figures.totals;
  Json out;
  out["format"] = 1;
  out["tenon"] = TENON_SDK_VERSION;
  if (!figures.ended_by.empty()) out["partial"] = "ended by " + figures.ended_by;
  out["pipeline"] = pipeline_json(pipeline);
  out["model"] = {{"path", pipeline.model->path},
                  {"parameters", pipeline.parameters},
                  {"weight_bytes", pipeline.executor->weight_bytes()}};
  if (pipeline.second) {
    const SecondModel& second = *pipeline.second;
    out["second_model"] = {{"path", second.model->path},
                           {"parameters", second.model->parameter_count()},
                           {"weight_bytes", second.runs_layers() ? second.executor->weight_bytes()
                                                                 : second.model->weight_bytes()},
                           {"rows_computed", figures.second_rows}};
  }
  out["requests"] = Json::array();
  for (size_t index = 0; index < output.results().size(); ++index) {
    const ResultSink& result = *output.results()[index];
    for (size_t number = 0; number < result.samples().size(); ++number) {
      out["requests"].push_back(sample_json(index, number, result));
    }
  }
  out["totals"] = totals_json(totals, figures);
  const Latencies latencies(output);
  out["latency"] = {{"ttft_ms", quantiles_json(latencies.first_ms)},
                    {"tpot_ms", quantiles_json(latencies.mean_gap_ms)},
                    {"gap_ms", quantiles_json(latencies.gap_ms)}};
  out["kv"] = kv_json(pipeline, totals, figures);
  if (pipeline.tiers != nullptr) {
    pipeline.tiers->settle();  // what was put last counts as well
    out["kv_tiers"] = tiers_json(*pipeline.tiers);
  }
  out["plugins"] = plugins_json(pipeline, totals.times);
  return json_text(out);
}

std::vector<std::string> guard_summary(const Pipeline& pipeline) {
  if (pipeline.config.guard.value != GuardLevel::isolate) return {};
  std::vector<std::string> isolated, lines;
  for (const auto& [word, object] : pipeline.plugins()) {
    if (!object->isolated()) continue;
    const std::string name = word + " " + in_quotes(object->descriptor().id);
    isolated.push_back(name);
    const ProcessLosses lost = object->losses();
    if (!lost.refused.empty()) {
      lines.push_back(name + " asked the system for " + in_quotes(lost.refused) +
                      ", which was refused");
    }
    if (lost.times == 0) continue;
    const std::string often = lost.times > 1 ? " " + std::to_string(lost.times) + " times" : "";
    lines.push_back(name + " was lost" + often + ": " + lost.why +
                    (lost.then.empty() ? "" : "; " + lost.then));
  }
  lines.insert(lines.begin(), isolated.empty()
                                  ? "in processes of their own: none, as all plugins are the "
                                    "installation's own"
                                  : "in processes of their own: " + join(isolated));
  return lines;
}

std::string run_summary(const Pipeline& pipeline, const RunOutput& output,
                        const RunFigures& figures) {
  const Latencies latencies(output);
  const EngineTotals& totals = figures.totals;
  const KvGroupGeometry& group = ledger_geometry(pipeline);
  const double slots = static_cast<double>(group.blocks) * group.block_tokens;
  char text[256];
  std::snprintf(
      text, sizeof(text),
      "%llu tokens · TTFT %.1f ms · TPOT %.2f ms · %.0f tokens/s · KV use %.1f %% of %s",
      static_cast<unsigned long long>(totals.generated_tokens), median(latencies.first_ms),
      median(latencies.mean_gap_ms),
      figures.seconds > 0 ? static_cast<double>(totals.generated_tokens) / figures.seconds : 0.0,
      100.0 * static_cast<double>(figures.peak_used_tokens) / slots,
      approximate_bytes(pipeline.kv_bytes()).c_str());
  std::string line = text;
  if (totals.drafts.tokens > 0) {
    char drafts[80];
    std::snprintf(drafts, sizeof(drafts), " · %.0f %% of %llu drafted tokens kept",
                  100.0 * totals.drafts.acceptance(),
                  static_cast<unsigned long long>(totals.drafts.tokens));
    line += drafts;
  }
  if (pipeline.tiers != nullptr) {
    line +=
        " · " + std::to_string(pipeline.tiers->totals().found_tokens) + " tokens from tiers of K/V";
  }
  if (!figures.ended_by.empty()) line += " · partial: ended by " + figures.ended_by;
  return line;
}

}  // namespace tenon
