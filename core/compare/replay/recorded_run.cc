#include "core/compare/replay/recorded_run.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/base/json/json_fault.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/engine/engine.h"
#include "core/sim/executor.h"

namespace tenon::compare {
namespace {

// A line of the record, with its number for messages.
struct Line {
  size_t number = 0;
  Json json;

  bool is_arrival() const {
    const auto event = json.find("event");
    return event != json.end() && event->at(0).get<int>() == static_cast<int>(EventKind::arrived);
  }
  bool is_plan() const { return json.contains("grants"); }
};

Result<std::vector<Line>> read_lines(const std::string& path) {
  std::vector<Line> out;
  TENON_RETURN_IF_ERROR(each_line(path, [&out](size_t number, Json json) -> Result<bool> {
    out.push_back({number, std::move(json)});
    return true;
  }));
  if (out.empty()) return invalid_argument(path_in_quotes(path) + " is empty – record again");
  return out;
}

struct Answer {
  size_t request = 0;
  std::vector<TokenId> tokens;
};

Result<std::vector<Answer>> read_answers(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Line> lines, read_lines(path));
  std::vector<Answer> out;
  for (const Line& line : lines) {
    const Json& samples = line.json.at("samples");
    if (samples.size() != 1) {
      return unsupported(place_of_line(path, line.number) + ": a request has " +
                         std::to_string(samples.size()) +
                         " samples; runs of one sample a request can be followed");
    }
    out.push_back({line.json.at("request"), samples.at(0).get<std::vector<TokenId>>()});
  }
  return out;
}

class Follower {
 public:
  Follower(Pipeline& pipeline, const ReplayWork& work, std::vector<Line> lines,
           std::vector<Answer> answers)
      : pipeline_(pipeline),
        work_(work),
        lines_(std::move(lines)),
        answers_(std::move(answers)),
        comparer_(*pipeline.parts().scheduler, [this](const Json& line) { return compare(line); }),
        engine_(parts(), options()) {
    step_.token = [this](SeqId seq, uint32_t position) { return token_after(seq, position); };
  }

  Result<ReplayedViews> run() {
    TENON_RETURN_IF_ERROR(sim::follow_record(*pipeline_.executor, &step_));
    Status status;
    while (status.ok() && at_ < lines_.size() && !out_.differ) status = pass();
    (void)sim::follow_record(*pipeline_.executor, nullptr);
    if (out_.differ) return std::move(out_);
    if (!status.ok()) return status;
    return std::move(out_);
  }

 private:
  EngineParts parts() {
    EngineParts made = pipeline_.parts();
    made.scheduler = &comparer_;
    made.steady_plans = nullptr;  // it sees every step
    made.decodes_first = nullptr;
    return made;
  }
  EngineOptions options() const {
    EngineOptions made = pipeline_.engine_options();
    made.inbox_requests = static_cast<uint32_t>(work_.size()) + 1;
    return made;
  }

  // What is recorded from one plan to the next.
  Status pass() {
    size_t plan = at_;
    std::vector<SeqId> arrived;
    for (; plan < lines_.size() && !lines_[plan].is_plan(); ++plan) {
      if (lines_[plan].is_arrival()) arrived.push_back(lines_[plan].json.at("event").at(1));
    }
    if (plan == lines_.size()) {
      at_ = plan;  // requests that ended behind the last plan
      return {};
    }
    const Json& view = lines_[plan].json;
    for (const SeqId seq : arrived) TENON_RETURN_IF_ERROR(submit(seq, view));
    VirtualClock& clock = *pipeline_.virtual_clock;
    clock.advance(view.at("now_ns").get<int64_t>() - clock.now_ns());
    step_.step_ns = duration_behind(plan);
    const size_t before = at_;
    TENON_RETURN_IF_ERROR(engine_.step());
    if (!engine_.last_fault().empty()) return failed(engine_.last_fault());
    if (at_ > before || out_.differ) return {};
    out_.differ = true;
    out_.lines = {"line " + std::to_string(lines_[at_].number) +
                  ": recorded a plan, here nothing was planned"};
    return {};
  }

