// A scheduler whose decisions are Python's. Limits, rows, memory and preemption are kept by the
// SDK's PlanBuilder, so that a plan cannot break the contract.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/options.h>
#include <tenon/sdk/scheduler/plan_builder.h>

#include "plugins/bridge/options.h"

namespace tenon::bridge {
namespace {

struct Options : sdk::SchedulingOptions {
  std::string_view file, name, arguments, key, libpython;
};
constexpr auto kOptions =
    sdk::join_options<Options, sdk::kPolicyOptions, sdk::kLimitOptions, sdk::kPreemptionOptions>(
        kPythonOptions<Options>);
TENON_CHECK_OPTIONS(kOptions.specs);

// What a Step of bridge.py asks, by number.
enum class Ask : int64_t { budget, free_tokens, cached, cost, limit, advance, grant, make_room };

struct PyMethod {  // PyMethodDef
  const char* name;
  PyCall call;
  int flags;
  const char* doc;
};
constexpr int kTakesTuple = 1;  // METH_VARARGS
constexpr const char* kPlanName = "tenon.plan";

class PythonScheduler {
 public:
  PythonScheduler(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options), plugin_("scheduler", source_of(options)), plan_(host, options_) {
    const Locked locked(plugin_.api());
    const Object self(plugin_.api(), plugin_.api().new_capsule(this, kPlanName, nullptr));
    ask_ = plugin_.api().new_function(&ask_method, self.get(), nullptr);
    if (ask_ == nullptr) throw std::runtime_error("Python is out of memory");
  }
  ~PythonScheduler() {
    if (plugin_.api().is_initialized() == 0) return;
    const Locked locked(plugin_.api());
    plugin_.api().decrement(ask_);
  }
  PythonScheduler(const PythonScheduler&) = delete;
  PythonScheduler& operator=(const PythonScheduler&) = delete;

  void on_event(const SequenceEvent& event) {
    if (!plugin_.listens()) return;
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    for (const uint64_t value :
         {static_cast<uint64_t>(event.kind), uint64_t{event.seq}, event.step_id,
          uint64_t{event.tenant}, uint64_t{event.prompt_tokens}, uint64_t{event.known_tokens},
          uint64_t{event.computed_tokens}, uint64_t{event.accepted_drafts}}) {
      given.push_back(plugin_.whole(value));
    }
    plugin_.call("on_event", std::move(given));
  }

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    plan_.begin(view, ledger, out);
    plan_.serve_waiting_span();
    view_ = &view;
    admitted_.assign(view.waiting.size(), false);
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    given.push_back(head_of(view));
    given.push_back(sequences(view.waiting));
    given.push_back(sequences(view.running));
    plugin_.api().increment(ask_);
    given.emplace_back(plugin_.api(), ask_);
    plugin_.call("plan", std::move(given));
    view_ = nullptr;
  }

 private:
  static PyObject* ask(PyObject* self, PyObject* arguments) {
    const PythonApi& api = python({});
    auto* scheduler = static_cast<PythonScheduler*>(api.in_capsule(self, kPlanName));
    int64_t given[3] = {};
    for (PySize i = 0; i < 3; ++i) given[i] = api.to_int(api.in_tuple(arguments, i));
    if (api.error() != nullptr) return nullptr;
    if (scheduler->view_ == nullptr) {
      api.set_error(*api.runtime_error, "the step is over – a Step is good for one plan alone");
      return nullptr;
    }
    return api.from_int(scheduler->answer(static_cast<Ask>(given[0]), given[1], given[2]));
  }
  inline static PyMethod ask_method = {"ask", &PythonScheduler::ask, kTakesTuple, nullptr};

  int64_t answer(Ask what, int64_t first, int64_t second) {
    const auto tokens = static_cast<uint32_t>(std::clamp<int64_t>(second, 0, UINT32_MAX));
    switch (what) {
      case Ask::budget:
        return plan_.budget();
      case Ask::free_tokens:
        return static_cast<int64_t>(plan_.ledger().free_tokens());
      case Ask::cached:
        return is_known(first) ? plan_.ledger().cached(static_cast<SeqId>(first)).ready : 0;
      case Ask::cost:
        return is_known(first)
                   ? static_cast<int64_t>(plan_.ledger().cost(static_cast<SeqId>(first), tokens))
                   : 0;
      case Ask::limit:
        if (first > 0) plan_.limit_budget(static_cast<uint32_t>(std::min<int64_t>(first, 1 << 30)));
        return 0;
      case Ask::advance:
        return advance(static_cast<uint32_t>(std::clamp<int64_t>(first, 0, 1 << 30)), second != 0);
      case Ask::grant:
        return grant(first, tokens) ? 1 : 0;
      case Ask::make_room: {
        const SequenceView* sequence = waiting_at(first);
        return sequence != nullptr && plan_.empty() && plan_.make_room(*sequence, tokens) ? 1 : 0;
      }
    }
    return 0;
  }

