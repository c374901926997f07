// Replicas of a candidate as simulated pipelines, for the search of core/capacity.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/capacity/search.h"
#include "core/compare/replay/replay.h"
#include "core/grammar/grammar_cache.h"
#include "core/llm/open/open_pipeline.h"
#include "core/routing/router.h"
#include "core/workload/prompts.h"

namespace tenon {

// What all candidates have in common.
struct PlanWork {
  std::string base = {};                   // pipeline file; empty = the bundled one
  std::string model = {};                  // a model or a shape's name
  std::vector<std::string> settings = {};  // of users, after the candidate's own
  std::vector<std::string> plugin_path = {};
  std::vector<Prompt> prompts = {};  // in the order in which they arrive
  uint32_t context_tokens = 0;       // that the longest of them and its answer take
  uint32_t max_sequences = 256;
  double memory_share = 0.9;  // of a machine's memory
  Routing routing = Routing::least_load;
  uint64_t seed = 1;
  capacity::Goal goal = {};
};

class SimulatedReplicas final : public capacity::Replicas {
 public:
  // Borrows `work`. Plugins are looked up under `opening`. Errors: those of opening a pipeline, and
  // of capacity::fit_memory.
  static Result<std::unique_ptr<SimulatedReplicas>> open(const PlanWork& work,
                                                         const capacity::Candidate& candidate,
                                                         std::mutex& opening);

  capacity::MemoryFit memory() const override { return memory_; }
  Result<capacity::Probe> probe(uint32_t replicas, double rate, bool whole) override;
  // "llama-3.1-8b (8.03 billion parameters)", and what its matrices are stored as.
  const std::string& model_words() const { return model_words_; }
  const std::string& weights() const { return weights_; }

 private:
  SimulatedReplicas(const PlanWork& work, const capacity::Candidate& candidate, std::mutex& opening)
      : work_(work), candidate_(candidate), opening_(opening) {}
  Result<std::vector<Setting>> settings() const;
  // `own` stand in place of all others.
  Result<llm::OpenedPipeline> open_one(const std::vector<std::pair<std::string, SettingValue>>& own,
                                       bool loaded) const;
  Status measure_memory();
  Status make_requests();
  Status open_until(uint32_t replicas);
  sim::StepTime spent() const;  // by the latest probe

  const PlanWork& work_;
  const capacity::Candidate& candidate_;
  std::mutex& opening_;
  capacity::MemoryFit memory_;
  std::string model_words_, weights_;
  std::vector<llm::OpenedPipeline> opened_;  // of the latest probe
  // Requests that are drawn are made as they arrive, since there may be very many of them.
  bool all_drawn_ = false;
  std::vector<Request> requests_;  // else
  grammar::GrammarCache grammars_;
  std::vector<double> arrivals_;  // seconds at one request a second
};

}  // namespace tenon
