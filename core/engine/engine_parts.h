// What an engine is made of, and how it is told to work.
#pragma once

#include <tenon/drafter.h>
#include <tenon/extensions/decodes_first.h>
#include <tenon/extensions/kv_decodes.h>
#include <tenon/extensions/prompt_states.h>
#include <tenon/extensions/steady_plans.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>
#include <tenon/sampler.h>
#include <tenon/scheduler.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/contract/checked_scheduler.h"
#include "core/engine/records/metrics.h"
#include "core/engine/requests/grammars.h"
#include "core/engine/requests/request.h"
#include "core/engine/requests/sampler_check.h"
#include "core/exec/executor.h"

namespace tenon {

class DraftRunner;
class KvTransfer;
class StepObserver;
class Tiers;

// A decoder for one sample; may return null (no text).
using TextDecoderFactory = std::function<std::unique_ptr<TextDecoder>(const Request& request)>;

// Pointers are borrowed and outlive the engine; the KV manager is bound, the executor loaded.
struct EngineParts {
  Scheduler* scheduler = nullptr;
  KVCacheManager* kv_cache = nullptr;
  const KvEviction* eviction = nullptr;  // where the manager evicts within the context …
  const KvScores* scores = nullptr;      // … and not null: by what rows give to entries
  // What `scheduler` and `kv_cache` offer so that simulations need not ask them in each step; null:
  // they are asked.
  const SteadyPlans* steady_plans = nullptr;
  const DecodesFirst* decodes_first = nullptr;
  const KvDecodes* kv_decodes = nullptr;
  Sampler* sampler = nullptr;
  Drafter* drafter = nullptr;           // null = no speculation
  DraftRunner* draft_runner = nullptr;  // the second model, where there is one
  Tiers* tiers = nullptr;               // of K/V; null = none
  KvTransfer* transfer = nullptr;       // of K/V from and to other workers; null = none
  bool verify_by_rejection = false;     // else exactly
  bool draft_trees = false;             // drafts may form trees …
  bool trees_by_rejection = false;      // … and be verified by rejection
  Executor* executor = nullptr;
  const ModelShape* shape = nullptr;
  KvGeometry geometry;
  SchedulerLimits limits;
  // What the drafter was bound to see (HiddenLayersOut).
  std::vector<LayerId> hidden_layers;
  bool hidden_drawn_only = false;
  const PromptStates* prompt_states = nullptr;  // null: it sees those of every prompt
  std::vector<std::string> adapters;            // names of the executor's, in its order
  std::vector<std::string> sampler_params;      // keys of third parties that the sampler takes
  // What else requests may ask of it (the facts sampler.stages and sampler.logprobs).
  std::vector<std::string> sampler_stages = every_sampling_word();
  uint32_t sampler_logprobs = UINT32_MAX;
  // The sampler lets an executor draw in its place (kRowDraws), and this is its own order of
  // stages.
  std::optional<std::vector<SamplingStage>> draw_order = {};
  const Clock* clock = nullptr;
  TextDecoderFactory text;               // empty = tokens only
  GrammarVocabulary grammar_vocabulary;  // empty = no grammars
  std::vector<TokenId> eos_tokens;       // end of text
  // Not kNoToken: the model generates by diffusion. Its answers begin as this token.
  TokenId mask_token = kNoToken;
  std::function<void()> plan_refused;  // tells the scheduler of a plan that was; may be empty
  // Plugin ids, for messages.
  std::string scheduler_name = "?";
  std::string kv_cache_name = "?";
  std::string sampler_name = "?";
  std::string drafter_name = "?";
};

struct EngineOptions {
  bool logits_digest = false;      // hash the logits that tokens are drawn from
  bool check_calls = false;        // plugins are looked at closely (CallChecks::more)
  bool check_kv = false;           // KVCacheManager::check behind every step
  uint32_t inbox_requests = 4096;  // submitted and not yet admitted
  uint32_t max_draft_tokens = 32;  // asked of a drafter at most, a sequence and step
  bool plan_ahead = false;         // plan a step while the device computes the one before it
  uint32_t plan_retries = 3;       // plans that fail in a row before requests do
  uint32_t stall_steps = 1000;     // empty plans in a row, with work at hand, before requests fail
  // How long a scheduler may plan nothing on purpose while sequences wait.
  int64_t longest_wait_ns = CheckedScheduler::kLongestWaitNs;
  // Steps that compute something, and still nobody gets further than before, until requests fail;
  // beside those that computing all live sequences again could take.
  uint32_t futile_steps = 1000;
  std::function<void(const StepRecord&)> on_step = {};  // [step]
  StepObserver* observer = nullptr;                     // borrowed; null = nobody looks
};

}  // namespace tenon
