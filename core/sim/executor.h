// The executor "sim": computes nothing. A step takes the time that a machine would take, on a
// virtual clock that stands still otherwise; the engine, schedulers, KV managers and drafters are
// the real ones and see no other time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "core/base/clock.h"
#include "core/exec/executor.h"
#include "core/sim/machine.h"
#include "core/sim/step_cost.h"

namespace tenon::sim {

// How long what an executor does takes.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  // `before`: rows of further sequences, one each, that are computed before the batch's. Some only
  // where `knows_decodes`.
  virtual int64_t step_ns(const BatchView& batch, std::span<const DecodeRow> before) = 0;
  // Of a step of one row a sequence. Only where `knows_decodes`.
  virtual int64_t decode_ns(std::span<const DecodeRow> rows) {
    static_cast<void>(rows);
    return 0;
  }
  virtual bool knows_decodes() const { return false; }
  // Why what it says of the latest step is nothing to go by: a machine that makes no sense.
  virtual Status fault() const { return {}; }
  virtual int64_t moves_ns(std::span<const KvMove> moves) = 0;
  virtual uint64_t expert_bytes() const { return 0; }  // of the latest step
  virtual StepTime spent() const { return {}; }        // of all steps
  // K and V of prompts come from elsewhere: their rows take no time.
  virtual void import_prompts(bool on) { static_cast<void>(on); }
  // Seconds until so many bytes are at another machine; null: there is no network.
  virtual std::optional<double> transfer_seconds(double) const { return std::nullopt; }
};
using TimesFactory = std::function<Result<std::unique_ptr<StepTimes>>(const ExecutorSetup&)>;

// As the machine has it, or each of `ranks` of them that compute together. Error of the factory: a
// format that the machine has no rate for.
TimesFactory times_of(Machine machine, uint32_t ranks = 1);

struct SimOptions {
  VirtualClock* clock = nullptr;  // borrowed; moved behind every step
  TimesFactory times = {};
  // Tokens come from here (made_tokens.h); false: from the sampler, which sees logits of 0.
  bool makes_tokens = true;
  std::optional<double> acceptance = {};  // of drafts; null: those that are what is drawn
};

std::unique_ptr<Executor> make_sim_executor(SimOptions options);

// What all steps so far were spent on; null: another executor, or one that is not loaded.
std::optional<StepTime> spent(const Executor& executor);

// From here on rows of prompts that come for the first time take no time but for the last one:
// their K and V came over the network. Error: invalid_argument (another executor).
Status import_prompts(Executor& executor, bool on);
// Seconds until so many bytes are at another machine. Null: another executor, or no network.
std::optional<double> transfer_seconds(const Executor& executor, double bytes);

// In place of times and tokens of its own: those of a run that was recorded. Moves take no time
// then, since they are part of a step's.
struct RecordedStep {
  int64_t step_ns = 0;  // of the next step
  // What followed the token at `position` of the sequence.
  std::function<TokenId(SeqId seq, uint32_t position)> token = {};
};
// From here on; null: no longer. Borrowed. Error: invalid_argument (another executor).
Status follow_record(Executor& executor, const RecordedStep* record);

}  // namespace tenon::sim
