#include "core/compare/replay/replay.h"

#include <algorithm>

#include "core/base/machine/run_queue.h"
#include "core/compare/replay/recorded_run.h"
#include "core/compare/replay/replay_run.h"
#include "core/compare/replay/views.h"
#include "core/request/parameters.h"
#include "core/workload/prompt_request.h"
#include "core/workload/published_trace.h"
#include "core/workload/request_list.h"
#include "core/workload/workload.h"

namespace tenon::compare {
namespace {

void add_new(const std::vector<std::string>& notes, std::vector<std::string>& all) {
  for (const std::string& note : notes) {
    if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(note);
  }
}

}  // namespace

Result<std::vector<Prompt>> read_replay_prompts(const std::string& path, uint32_t max_tokens,
                                                uint32_t vocabulary) {
  TENON_ASSIGN_OR_RETURN(std::vector<Prompt> prompts, read_work(path));
  for (Prompt& prompt : prompts) {
    if (!prompt.answer.max_tokens) prompt.answer.max_tokens = max_tokens;
    if (vocabulary == 0) continue;
    if (!prompt.drawn.empty()) prompt.tokens = drawn_prompt(prompt.drawn, vocabulary);
    const std::vector<NamedSetting> said = named_settings(prompt.answer);
    if (std::any_of(said.begin(), said.end(),
                    [](const NamedSetting& each) { return each.name == "temperature"; })) {
      continue;
    }
    static_cast<void>(set_number(prompt.answer, parameter("temperature"), WrittenNumber(0.0)));
  }
  return prompts;
}

namespace {

bool is_workload(const std::string& path) {
  return path.ends_with(".toml") || is_trace(path);
}

// Requests that are made one by one. What could be wrong with one is wrong with all of its table.
Result<ReplayWork> lazy_work(const Pipeline& pipeline, const std::string& path) {
  TENON_ASSIGN_OR_RETURN(RequestList read, read_request_list(path));
  const auto list = std::make_shared<const RequestList>(std::move(read));
  grammar::GrammarCache grammars;
  for (const size_t first : list->first_of_tables()) {
    const Result<Request> request = request_of(pipeline, prompt_of(list->at(first)), {}, grammars);
    if (!request.ok()) return with_context("request " + std::to_string(first), request.status());
  }
  ReplayWork work;
  work.arrivals_ns = list->arrivals_ns();
  work.make = [&pipeline, list](size_t index) -> Result<Request> {
    grammar::GrammarCache none;  // requests of workloads have none
    return request_of(pipeline, prompt_of(list->at(index)), {}, none);
  };
  return work;
}

}  // namespace

Status check_replay_work(const std::string& path, bool lazily) {
  if (lazily && is_workload(path)) return read_request_list(path).take_status();
  return read_replay_prompts(path, 1, 0).take_status();
}

Result<ReplayWork> read_replay_work(const Pipeline& pipeline, const std::string& path,
                                    uint32_t max_tokens, uint32_t vocabulary) {
  const bool lazily = pipeline.virtual_clock != nullptr && vocabulary == 0;
  if (lazily && is_workload(path)) return lazy_work(pipeline, path);
  TENON_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts,
                         read_replay_prompts(path, max_tokens, vocabulary));
  ReplayWork work;
  grammar::GrammarCache grammars;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Result<Request> request = request_of(pipeline, prompts[i], {}, grammars);
    if (!request.ok()) return with_context("request " + std::to_string(i), request.status());
    if (request->grammar != nullptr) add_new(request->grammar->notes(), work.notes);
    work.requests.push_back(*std::move(request));
    work.arrivals_ns.push_back(prompts[i].arrival_ns);
  }
  return work;
}

namespace {

Result<MeasuredPiece> measured_run(ReplayRun& run, const Pipeline& pipeline,
                                   const TurnOrder& turns) {
  const double waited = run_queue_seconds();
  TENON_RETURN_IF_ERROR(run.run(turns));
  const double lost = run_queue_seconds() - waited;
  TENON_ASSIGN_OR_RETURN(MeasuredPiece piece, run.piece());
  if (pipeline.virtual_clock != nullptr) return piece;
  // Threads other than the workers wait as well.
  const double seconds = piece.seconds + piece.waited_seconds;
  piece.processor_share = std::max(0.0, 1 - lost / (seconds * pipeline.executor->workers()));
  return piece;
}

}  // namespace

Result<MeasuredPiece> replay(Pipeline& pipeline, const ReplayWork& work,
                             const ReplayOptions& options) {
  std::unique_ptr<ViewRecorder> recorder;
  if (!options.record.empty()) {
    TENON_ASSIGN_OR_RETURN(recorder,
                           ViewRecorder::open(*pipeline.parts().scheduler, options.record));
  }
  ReplayRun run(pipeline, work, options, recorder.get());
  if (options.warm) TENON_RETURN_IF_ERROR(run.run({}));
  Result<MeasuredPiece> piece = measured_run(run, pipeline, options.turns);
  if (piece.ok() && recorder) {
    TENON_RETURN_IF_ERROR(run.write_answers(answers_file(options.record)));
  }
  return piece;
}

std::function<Result<MeasuredPiece>(const TurnOrder&)> keep_replaying(
    Pipeline& pipeline, const ReplayWork& work, const ReplayOptions& options) {
  return [&pipeline, run = std::make_shared<ReplayRun>(pipeline, work, options)](
             const TurnOrder& turns) { return measured_run(*run, pipeline, turns); };
}

}  // namespace tenon::compare