  int64_t advance(uint32_t piece, bool prompts_wait) {
    plan_.advance_decodes(prompts_wait);
    plan_.continue_prompts([&](uint32_t tokens) { return some_of(tokens, piece); }, true);
    return 0;
  }

  // Up to `piece` of them (0 = all) that there is room for.
  uint32_t some_of(uint32_t tokens, uint32_t piece) const {
    const uint32_t most = piece == 0 ? tokens : std::min(tokens, piece);
    return std::min(most, plan_.budget());
  }

  const SequenceView* waiting_at(int64_t place) const {
    const bool is_place = place >= 0 && static_cast<size_t>(place) < admitted_.size();
    return is_place && !admitted_[static_cast<size_t>(place)]
               ? &view_->waiting[static_cast<size_t>(place)]
               : nullptr;
  }

  // What is in the cache needs no room in the step.
  bool grant(int64_t place, uint32_t wanted) {
    const SequenceView* sequence = waiting_at(place);
    if (sequence == nullptr || plan_.short_of_memory() || plan_.span_waits()) return false;
    if (!plan_.has_slots(*sequence)) return false;
    const uint32_t left = sdk::PlanBuilder::left(*sequence);
    // The last token is always computed.
    const uint32_t ready = std::min(plan_.ledger().cached(sequence->seq).ready, left - 1);
    const uint32_t tokens = plan_.whole_span(*sequence, ready, some_of(left - ready, wanted));
    if (tokens == 0 || !plan_.admit(*sequence, tokens)) return false;
    admitted_[static_cast<size_t>(place)] = true;
    return true;
  }

  bool is_known(int64_t seq) const {
    const auto is_it = [&](const SequenceView& one) { return one.seq == static_cast<SeqId>(seq); };
    return std::ranges::any_of(view_->waiting, is_it) || std::ranges::any_of(view_->running, is_it);
  }

  Object head_of(const SchedulerView& view) const {
    std::vector<Object> head;
    for (const int64_t value :
         {static_cast<int64_t>(view.step_id), view.now_ns, int64_t{plan_.limits().max_sequences},
          int64_t{plan_.limits().max_batch_tokens}, int64_t{plan_.limits().context_tokens},
          static_cast<int64_t>(view.kv_tokens), static_cast<int64_t>(view.last_step.step_id),
          int64_t{view.last_step.rows}, int64_t{view.last_step.sequences},
          int64_t{view.last_step.logits_rows}, view.last_step.duration_ns}) {
      head.push_back(plugin_.integer(value));
    }
    return plugin_.tuple(std::move(head));
  }

  Object sequences(std::span<const SequenceView> all) const {
    std::vector<Object> made;
    made.reserve(all.size());
    for (size_t place = 0; place < all.size(); ++place) {
      const SequenceView& one = all[place];
      std::vector<Object> fields;
      for (const int64_t value :
           {int64_t{one.seq}, int64_t{one.prompt_tokens}, int64_t{one.known_tokens},
            int64_t{one.computed_tokens}, int64_t{one.in_flight_tokens}, int64_t{one.limit_tokens},
            int64_t{one.offered_drafts}, int64_t{one.fork_group}, int64_t{one.samples},
            int64_t{one.tenant}, int64_t{one.priority}, int64_t{one.whole_tokens}, one.arrival_ns,
            one.deadline_ns, static_cast<int64_t>(place)}) {
        fields.push_back(plugin_.integer(value));
      }
      made.push_back(plugin_.tuple(std::move(fields)));
    }
    return plugin_.list(std::move(made));
  }

  const Options options_;
  Plugin plugin_;
  sdk::PlanBuilder plan_;
  PyObject* ask_ = nullptr;
  const SchedulerView* view_ = nullptr;  // while a plan is made
  std::vector<bool> admitted_;           // of those that wait
};

constexpr PluginDescriptor kScheduler =
    sdk::with_facts(sdk::descriptor<Scheduler, PythonScheduler, Options>(
                        {.id = "python",
                         .version = "1.0.0",
                         .summary = "plans as a class in Python says, for trying ideas",
                         .license = "Apache-2.0"},
                        kOptions.specs),
                    sdk::kSchedulerFacts);

}  // namespace
}  // namespace tenon::bridge
TENON_PLUGIN_LIBRARY(&tenon::bridge::kScheduler)
