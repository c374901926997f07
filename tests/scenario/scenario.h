// Runs a scenario: a text file that says what arrives, and what the scheduler must plan at each
// step. docs/formats/scenario.md describes the format.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fake_device/rig/rig.h"

namespace tenon {

// Passes everything on and keeps what was planned.
class PlanRecorder final : public Scheduler {
 public:
  explicit PlanRecorder(Scheduler& scheduler) : scheduler_(scheduler) {}
  Status on_event(const SequenceEvent& event) noexcept override {
    return scheduler_.on_event(event);
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override;

  std::vector<Grant> grants;
  uint32_t idle_rows = 0;
  std::vector<SequenceView> waiting, running;  // as the scheduler saw them
  // A step takes this long by `clock`.
  VirtualClock* clock = nullptr;
  int64_t step_ns = 0;
  int64_t row_ns = 0;
  std::map<SeqId, uint32_t> request_of;  // every sequence ever seen: fork group

 private:
  Scheduler& scheduler_;
};

// Proposes `offered` tokens, of which the first `right` are what the recording says next.
class ScenarioDrafter final : public Drafter {
 public:
  uint32_t offered = 0;
  uint32_t right = 0;
  TokenId right_token = 1;
  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status offer(std::span<const DraftRequest> requests, std::span<uint32_t> out) noexcept override;
  Status draft(std::span<const DraftRequest> requests, std::span<DraftOut> out) noexcept override;
  Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
    return {};
  }
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }
};

class Scenario {
 public:
  // The first thing that is not as the text says, as "name:line: …"; empty when all is.
  static std::string run(std::string_view text, const std::string& name);

 private:
  using Words = std::vector<std::string>;
  std::string line(const std::string& text);
  std::string setting(const Words& words);
  std::string begin();
  std::string request(const Words& words, std::string_view expected_refusal);
  std::string step(const std::string& plan);
  std::string steps(const Words& words);
  std::string expect(const Words& words);
  std::string end(const Words& words, std::string_view message);
  std::string name_of(SeqId seq) const;
  std::string names(const std::vector<Sequence*>& sequences) const;
  std::string planned() const;

  RigOptions options_;
  std::string drafter_line_;
  std::unique_ptr<LoadedPlugin<Scheduler>> plugin_;
  std::unique_ptr<PlanRecorder> recorder_;
  ScenarioDrafter drafter_;
  std::unique_ptr<Rig> rig_;
  std::map<std::string, RequestId> ids_;
  std::map<RequestId, std::string> names_;
  StepRecord last_;
  uint64_t blocks_ = 64;
  std::optional<uint32_t> second_model_every_;
  uint64_t swap_blocks_ = 0;
  int64_t step_ns_ = 0;
  int64_t row_ns_ = 0;
};

}  // namespace tenon
