#include "core/compare/json.h"

#include <algorithm>
#include <cmath>

#include "core/base/json/json_fault.h"

namespace tenon::compare {
namespace {

// nlohmann throws where a member is missing or of another kind; here that is a file somebody
// changed, or one that was cut.
template <typename T, typename Read>
Result<T> reading(const char* what, const Read& read) {
  try {
    T out;
    read(out);
    return out;
  } catch (const nlohmann::json::exception& error) {
    return invalid_argument(std::string(what) + ": " + json_fault(error.what()));
  }
}

template <typename T>
void get(const Json& json, const char* key, T& out) {
  json.at(key).get_to(out);
}

Json timeline_json(const std::vector<TimelinePoint>& timeline) {
  Json out = Json::array();
  for (const TimelinePoint& point : timeline) {
    out.push_back({point.ms, point.running, point.waiting, point.rows, point.kv_tokens});
  }
  return out;
}

std::vector<TimelinePoint> timeline_of(const Json& json) {
  std::vector<TimelinePoint> out;
  for (const Json& point : json) {
    out.push_back({point.at(0), point.at(1), point.at(2), point.at(3), point.at(4)});
  }
  return out;
}

Json state_json(const MachineState& state) {
  return {{"read_gbps", state.read_gbps},
          {"fma_gflops", state.fma_gflops},
          {"bf16_gflops", state.bf16_gflops},
          {"int8_gops", state.int8_gops},
          {"processor_share", state.processor_share}};
}
void read_state(const Json& json, MachineState& out) {
  get(json, "read_gbps", out.read_gbps);
  get(json, "fma_gflops", out.fma_gflops);
  out.bf16_gflops = json.value("bf16_gflops", 0.0);
  out.int8_gops = json.value("int8_gops", 0.0);
  get(json, "processor_share", out.processor_share);
}

Json quantiles_json(const Quantiles& q) {
  return {{"mean", q.mean}, {"p50", q.p50},  {"p90", q.p90},
          {"p99", q.p99},   {"max", q.most}, {"count", q.count}};
}
void read_quantiles(const Json& json, Quantiles& out) {
  get(json, "mean", out.mean);
  get(json, "p50", out.p50);
  get(json, "p90", out.p90);
  get(json, "p99", out.p99);
  get(json, "max", out.most);
  get(json, "count", out.count);
}

Json parts_json(const PartSeconds& parts) {
  Json out = Json::object();
  for (size_t i = 0; i < parts.size(); ++i) out[std::string(kPartNames[i])] = parts[i];
  return out;
}
void read_parts(const Json& json, PartSeconds& out) {
  for (size_t i = 0; i < out.size(); ++i) get(json, std::string(kPartNames[i]).c_str(), out[i]);
}

PieceKind kind_of(const std::string& name) {
  for (const PieceKind kind : {PieceKind::warm_up, PieceKind::noise, PieceKind::probe}) {
    if (name == piece_kind_name(kind)) return kind;
  }
  return PieceKind::measured;
}

// JSON has no infinity: an unbounded side is null.
Json bound(double log_ratio) {
  return std::isfinite(log_ratio) ? Json(std::exp(log_ratio)) : Json();
}
Json ratio_json(const Interval& log_ratio) {
  return {{"ratio", std::exp(log_ratio.estimate)},
          {"low", bound(log_ratio.low)},
          {"high", bound(log_ratio.high)},
          {"confidence", log_ratio.confidence}};
}

Json result_json(const MetricResult& result) {
  Json out = {{"metric", result.metric->name}, {"unit", result.metric->unit}};
  if (!result.absent.empty()) {
    out["absent"] = result.absent;
    return out;
  }
  out.update({{"base", result.base},
              {"arm", result.arm},
              {"pairs", result.log_ratios.size()},
              {"units", result.units},
              {"verdict", verdict_name(result.verdict)}});
  out.update(ratio_json(result.log_ratio));
  return out;
}

Json arm_result_json(const ArmResult& arm, double confidence) {
  Json metrics = Json::array();
  for (const MetricResult& result : arm.metrics) metrics.push_back(result_json(result));
  Json out = {{"name", arm.arm->name},
              {"pairs", arm.pairs},
              {"dropped_pairs", arm.dropped},
              {"different_answers", arm.different_answers},
              {"answers", arm.answers},
              {"metrics", std::move(metrics)},
              {"why", arm.why},
              {"machine_use", arm.machine_use},
              {"notes", arm.notes}};
  if (arm.arm->fidelity.tokens > 0) {
    const Interval kl = mean_interval(arm.arm->fidelity.window_kl_nats, confidence);
    Json fidelity = fidelity_json(arm.arm->fidelity);
    fidelity["kl_nats"] = {{"mean", kl.estimate}, {"low", kl.low}, {"high", kl.high}};
    fidelity["perplexity_ratio"] =
        ratio_json(mean_interval(arm.arm->fidelity.window_nats_more, confidence));
    out["fidelity"] = std::move(fidelity);
  }
  return out;
}

}  // namespace

Json row_json(const RequestRow& row) {
  Json out = {{"index", row.index},
              {"sample", row.sample},
              {"prompt_tokens", row.prompt_tokens},
              {"tokens", row.tokens},
              {"reused_tokens", row.reused_tokens},
              {"preemptions", row.preemptions},
              {"arrival_ms", row.arrival_ms},
              {"ttft_ms", row.ttft_ms},
              {"tpot_ms", row.tpot_ms},
              {"longest_gap_ms", row.longest_gap_ms},
              {"latency_ms", row.latency_ms},
              {"finish", row.finish},
              {"answer", row.answer.text()}};
  if (!row.text.empty()) out["text"] = row.text.text();
  if (!row.digest.empty()) out["digest"] = row.digest.text();
  return out;
}

Result<RequestRow> row_of(const Json& json) {
  return reading<RequestRow>("a request's row", [&](RequestRow& out) {
    get(json, "index", out.index);
    get(json, "sample", out.sample);
    get(json, "prompt_tokens", out.prompt_tokens);
    get(json, "tokens", out.tokens);
    get(json, "reused_tokens", out.reused_tokens);
    get(json, "preemptions", out.preemptions);
    get(json, "arrival_ms", out.arrival_ms);
    get(json, "ttft_ms", out.ttft_ms);
    get(json, "tpot_ms", out.tpot_ms);
    get(json, "longest_gap_ms", out.longest_gap_ms);
    get(json, "latency_ms", out.latency_ms);
    get(json, "finish", out.finish);
    out.answer = json.at("answer").get<std::string>();
    out.text = json.value("text", "");
    out.digest = json.value("digest", "");
  });
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json piece_json(const MeasuredPiece& piece) {
  Json turns = Json::array();
  for (const PieceTurn& turn : piece.turns) turns.push_back({turn.seconds, turn.cpu_seconds});
  Json out = {{"kind", piece_kind_name(piece.kind)},
              {"arm", piece.arm},
              {"block", piece.block},
              {"again", piece.again},
              {"process", piece.process},
              {"rate", piece.rate},
              {"seconds", piece.seconds},
              {"waited_seconds", piece.waited_seconds},
              {"generated_tokens", piece.generated_tokens},
              {"turns", std::move(turns)},
              {"processor_share", piece.processor_share},
              {"machine_before", state_json(piece.before)},
              {"machine_after", state_json(piece.after)},
              {"gap_ms", quantiles_json(piece.gap_ms)},
              {"prefill_seconds", parts_json(piece.prefill)},
              {"decode_seconds", parts_json(piece.decode)},
              {"counters", piece.counters},
              {"timeline", timeline_json(piece.timeline)}};
  for (const auto& machine : piece.machines) out["machines"].push_back(timeline_json(machine));
  return out;
}

Result<MeasuredPiece> piece_of(const Json& json) {
  return reading<MeasuredPiece>("a piece", [&](MeasuredPiece& out) {
    out.kind = kind_of(json.at("kind").get<std::string>());
    get(json, "arm", out.arm);
    get(json, "block", out.block);
    get(json, "again", out.again);
    out.process = json.value("process", 0u);
    out.rate = json.value("rate", 0.0);
    get(json, "seconds", out.seconds);
    out.waited_seconds = json.value("waited_seconds", 0.0);
    get(json, "generated_tokens", out.generated_tokens);
    get(json, "processor_share", out.processor_share);
    read_state(json.at("machine_before"), out.before);
    read_state(json.at("machine_after"), out.after);
    read_quantiles(json.at("gap_ms"), out.gap_ms);
    read_parts(json.at("prefill_seconds"), out.prefill);
    read_parts(json.at("decode_seconds"), out.decode);
    get(json, "counters", out.counters);
    for (const Json& turn : json.value("turns", Json::array())) {
      out.turns.push_back({turn.at(0), turn.at(1)});
    }
    out.timeline = timeline_of(json.at("timeline"));
    for (const Json& machine : json.value("machines", Json::array())) {
      out.machines.push_back(timeline_of(machine));
    }
  });
}

Json fidelity_json(const Fidelity& fidelity) {
  if (!fidelity.fault.empty()) return {{"fault", fidelity.fault}};
  return {{"text", fidelity.text},
          {"tokens", fidelity.tokens},
          {"same_top", fidelity.same_top},
          {"base_perplexity", fidelity.base_perplexity},
          {"perplexity", fidelity.perplexity},
          {"kl_p99_nats", fidelity.kl_p99_nats},
          {"window_kl_nats", fidelity.window_kl_nats},
          {"window_nats_more", fidelity.window_nats_more}};
}

Result<Fidelity> fidelity_of(const Json& json) {
  return reading<Fidelity>("what an arm predicts", [&](Fidelity& out) {
    out.fault = json.value("fault", "");
    if (!out.fault.empty()) return;
    get(json, "text", out.text);
    get(json, "tokens", out.tokens);
    get(json, "same_top", out.same_top);
    get(json, "base_perplexity", out.base_perplexity);
    get(json, "perplexity", out.perplexity);
    get(json, "kl_p99_nats", out.kl_p99_nats);
    get(json, "window_kl_nats", out.window_kl_nats);
    get(json, "window_nats_more", out.window_nats_more);
  });
}

Json arm_json(const MeasuredArm& arm) {
  Json out = {{"name", arm.name}, {"differences", arm.differences}, {"numerics", arm.numerics},
              {"hash", arm.hash}, {"plugins", arm.plugins},         {"resolved", arm.resolved}};
  if (arm.is_server) out["is_server"] = true;
  if (arm.leaves_waits_out) out["leaves_waits_out"] = true;
  if (!arm.model.empty()) out["model"] = arm.model;
  if (!arm.formats.empty()) out["formats"] = arm.formats;
  if (arm.fidelity.tokens > 0 || !arm.fidelity.fault.empty()) {
    out["fidelity"] = fidelity_json(arm.fidelity);
  }
  return out;
}

Result<MeasuredArm> arm_of(const Json& json) {
  return reading<MeasuredArm>("an arm", [&](MeasuredArm& out) {
    get(json, "name", out.name);
    get(json, "differences", out.differences);
    get(json, "numerics", out.numerics);
    get(json, "hash", out.hash);
    get(json, "plugins", out.plugins);
    get(json, "resolved", out.resolved);
    out.is_server = json.value("is_server", false);
    out.leaves_waits_out = json.value("leaves_waits_out", false);
    out.model = json.value("model", "");
    out.formats = json.value("formats", "");
    if (const auto found = json.find("fidelity"); found != json.end()) {
      Result<Fidelity> fidelity = fidelity_of(*found);
      if (fidelity.ok()) out.fidelity = *std::move(fidelity);
    }
  });
}

Json plan_json(const MeasuredPlan& plan) {
  Json bands = Json::array();
  for (const MeasuredPlan::Band& band : plan.expect) {
    bands.push_back({{"metric", band.metric}, {"low", band.low}, {"high", band.high}});
  }
  return {{"title", plan.title},
          {"claim", plan.claim},
          {"loses", plan.loses},
          {"primary", plan.primary},
          {"work", plan.work},
          {"cache", plan.cache},
          {"open_loop", plan.open_loop},
          {"same_answers", plan.same_answers},
          {"margin", plan.margin},
          {"confidence", plan.confidence},
          {"unlike", plan.unlike},
          {"slo_ttft_ms", plan.slo_ttft_ms},
          {"slo_gap_ms", plan.slo_gap_ms},
          {"slo_share", plan.slo_share},
          {"probes", plan.probes},
          {"workload_sha256", plan.workload_hash},
          {"machine", plan.machine},
          {"others", plan.others},
          {"command", plan.command},
          {"version", plan.version},
          {"date", plan.date},
          {"ended", plan.ended},
          {"seed", plan.seed},
          {"restart", plan.restart_affordable ? Json("affordable") : Json(plan.restart)},
          {"pairs_seconds", plan.pairs_seconds},
          {"start_seconds", plan.start_seconds},
          {"looks", plan.looks},
          {"at_end", plan.at_end},
          {"expect", std::move(bands)}};
}

Result<MeasuredPlan> plan_of(const Json& json) {
  return reading<MeasuredPlan>("the plan", [&](MeasuredPlan& out) {
    get(json, "title", out.title);
    get(json, "claim", out.claim);
    get(json, "loses", out.loses);
    get(json, "primary", out.primary);
    get(json, "work", out.work);
    get(json, "cache", out.cache);
    get(json, "open_loop", out.open_loop);
    get(json, "same_answers", out.same_answers);
    get(json, "margin", out.margin);
    get(json, "confidence", out.confidence);
    get(json, "unlike", out.unlike);
    get(json, "slo_ttft_ms", out.slo_ttft_ms);
    get(json, "slo_gap_ms", out.slo_gap_ms);
    out.slo_share = json.value("slo_share", out.slo_share);
    out.probes = json.value("probes", 0u);
    get(json, "workload_sha256", out.workload_hash);
    get(json, "machine", out.machine);
    out.others = json.value("others", "");
    get(json, "command", out.command);
    get(json, "version", out.version);
    out.date = json.value("date", "");
    get(json, "ended", out.ended);
    get(json, "seed", out.seed);
    const Json restart = json.value("restart", Json(0u));
    out.restart_affordable = restart == "affordable";
    if (!out.restart_affordable) restart.get_to(out.restart);
    out.pairs_seconds = json.value("pairs_seconds", 0.0);
    out.start_seconds = json.value("start_seconds", 0.0);
    out.looks = json.value("looks", out.looks);
    out.at_end = json.value("at_end", out.at_end);
    for (const Json& band : json.at("expect")) {
      out.expect.push_back({band.at("metric"), band.at("low"), band.at("high")});
    }
  });
}

Json analysis_json(const MeasuredComparison& measured, const Analysis& analysis) {
  Json arms = Json::array();
  for (const ArmResult& arm : analysis.arms)
    arms.push_back(arm_result_json(arm, measured.plan.confidence));
  Json out = {{"format", 1}, {"plan", plan_json(measured.plan)}};
  out["base"] = measured.arms.empty() ? "" : measured.arms.front().name;
  out["noise"] = {{"pairs", analysis.noise.pairs},
                  {"dropped_pairs", analysis.noise.dropped},
                  {"a_against_a", ratio_json(analysis.noise.log_ratio)},
                  {"deviation", analysis.noise.deviation},
                  {"floor", analysis.noise.floor},
                  {"detectable", analysis.noise.detectable}};
  out["arms"] = std::move(arms);
  out["notes"] = analysis.notes;
  return out;
}

}  // namespace tenon::compare
