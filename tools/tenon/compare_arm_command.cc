// `tenon compare-arm`, which `tenon compare` starts for each arm: a pipeline that stays loaded, and
// replays work when a line on standard input asks for it. A line of JSON answers each.
//
//   {"do": "describe"}                                   {"numerics": …, "resolved": …, …}
//   {"do": "load", "workload": PATH, "max_tokens": n,
//    "in_flight": n, "arrivals_ns": […]}                 {"requests": n}
//   {"do": "run", "digests": true, "salt": n, "warm": b} a piece, with its "requests"
//
// What fails is answered by {"error": …}. The process ends with its standard input.
#include <signal.h>
#include <sys/prctl.h>

#include <iostream>
#include <memory>

#include "tools/tenon/compare_command.h"
#include "tools/tenon/compare_json.h"
#include "tools/tenon/compare_replay.h"
#include "tools/tenon/pipeline_flags.h"
#include "tools/tenon/standard_output.h"

namespace tenon {
namespace {

using Json = CompareJson;

class CompareArm {
 public:
  explicit CompareArm(Pipeline& pipeline) : pipeline_(pipeline) {}

  Result<Json> answer(const Json& order) {
    const std::string what = order.value("do", "");
    if (what == "describe") return describe();
    if (what == "load") return load(order);
    if (what == "run") return run(order);
    return invalid_argument("an order that is none: " + order.dump());
  }

 private:
  Result<Json> describe() const {
    MeasuredArm arm;
    arm.numerics = pipeline_.numerics;
    arm.hash = pipeline_.hash;
    arm.resolved = resolved_toml(pipeline_.config, pipeline_.components, false);
    arm.plugins["executor"] = pipeline_.executor->name();
    for (const auto& [word, object] : pipeline_.plugins()) {
      arm.plugins[word] = object->descriptor().id;
    }
    return arm_json(arm);
  }

  Result<Json> load(const Json& order) {
    TENON_ASSIGN_OR_RETURN(work_,
                           read_replay_work(pipeline_, order.at("workload").get<std::string>(),
                                            order.at("max_tokens").get<uint32_t>()));
    work_.in_flight = order.at("in_flight").get<uint32_t>();
    if (order.contains("arrivals_ns")) {
      work_.arrivals_ns = order.at("arrivals_ns").get<std::vector<int64_t>>();
    }
    if (work_.arrivals_ns.size() != work_.requests.size()) {
      return invalid_argument("there are " + std::to_string(work_.arrivals_ns.size()) +
                              " arrivals of " + std::to_string(work_.requests.size()) +
                              " requests");
    }
    return Json{{"requests", work_.requests.size()}, {"arrivals_ns", work_.arrivals_ns}};
  }

  Result<Json> run(const Json& order) {
    const ReplayOptions options{.digests = order.at("digests").get<bool>(),
                                .salt = order.at("salt").get<uint64_t>(),
                                .warm = order.at("warm").get<bool>()};
    TENON_ASSIGN_OR_RETURN(const MeasuredPiece piece, replay(pipeline_, work_, options));
    Json out = piece_json(piece);
    out["requests"] = Json::array();
    for (const RequestRow& row : piece.requests) out["requests"].push_back(row_json(row));
    return out;
  }

  Pipeline& pipeline_;
  ReplayWork work_;
};

void send(const Json& json) {
  put(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  flush_output();
}
void send_error(const Status& status) {
  send({{"error", message_of(status)}});
}

int serve(const PipelineFlags& flags) {
  // It must not outlive who asks it, however that ended.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Result<OpenedPipeline> opened = open_pipeline(flags);
  if (!opened.ok()) {
    send_error(opened.status());
    return 1;
  }
  send({{"ready", true}});
  CompareArm arm(*opened->pipeline);
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const Result<Json> answer = arm.answer(Json::parse(line));
      if (answer.ok()) {
        send(*answer);
      } else {
        send_error(answer.status());
      }
    } catch (const nlohmann::json::exception& error) {
      send_error(invalid_argument(error.what()));
    }
  }
  return 0;
}

}  // namespace

void add_compare_arm_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PipelineFlags>();
  CLI::App* command =
      app.add_subcommand("compare-arm", "An arm of `tenon compare`; it starts them");
  command->group("");  // not shown by --help
  flags->add_to(*command);
  command->callback([flags, &action] { action = [flags] { return serve(*flags); }; });
}

}  // namespace tenon
