// The engine: takes requests, runs steps, delivers tokens. It owns the order of things; strategies
// come as plugins, bytes and arithmetic belong to the executor.
//
//   submit → inbox → step(): admit · offer · plan · move · draft · assemble · launch · collect ·
//                            sample · resolve · deliver · record
//
// Faults stay where they belong: a plan that fails runs nothing, a row that fails ends its request,
// a forward pass that fails ends the requests of that step; the engine goes on.
//
// Threads: `submit`, `cancel`, `idle` and `wait_for_work` may be called from any thread; everything
// else from one, the step thread.
#pragma once

#include <tenon/drafter.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>
#include <tenon/sampler.h>
#include <tenon/scheduler.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/result.h"
#include "core/engine/batch_builder.h"
#include "core/engine/draft_runner.h"
#include "core/engine/inbox.h"
#include "core/engine/ledger.h"
#include "core/engine/metrics.h"
#include "core/engine/request.h"
#include "core/engine/sequence_table.h"
#include "core/exec/executor.h"

namespace tenon {

// A decoder for one sample; may return null (no text).
using TextDecoderFactory = std::function<std::unique_ptr<TextDecoder>(const Request& request)>;

// What an engine is made of. Pointers are borrowed and outlive the engine; the KV manager is bound,
// the executor loaded.
struct EngineParts {
  Scheduler* scheduler = nullptr;
  KVCacheManager* kv_cache = nullptr;
  Sampler* sampler = nullptr;
  Drafter* drafter = nullptr;           // null = no speculation
  DraftRunner* draft_runner = nullptr;  // the second model, where there is one
  bool verify_by_rejection = false;     // else exactly
  Executor* executor = nullptr;
  const ModelShape* shape = nullptr;
  KvGeometry geometry;
  SchedulerLimits limits;
  const Clock* clock = nullptr;
  TextDecoderFactory text;          // empty = tokens only
  std::vector<TokenId> eos_tokens;  // end of text
  // Plugin ids, for messages.
  std::string scheduler_name = "?";
  std::string kv_cache_name = "?";
  std::string sampler_name = "?";
  std::string drafter_name = "?";
};

struct EngineOptions {
  bool logits_digest = false;      // hash the logits that tokens are drawn from
  bool check_kv = false;           // KVCacheManager::check behind every step
  uint32_t inbox_requests = 4096;  // submitted and not yet admitted
  uint32_t max_draft_tokens = 32;  // asked of a drafter at most, a sequence and step
  uint32_t plan_retries = 3;       // plans that fail in a row before requests do
  uint32_t stall_steps = 1000;     // empty plans in a row, with work at hand, before requests fail
  std::function<void(const StepRecord&)> on_step = {};  // [step]
};

class Engine {
 public:
  explicit Engine(EngineParts parts, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks a request and puts it into the inbox. Errors: the request can never run here
  // (invalid_argument), or the inbox is full (failed). Its sink hears nothing then. [any thread]
  Result<RequestId> submit(Request request);
  // Ends a request at the next step with `cancelled`; unknown and ended ones are ignored.
  void cancel(RequestId id);  // [any thread]
  // Nothing submitted, waiting or running. [any thread]
  bool idle() const;
  // Waits until something is there to do, at most `timeout`. [any thread]
  bool wait_for_work(std::chrono::nanoseconds timeout) const;

  // One pass over all phases. Faults of plugins end requests, not the engine: an error here means
  // that the engine's own invariants are broken (with check_kv) and it must not be used further.
  Status step();
  // Steps until idle, at most `max_steps` (0 = any number). Error: not idle by then.
  Status run_until_idle(uint64_t max_steps = 0);

  const EngineTotals& totals() const { return totals_; }
  // The latest fault of a plugin; empty when there was none.
  const std::string& last_fault() const { return last_fault_; }
  const EngineParts& parts() const { return parts_; }
  // Most tokens, prompt and generated, that one sample can have here.
  uint32_t sequence_limit_tokens() const { return sequence_limit_; }

 private:
  // The phases of a step, in their order.
  void begin_step();
  void admit();
  void offer();
  void plan();
  void move();
  void draft();
  void assemble();
  void forward();
  void sample();
  void resolve();
  void deliver();
  Status record();

  // Parts of phases; each file has a phase or two.
  void admit_request(SubmittedRequest submitted);
  Status introduce(Sequence& sequence, const Sequence* parent);
  Status begin_kv(Sequence& sequence, const Sequence* parent, uint32_t parent_tokens = 0);
  void announce(Sequence& sequence);

  Status run_plan(SeqId& named);
  Status check_plan(SeqId& named);
  void begin_drafts();
  void take_drafts(Sequence& sequence, const DraftOut& out, uint32_t most);
  void plan_failed(const Status& status, SeqId named);
  void watch_for_stall();

  Status apply_moves(std::span<KvMove> moves);
  Status launch_and_collect();
  void step_failed(std::vector<Sequence*> sequences, const std::string& message);

  Status share_rows(size_t rows, const std::function<Status(size_t, size_t)>& body);
  Status sample_rows(std::span<const SampleRow> rows, std::span<SampleResult> results);
  void score_prompts();
  void deliver_scores();
  void fork_samples();
  void build_sample_rows();
  void add_sample_rows(Sequence& sequence, TokenLogprob*& top);
  void run_sample();
  void run_verify();
  void take_results(Sequence& sequence, uint32_t count);

  uint32_t tops_of(const Sequence& sequence) const;
  void begin_beams(RequestState& state);
  void take_beam_result(Sequence& sequence);
  void advance_beams();
  void advance_group(RequestState& state);
  void gather_candidates(const RequestState& state, bool last);
  void keep_answer(RequestState& state, const BeamSearch::Ended& ended);
  static void drop_answers(BeamGroup& group);
  void continue_beams(RequestState& state);
  Sequence* fork_beam(const Sequence& origin, const Sequence& parent, uint32_t tokens);
  void rejoin_beams();
  void rejoin_group(RequestState& state);
  void extend_beam(Sequence& beam, const BeamCandidate& candidate);
  void finish_beams(RequestState& state);
  void deliver_answer(RequestState& state, uint32_t sample, BeamAnswer& answer);
  void end_beams(RequestState& state, uint32_t first, FinishReason reason,
                 std::string_view message);

  Status resolve_sequence(Sequence& sequence);
  void begin_child_kv(Sequence& child, const Sequence& parent, uint32_t tokens);

  void deliver_sequence(Sequence& sequence);
  std::optional<FinishReason> take_token(Sequence& sequence, TokenId token,
                                         const std::string*& stop);
  void send(Sequence& sequence, std::span<const GeneratedToken> tokens);
  void flush_text(Sequence& sequence);
  void tell_drafter(Sequence& sequence, uint32_t drafted, uint32_t accepted);
  void tell_drafter_cost();
  void progressed(Sequence& sequence);

  void retire(Sequence& sequence, EventKind how);
  void end_sequence(Sequence& sequence, FinishReason reason, std::string_view message,
                    std::string_view stop = {});
  void end_request(RequestState& request, FinishReason reason, std::string_view message);
  void fail_request(RequestState& request, const std::string& message);
  void fail_sequences(std::span<Sequence* const> sequences, const std::string& message);
  void fault(const std::string& message);

  EngineParts parts_;
  EngineOptions options_;
  uint32_t sequence_limit_ = 0;
  Inbox inbox_;
  SequenceTable table_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  Ledger ledger_;
  BatchBuilder batch_;

  // The step at hand.
  uint64_t step_id_ = 0;
  StepRecord record_;
  bool progress_ = false;           // something ended, was admitted or computed
  std::vector<Sequence*> in_step_;  // in batch order
  struct Fork {
    Sequence* child;
    Sequence* parent;
  };
  std::vector<Fork> forks_;
  BatchView batch_view_;
  StepOutput output_;
  std::vector<RequestId> ended_requests_;
  // Scratch of the phases, kept to keep its memory.
  std::vector<SubmittedRequest> submitted_;
  std::vector<RequestId> cancelled_;
  std::vector<SequenceView> waiting_views_, running_views_;
  std::vector<Grant> grants_;
  PlanOut plan_out_;
  std::vector<DraftRequest> draft_requests_;
  std::vector<uint32_t> offered_;
  std::vector<DraftOut> draft_outs_;
  std::vector<Sequence*> drafting_;
  std::vector<float> draft_probs_;  // [draft slots, vocabulary] where verification needs them
  std::vector<KvMove> moves_;
  std::vector<SampleRow> rows_;
  std::vector<SampleResult> results_;
  std::vector<TokenLogprob> top_;
  std::vector<SampleRow> score_rows_;
  std::vector<SampleResult> score_results_;
  std::vector<Sequence*> scored_;  // whose each of them is
  std::vector<Status> part_status_;
  std::vector<VerifyRows> verify_rows_;
  std::vector<VerifyResult> verify_results_;
  std::vector<Sequence*> verifying_, sampling_;
  std::vector<BeamCandidate> beam_candidates_;
  std::vector<RequestState*> advancing_;
  std::vector<uint32_t> kept_;
  std::vector<GeneratedToken> generated_;

  StepCost last_step_;  // for the scheduler: the latest that computed something
  uint32_t failed_plans_ = 0;
  uint32_t empty_plans_ = 0;
  EngineTotals totals_;
  std::string last_fault_;
};

}  // namespace tenon
