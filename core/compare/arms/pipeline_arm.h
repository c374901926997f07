// An arm that is a pipeline of this process, which stays loaded between its turns.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/compare/arms/orders.h"
#include "core/compare/cluster/cluster.h"
#include "core/compare/judge.h"
#include "core/compare/replay/replay.h"
#include "core/pipeline/pipeline.h"
#include "core/routing/router.h"

namespace tenon::compare {

// "llama-3.1-8b (8.03 billion parameters)", those of all machines that compute together.
std::string model_words(const Pipeline& pipeline);

class PipelineArm final : public OrderedArm {
 public:
  // Borrows the pipeline. `note` is told what of the workload is ignored; `wait` gives a turn away
  // and returns with the next one; without it, replays
  // are not cut.
  PipelineArm(Pipeline& pipeline, std::function<void(const std::string&)> note,
              std::function<Status()> wait = {})
      : PipelineArm({&pipeline}, ClusterPlan(), std::move(note), std::move(wait)) {}
  // Several pipelines are machines of a simulated cluster, and equal.
  PipelineArm(std::vector<Pipeline*> machines, ClusterPlan cluster,
              std::function<void(const std::string&)> note, std::function<Status()> wait = {})
      : machines_(std::move(machines)),
        cluster_(std::move(cluster)),
        pipeline_(*machines_.front()),
        note_(std::move(note)),
        wait_(std::move(wait)) {}

  Result<Json> answer(const Json& order) override;
  std::vector<RequestRow> take_rows() override { return std::exchange(rows_, {}); }

 private:
  Result<Json> describe() const;
  Result<Json> load(const Json& order);
  Status take_arrivals(const Json& order);
  Result<Json> run(const Json& order);
  Result<Json> predict(const Json& order);
  Result<Json> judge(const Json& order);

  std::vector<Pipeline*> machines_;
  ClusterPlan cluster_;
  Pipeline& pipeline_;  // the first machine
  std::function<void(const std::string&)> note_;
  std::function<Status()> wait_;
  ReplayWork work_;
  size_t requests_ = 0;           // of it
  std::vector<RequestRow> rows_;  // that are still to be taken
  std::function<Result<MeasuredPiece>(const TurnOrder&)> kept_;
};

}  // namespace tenon::compare
