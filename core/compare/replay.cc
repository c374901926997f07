#include "core/compare/replay.h"

#include <algorithm>

#include "core/base/machine/run_queue.h"
#include "core/compare/recorded_run.h"
#include "core/compare/replay_run.h"
#include "core/compare/views.h"
#include "core/request/parameters.h"
#include "core/workload/prompt_request.h"

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

Result<ReplayWork> read_replay_work(const Pipeline& pipeline, const std::string& path,
                                    uint32_t max_tokens, uint32_t vocabulary) {
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
  piece.processor_share = std::max(0.0, 1 - lost / (piece.seconds * pipeline.executor->workers()));
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