  // Which the next view tells.
  int64_t duration_behind(size_t plan) const {
    const Json& step = lines_[plan].json.at("step");
    for (size_t next = plan + 1; next < lines_.size(); ++next) {
      if (!lines_[next].is_plan()) continue;
      const Json& last = lines_[next].json.at("last_step");
      return last.at(0) == step ? last.at(4).get<int64_t>() : 1;
    }
    return 1;
  }

  Status submit(SeqId seq, const Json& view) {
    if (arrived_ >= answers_.size()) {
      return invalid_argument("the record has more arrivals than answers; record again");
    }
    const Answer& answer = answers_[arrived_++];
    if (answer.request >= work_.size()) {
      return invalid_argument("the record has request " + std::to_string(answer.request) +
                              ", the workload " + std::to_string(work_.size()) +
                              "; it is another workload's");
    }
    TENON_ASSIGN_OR_RETURN(Request request, work_.request(answer.request));
    request.cache_salt = 1;
    request.arrival_ns = 0;
    for (const char* list : {"waiting", "running"}) {
      for (const Json& each : view.at(list)) {
        if (each.at("seq") == seq) request.arrival_ns = each.at("arrival_ns");
      }
    }
    spoken_[seq] = {&answer, static_cast<uint32_t>(request.prompt.size())};
    return engine_.submit(std::move(request)).take_status();
  }

  // A token that ends a text is not always part of what was answered.
  TokenId token_after(SeqId seq, uint32_t position) const {
    const auto found = spoken_.find(seq);
    if (found == spoken_.end()) return kNoToken;
    const auto& [answer, prompt] = found->second;
    if (position + 1 < prompt) return 0;  // of a prompt's scores
    const size_t index = position + 1 - prompt;
    if (index < answer->tokens.size()) return answer->tokens[index];
    return pipeline_.ends.empty() ? 0 : pipeline_.ends.front().token;
  }

  // Of the scheduler's views and events, as they come.
  Status compare(const Json& line) {
    if (out_.differ) return {};
    if (at_ == lines_.size()) {
      out_.differ = true;
      out_.lines = {"behind the record's last line: " + line.dump()};
      return {};
    }
    const Line& recorded = lines_[at_++];
    if (recorded.json == line) {
      if (recorded.is_plan()) ++out_.plans;
      return {};
    }
    out_.differ = true;
    out_.lines = {"line " + std::to_string(recorded.number) + " of the record:"};
    for (const auto& [key, value] : recorded.json.items()) {
      const auto here = line.find(key);
      if (here != line.end() && *here == value) continue;
      out_.lines.push_back("  " + key + ": recorded " + value.dump() + ", here " +
                           (here == line.end() ? "nothing" : here->dump()));
    }
    return {};
  }

  struct Spoken {
    const Answer* answer = nullptr;
    uint32_t prompt_tokens = 0;
  };
  Pipeline& pipeline_;
  const ReplayWork& work_;
  std::vector<Line> lines_;
  std::vector<Answer> answers_;
  std::unordered_map<SeqId, Spoken> spoken_;
  sim::RecordedStep step_;
  ReplayedViews out_;
  size_t at_ = 0, arrived_ = 0;
  ViewRecorder comparer_;
  Engine engine_;
};

}  // namespace

std::string answers_file(const std::string& views_path) {
  const size_t dot = views_path.rfind('.');
  return views_path.substr(0, dot) + ".answers" +
         (dot == std::string::npos ? "" : views_path.substr(dot));
}

Result<ReplayedViews> follow_run(Pipeline& pipeline, const ReplayWork& work,
                                 const std::string& views_path) {
  if (pipeline.virtual_clock == nullptr) {
    return invalid_argument(
        "a record is followed on a clock that stands still: choose "
        "executor.plugin = \"sim\"");
  }
  if (pipeline.config.plan_ahead.value) {
    return unsupported(
        "steps that are planned ahead are recorded out of order; record with "
        "engine.plan_ahead = 0");
  }
  try {
    TENON_ASSIGN_OR_RETURN(std::vector<Line> lines, read_lines(views_path));
    TENON_ASSIGN_OR_RETURN(std::vector<Answer> answers, read_answers(answers_file(views_path)));
    Follower follower(pipeline, work, std::move(lines), std::move(answers));
    return follower.run();
  } catch (const nlohmann::json::exception& error) {
    return invalid_argument(views_path + ": " + json_fault(error.what()));
  }
}

}  // namespace tenon::compare
