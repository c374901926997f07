// `tenon compare-arm`, which `tenon compare` starts for each arm: a pipeline that stays loaded, and
// replays work when a line on standard input asks for it. A line of JSON answers each.
//
//   {"do": "describe"}                                   {"numerics": …, "resolved": …, …}
//   {"do": "load", "workload": PATH, "max_tokens": n,
//    "in_flight": n, "vocabulary": n, "arrivals_ns": […]} {"requests": n}
//   {"do": "run", "digests": true, "salt": n, "warm": b,
//    "keep": b, "arrivals_ns": […]}                      a piece, with its "requests"
//   {"do": "predict", "text": PATH, "tokens": n,
//    "window": n, "out": PATH}                           {"ids": …}: the base's predictions
//   {"do": "judge", …, "ids": …, "against": PATH}        a Fidelity
//
// What fails is answered by {"error": …}. The process ends with its standard input.
#include <signal.h>
#include <sys/prctl.h>

#include <functional>
#include <iostream>
#include <memory>

#include "tools/tenon/compare/command.h"
#include "tools/tenon/compare/json.h"
#include "tools/tenon/compare/judge.h"
#include "tools/tenon/compare/replay.h"
#include "tools/tenon/compare/server_arm.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"

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
    if (what == "predict") return predict(order);
    if (what == "judge") return judge(order);
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
    kept_ = nullptr;
    TENON_ASSIGN_OR_RETURN(work_,
                           read_replay_work(pipeline_, order.at("workload").get<std::string>(),
                                            order.at("max_tokens").get<uint32_t>(),
                                            order.at("vocabulary").get<uint32_t>()));
    work_.in_flight = order.at("in_flight").get<uint32_t>();
    TENON_RETURN_IF_ERROR(take_arrivals(order));
    return Json{{"requests", work_.requests.size()}, {"arrivals_ns", work_.arrivals_ns}};
  }

  Status take_arrivals(const Json& order) {
    if (order.contains("arrivals_ns")) {
      work_.arrivals_ns = order.at("arrivals_ns").get<std::vector<int64_t>>();
    }
    if (work_.arrivals_ns.size() == work_.requests.size()) return {};
    return invalid_argument("there are " + std::to_string(work_.arrivals_ns.size()) +
                            " arrivals of " + std::to_string(work_.requests.size()) + " requests");
  }

  Result<Json> run(const Json& order) {
    TENON_RETURN_IF_ERROR(take_arrivals(order));
    const ReplayOptions options{.digests = order.at("digests").get<bool>(),
                                .salt = order.at("salt").get<uint64_t>(),
                                .warm = order.at("warm").get<bool>(),
                                .record = order.value("record", "")};
    // One engine for all pieces, whose cache goes on from one to the next.
    const bool keep = order.at("keep").get<bool>();
    if (keep && !kept_) kept_ = keep_replaying(pipeline_, work_, options);
    TENON_ASSIGN_OR_RETURN(const MeasuredPiece piece,
                           keep ? kept_() : replay(pipeline_, work_, options));
    Json out = piece_json(piece);
    out["requests"] = Json::array();
    for (const RequestRow& row : piece.requests) out["requests"].push_back(row_json(row));
    return out;
  }

  static JudgedText text_of(const Json& order) {
    return {order.at("text").get<std::string>(), order.at("tokens").get<uint32_t>(),
            order.at("window").get<uint32_t>()};
  }

  Result<Json> predict(const Json& order) {
    TENON_ASSIGN_OR_RETURN(
        const std::string ids,
        write_predictions(pipeline_, text_of(order), order.at("out").get<std::string>()));
    return Json{{"ids", ids}};
  }

  Result<Json> judge(const Json& order) {
    TENON_ASSIGN_OR_RETURN(const Fidelity found, judge_text(pipeline_, text_of(order),
                                                            order.at("against").get<std::string>(),
                                                            order.at("ids").get<std::string>()));
    return fidelity_json(found);
  }

  Pipeline& pipeline_;
  ReplayWork work_;
  std::function<Result<MeasuredPiece>()> kept_;
};

void send(const Json& json) {
  put(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  flush_output();
}
void send_error(const Status& status) {
  send({{"error", message_of(status)}});
}

template <typename Arm>
int answer_orders(Arm& arm) {
  send({{"ready", true}});
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

struct ArmFlags {
  PipelineFlags pipeline;
  std::string url, served, authorities;
};

int serve(const ArmFlags& flags) {
  // It must not outlive who asks it, however that ended.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!flags.url.empty()) {
    Result<CompareServerArm> arm =
        CompareServerArm::open(flags.url, flags.served, flags.authorities);
    if (arm.ok()) return answer_orders(*arm);
    send_error(arm.status());
    return 1;
  }
  const Result<OpenedPipeline> opened = open_pipeline(flags.pipeline);
  if (!opened.ok()) {
    send_error(opened.status());
    return 1;
  }
  CompareArm arm(*opened->pipeline);
  return answer_orders(arm);
}

}  // namespace

void add_compare_arm_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ArmFlags>();
  CLI::App* command =
      app.add_subcommand("compare-arm", "An arm of `tenon compare`; it starts them");
  command->group("");  // not shown by --help
  flags->pipeline.add_to(*command);
  add_text(*command, "--url", flags->url, "a running server in place of a pipeline");
  add_text(*command, "--served", flags->served, "its model");
  add_text(*command, "--authorities", flags->authorities, "whose certificates are believed");
  command->callback([flags, &action] { action = [flags] { return serve(*flags); }; });
}

}  // namespace tenon
