#include "core/compare/arms/pipeline_arm.h"

#include <cstdio>

#include "core/base/machine/cpu_cores.h"
#include "core/base/text.h"
#include "core/hub/cache.h"
#include "core/model/stored_formats.h"

namespace tenon::compare {
namespace {

JudgedText text_of(const Json& order) {
  return {order.at("text").get<std::string>(), order.at("tokens").get<uint32_t>(),
          order.at("window").get<uint32_t>()};
}

std::string format_words(const Pipeline& pipeline) {
  std::vector<std::string> names;
  for (const auto& [name, count] : stored_formats(*pipeline.model)) names.push_back(name);
  const ResolvedFact* kept = pipeline.facts.find("kv.dtype");
  return "weights " + join(names) + (kept == nullptr ? "" : "; K/V " + std::string(kept->word));
}

}  // namespace

std::string model_words(const Pipeline& pipeline) {
  const double millions = static_cast<double>(pipeline.parameters) * 1e-6;
  char size[40];
  std::snprintf(size, sizeof(size), millions < 1000 ? "%.3g million" : "%.3g billion",
                millions < 1000 ? millions : millions * 1e-3);
  return hub::short_name(pipeline.config.model_path.value) + " (" + size + " parameters)";
}

Result<Json> PipelineArm::answer(const Json& order) {
  const std::string what = order.value("do", "");
  if (what == "describe") return describe();
  if (what == "load") return load(order);
  if (what == "run") return run(order);
  if (what == "predict") return predict(order);
  if (what == "judge") return judge(order);
  return invalid_argument("an order that is none: " + order.dump());
}

Result<Json> PipelineArm::describe() const {
  MeasuredArm arm;
  arm.numerics = pipeline_.numerics;
  arm.hash = pipeline_.hash;
  arm.resolved = resolved_toml(pipeline_.config, pipeline_.components, false);
  arm.model = model_words(pipeline_);
  arm.formats = format_words(pipeline_);
  arm.plugins["executor"] = pipeline_.executor->name();
  // Where threads of its own are more than there are cores, they wait for each other.
  arm.leaves_waits_out = pipeline_.virtual_clock == nullptr && pipeline_.ranks == nullptr &&
                         pipeline_.executor->workers() <= usable_cores().size();
  for (const auto& [word, object] : pipeline_.plugins()) {
    arm.plugins[word] = object->descriptor().id;
  }
  return arm_json(arm);
}

Result<Json> PipelineArm::load(const Json& order) {
  kept_ = nullptr;
  TENON_ASSIGN_OR_RETURN(work_, read_replay_work(pipeline_, order.at("workload").get<std::string>(),
                                                 order.at("max_tokens").get<uint32_t>(),
                                                 order.at("vocabulary").get<uint32_t>()));
  work_.in_flight = order.at("in_flight").get<uint32_t>();
  requests_ = work_.size();
  for (const std::string& note : work_.notes) note_(note);
  TENON_RETURN_IF_ERROR(take_arrivals(order));
  return Json{{"requests", requests_}, {"arrivals_ns", work_.arrivals_ns}};
}

Status PipelineArm::take_arrivals(const Json& order) {
  if (order.contains("arrivals_ns")) {
    work_.arrivals_ns = order.at("arrivals_ns").get<std::vector<int64_t>>();
  }
  if (work_.arrivals_ns.size() == requests_) return {};
  return invalid_argument("there are " + std::to_string(work_.arrivals_ns.size()) +
                          " arrivals of " + std::to_string(requests_) + " requests");
}

Result<Json> PipelineArm::run(const Json& order) {
  TENON_RETURN_IF_ERROR(take_arrivals(order));
  const ReplayOptions options{.digests = order.at("digests").get<bool>(),
                              .salt = order.at("salt").get<uint64_t>(),
                              .warm = order.at("warm").get<bool>(),
                              .count_waits = order.value("count_waits", true),
                              .record = order.value("record", ""),
                              .turns = {wait_ ? order.value("turn_steps", 0u) : 0, wait_}};
  std::vector<RequestRow>* const rows = order.value("row_lines", false) ? &rows_ : nullptr;
  if (machines_.size() > 1 || !cluster_.failures.empty()) {
    if (order.at("keep").get<bool>()) {
      return unsupported(
          "a simulated cluster begins each piece with empty caches; take cache = "
          "\"cold\" or \"warm\"");
    }
    TENON_ASSIGN_OR_RETURN(MeasuredPiece piece,
                           replay_cluster(machines_, cluster_, work_, options));
    return run_answer(std::move(piece), rows);
  }
  // One engine for all pieces, whose cache goes on from one to the next.
  const bool keep = order.at("keep").get<bool>();
  if (keep && !kept_) kept_ = keep_replaying(pipeline_, work_, options);
  TENON_ASSIGN_OR_RETURN(MeasuredPiece piece,
                         keep ? kept_(options.turns) : replay(pipeline_, work_, options));
  return run_answer(std::move(piece), rows);
}

Result<Json> PipelineArm::predict(const Json& order) {
  TENON_ASSIGN_OR_RETURN(
      const std::string ids,
      write_predictions(pipeline_, text_of(order), order.at("out").get<std::string>()));
  return Json{{"ids", ids}};
}

Result<Json> PipelineArm::judge(const Json& order) {
  TENON_ASSIGN_OR_RETURN(const Fidelity found, judge_text(pipeline_, text_of(order),
                                                          order.at("against").get<std::string>(),
                                                          order.at("ids").get<std::string>()));
  return fidelity_json(found);
}

}  // namespace tenon::compare
