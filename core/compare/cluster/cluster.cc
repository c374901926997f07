#include "core/compare/cluster/cluster.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/compare/cluster/journey.h"
#include "core/compare/replay/replay_run.h"
#include "core/sim/executor.h"

namespace tenon::compare {
namespace {

constexpr size_t kMostPoints = 960;  // of all machines' timelines together
constexpr size_t kFewestPoints = 24;
constexpr int64_t kIdle = INT64_MAX;

// What happens to machines and to requests under way, besides arrivals.
struct Event {
  enum class Kind : uint8_t { fails = 0, returns = 1, goes_on = 2 };
  Kind kind = Kind::goes_on;
  size_t which = 0;  // the machine, or the request
  int64_t for_ns = 0;
};

class Cluster {
 public:
  Cluster(const std::vector<Pipeline*>& machines, const ClusterPlan& plan, const ReplayWork& work,
          const ReplayOptions& options, EarlyEnd* early)
      : pipelines_(machines),
        plan_(plan),
        prompts_(plan.prefill > 0 ? plan.prefill : machines.size()),
        router_(plan.routing, prompts_),
        work_(work),
        travels_(plan.prefill > 0 || !plan.failures.empty()),
        early_(travels_ || (work.make && work.samples == 0) ? nullptr : early) {
    for (Pipeline* pipeline : machines) {
      runs_.push_back(std::make_unique<ReplayRun>(*pipeline, work, options));
    }
    if (travels_) take_parts();
    if (early_ != nullptr) watch();
    order_.resize(work.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (work.in_flight > 0) return;
    std::ranges::stable_sort(order_, {}, [&](size_t index) { return work.arrivals_ns[index]; });
  }

  Status run() {
    begin();
    while (true) {
      const std::optional<size_t> machine = first_machine();
      const std::optional<int64_t> event_ns = next_event_ns(), due_ns = next_due_ns();
      const auto comes_first = [&](const std::optional<int64_t>& at_ns) {
        return at_ns && (!machine || *at_ns <= next_ns_[*machine]);
      };
      // Failures go on for ever, but nothing is left that they could change.
      if (!machine && !due_ns && open_ == 0) break;
      if (is_lost()) return end_early();
      if (comes_first(event_ns) && (!due_ns || *event_ns <= *due_ns)) {
        TENON_RETURN_IF_ERROR(happen());
      } else if (comes_first(due_ns)) {
        TENON_RETURN_IF_ERROR(arrive(*due_ns));
      } else if (machine) {
        TENON_RETURN_IF_ERROR(step(*machine));
      } else {
        return internal("nothing is left to happen in the cluster, and requests are not done");
      }
    }
    if (next_ < order_.size()) return internal("requests are left that no machine was sent");
    return end();
  }

  Result<MeasuredPiece> piece() {
    MeasuredPiece all;
    all.requests.reserve(work_.size());
    QuantileSketch gaps = gaps_;
    for (size_t i = 0; i < runs_.size(); ++i) {
      gaps.add(runs_[i]->gaps());
      TENON_ASSIGN_OR_RETURN(MeasuredPiece piece, runs_[i]->piece());
      add(piece, i == 0, all);
    }
    all.gap_ms = gaps.quantiles();
    std::ranges::move(rows_, std::back_inserter(all.requests));
    // Each once, so that no order is left to chance.
    std::ranges::sort(all.requests, {}, [](const RequestRow& row) {
      return (uint64_t{row.index} << 32) | row.sample;
    });
    return all;
  }

 private:
  // All at one time, whatever was simulated before.
  void begin() {
    begin_ns_ = 0;
    for (const Pipeline* pipeline : pipelines_) {
      begin_ns_ = std::max(begin_ns_, pipeline->virtual_clock->now_ns());
    }
    for (size_t i = 0; i < runs_.size(); ++i) {
      pipelines_[i]->virtual_clock->advance_to(begin_ns_);
      runs_[i]->begin({});
      if (plan_.prefill > 0) (void)sim::import_prompts(*pipelines_[i]->executor, i >= prompts_);
    }
    next_ = 0;
    open_ = 0;
    if (early_ != nullptr) early_->broken = 0;
    slots_ns_.clear();
    for (uint32_t i = 0; i < work_.in_flight; ++i) slots_ns_.insert(begin_ns_);
    events_.clear();
    next_ns_.assign(runs_.size(), kIdle);
    down_.assign(runs_.size(), 0);
    sends_from_ns_.assign(runs_.size(), 0);
    held_.clear();
    rows_.clear();
    gaps_ = QuantileSketch();
    for (const MachineFailure& each : plan_.failures) {
      events_.emplace(begin_ns_ + each.at_ns,
                      Event{Event::Kind::fails, each.machine - 1, each.for_ns});
    }
  }

  Status end() {
    for (size_t i = 0; i < runs_.size(); ++i) TENON_RETURN_IF_ERROR(named(i, runs_[i]->end()));
    return {};
  }

  // How many requests there will be is known from the start.
  void watch() {
    for (const auto& run : runs_) run->watch(early_->bounds);
    early_->all = static_cast<uint32_t>(work_.samples);
    for (const Request& request : work_.requests) early_->all += request.samples;
  }
  // The same comparison as that of a piece's share, which falls with every request that is lost.
  bool is_lost() const {
    return early_ != nullptr && early_->broken > 0 &&
           early_->most_kept() < early_->bounds.slo_share;
  }
  Status end_early() {
    early_->ended = true;
    for (size_t i = 0; i < runs_.size(); ++i) TENON_RETURN_IF_ERROR(named(i, runs_[i]->lose_all()));
    return end();
  }

  Status named(size_t machine, Status status) const {
    if (status.ok()) return status;
    return with_context("machine " + std::to_string(machine + 1), status);
  }

  // The machine with work whose time comes first; null: all are idle.
  std::optional<size_t> first_machine() const {
    const auto first = std::ranges::min_element(next_ns_);
    if (*first == kIdle) return std::nullopt;
    return static_cast<size_t>(first - next_ns_.begin());
  }

  // After anything was done to a machine. An arrival alone moves clocks to a time before which no
  // machine has anything to do, so nobody's next step changes by it.
  void note_next(size_t machine) {
    next_ns_[machine] = runs_[machine]->idle() ? kIdle : runs_[machine]->next_ns();
  }

  std::optional<int64_t> next_event_ns() const {
    return events_.empty() ? std::nullopt : std::optional(events_.begin()->first);
  }

  // When the next request comes: when it is due or, in a closed loop, when another one ended.
  std::optional<int64_t> next_due_ns() const {
    if (next_ == order_.size()) return std::nullopt;
    if (work_.in_flight == 0) return begin_ns_ + work_.arrivals_ns[order_[next_]];
    if (slots_ns_.empty()) return std::nullopt;
    return *slots_ns_.begin();
  }

  Status step(size_t machine) {
    VirtualClock& clock = *pipelines_[machine]->virtual_clock;
    clock.advance_to(runs_[machine]->next_ns());
    const uint64_t before = runs_[machine]->samples_ended();
    const uint32_t broken = runs_[machine]->broken();
    TENON_RETURN_IF_ERROR(named(machine, runs_[machine]->step()));
    note_next(machine);
    if (early_ != nullptr) early_->broken += runs_[machine]->broken() - broken;
    if (travels_) return settle_parts();
    const uint64_t ended = runs_[machine]->samples_ended() - before;
    if (work_.in_flight == 0) return {};
    for (uint64_t i = 0; i < ended; ++i) slots_ns_.insert(clock.now_ns());
    return {};
  }

  Status arrive(int64_t due_ns) {
    const size_t index = order_[next_++];
    TENON_ASSIGN_OR_RETURN(Request request, work_.request(index));
    for (uint32_t i = 0; i < request.samples && !slots_ns_.empty(); ++i) {
      slots_ns_.erase(slots_ns_.begin());
    }
    advance_to(due_ns);
    if (!travels_) {
      const size_t machine = router_.choose(request.prompt, loads(0, prompts_));
      return submit(machine, index, std::move(request), due_ns);
    }
    if (request.samples != 1) {
      return unsupported("a request has " + std::to_string(request.samples) +
                         " samples; with roles or failures each has one");
    }
    ++open_;
    journeys_.emplace(index, Journey(index, std::move(request), due_ns));
    return send(index, due_ns);
  }

  Status submit(size_t machine, size_t index, Request request, int64_t at_ns) {
    TENON_RETURN_IF_ERROR(named(machine, runs_[machine]->submit(index, std::move(request), at_ns)));
    note_next(machine);
    return {};
  }

  // Those with a step under way are beyond it already.
  void advance_to(int64_t at_ns) {
    for (Pipeline* pipeline : pipelines_) pipeline->virtual_clock->advance_to(at_ns);
  }

  std::vector<MachineLoad>& loads(size_t first, size_t end) {
    loads_.clear();
    for (size_t i = first; i < end; ++i) {
      loads_.push_back({runs_[i]->open_requests(), runs_[i]->open_tokens()});
    }
    return loads_;
  }

  // To a machine that computes prompts; where all of them are down, once one returns.
  Status send(size_t index, int64_t at_ns) {
    const Journey& journey = journeys_.at(index);
    std::vector<MachineLoad>& all = loads(0, prompts_);
    bool any = false;
    for (size_t i = 0; i < prompts_; ++i) {
      all[i].out = down_[i] > 0;
      any |= !all[i].out;
    }
    if (!any) {
      held_.push_back(index);
      return {};
    }
    const size_t machine = router_.choose(journey.prompt(), all);
    return submit(machine, index, journey.next(plan_.prefill > 0 ? 1 : 0), at_ns);
  }

  Status happen() {
    const auto [at_ns, event] = *events_.begin();
    events_.erase(events_.begin());
    advance_to(at_ns);
    switch (event.kind) {
      case Event::Kind::fails:
        return fail(event.which, at_ns, event.for_ns);
      case Event::Kind::returns:
        if (--down_[event.which] > 0) return {};
        for (const size_t index : std::exchange(held_, {})) {
          TENON_RETURN_IF_ERROR(resume(index, at_ns));
        }
        return {};
      case Event::Kind::goes_on:
        break;
    }
    return resume(event.which, at_ns);
  }

  Status fail(size_t machine, int64_t at_ns, int64_t for_ns) {
    ++down_[machine];
    events_.emplace(at_ns + for_ns, Event{Event::Kind::returns, machine, 0});
    TENON_RETURN_IF_ERROR(named(machine, runs_[machine]->lose_all()));
    note_next(machine);
    return settle_parts();
  }

  // A request that was under way: K and V of a prompt that came over the network are at hand, and
  // those of a machine that failed are not.
  Status resume(size_t index, int64_t at_ns) {
    if (!arrived_.contains(index)) return send(index, at_ns);
    const size_t count = runs_.size() - prompts_;
    const std::vector<MachineLoad>& all = loads(prompts_, runs_.size());
    std::optional<size_t> least;
    for (size_t i = 0; i < count; ++i) {
      if (down_[prompts_ + i] > 0) continue;
      if (!least || all[i].tokens < all[*least].tokens) least = i;
    }
    if (!least) {
      held_.push_back(index);
      return {};
    }
    arrived_.erase(index);
    const size_t machine = prompts_ + *least;
    return submit(machine, index, journeys_.at(index).next(0), at_ns);
  }

  // Machines hand over what they answered of a request, in the middle of their step.
  void take_parts() {
    for (size_t machine = 0; machine < runs_.size(); ++machine) {
      runs_[machine]->hand_over([this, machine](size_t index, const ReplaySink& sink) {
        parts_.push_back({machine, index, sink.samples().at(0)});
      });
    }
  }

  Status settle_parts() {
    for (const Part& part : std::exchange(parts_, {})) {
      if (part.answer.reason == FinishReason::error) {
        return named(part.machine, failed("request " + std::to_string(part.index) +
                                          " failed: " + part.answer.message));
      }
      Journey& journey = journeys_.at(part.index);
      journey.add(part.answer);
      const int64_t end_ns = part.answer.record.end_ns;
      if (!journey.goes_on(part.answer.reason)) {
        rows_.push_back(journey.row(begin_ns_, gaps_));
        journeys_.erase(part.index);
        --open_;
        if (work_.in_flight > 0) slots_ns_.insert(end_ns);
        continue;
      }
      int64_t next_ns = end_ns;
      if (part.answer.reason != FinishReason::cancelled) {
        next_ns = transfer(part.machine, journey.known_tokens(), end_ns);
        arrived_.insert(part.index);
      }
      events_.emplace(next_ns, Event{Event::Kind::goes_on, part.index, 0});
    }
    return {};
  }

  // When K and V of a prompt are where they are wanted: a machine sends one after the other.
  int64_t transfer(size_t machine, size_t tokens, int64_t ready_ns) {
    const double bytes = runs_[machine]->kv_bytes_of(tokens);
    double seconds = 0;
    for (const Pipeline* end : {pipelines_[machine], pipelines_[prompts_]}) {
      seconds = std::max(seconds, sim::transfer_seconds(*end->executor, bytes).value_or(0));
    }
    int64_t& free_ns = sends_from_ns_[machine];
    free_ns = std::max(free_ns, ready_ns) + static_cast<int64_t>(seconds * 1e9);
    return free_ns;
  }

  // Takes the piece's rows.
  void add(MeasuredPiece& piece, bool first, MeasuredPiece& all) const {
    all.seconds = std::max(all.seconds, piece.seconds);
    all.generated_tokens += piece.generated_tokens;
    for (size_t part = 0; part < piece.prefill.size(); ++part) {
      all.prefill[part] += piece.prefill[part];
      all.decode[part] += piece.decode[part];
    }
    for (const auto& [name, value] : piece.counters) {
      double& sum = all.counters[name];
      const bool most = name.starts_with("kv_peak") || name.starts_with("kv_pool");
      sum = most ? std::max(sum, value) : sum + value;
    }
    std::ranges::move(piece.requests, std::back_inserter(all.requests));
    // The first machine's stands for all where one is shown.
    if (first) all.timeline = piece.timeline;
    const size_t most = std::max(kMostPoints / runs_.size(), kFewestPoints);
    const size_t stride = (piece.timeline.size() + most - 1) / most;
    std::vector<TimelinePoint>& own = all.machines.emplace_back();
    for (size_t i = 0; i < piece.timeline.size(); i += std::max<size_t>(stride, 1)) {
      own.push_back(piece.timeline[i]);
    }
  }

  struct Part {
    size_t machine = 0, index = 0;
    ReplaySink::Sample answer;
  };

  const std::vector<Pipeline*>& pipelines_;
  const ClusterPlan& plan_;
  const size_t prompts_;  // machines that compute prompts: the first ones
  Router router_;
  const ReplayWork& work_;
  const bool travels_;     // requests may be at several machines
  EarlyEnd* const early_;  // null: all are answered
  std::vector<std::unique_ptr<ReplayRun>> runs_;
  std::vector<MachineLoad> loads_;  // of the latest question
  std::vector<size_t> order_;
  size_t next_ = 0;
  size_t open_ = 0;  // requests that travel
  int64_t begin_ns_ = 0;
  std::multiset<int64_t> slots_ns_;  // of a closed loop: since when another request may come
  std::multimap<int64_t, Event> events_;
  std::vector<int64_t> next_ns_;        // by machine: when it goes on
  std::vector<uint32_t> down_;          // by machine: failures that it has now
  std::vector<int64_t> sends_from_ns_;  // by machine: when its network is free
  std::vector<size_t> held_;            // requests that wait for a machine to return
  std::set<size_t> arrived_;            // requests whose K and V came over the network
  std::unordered_map<size_t, Journey> journeys_;
  std::vector<Part> parts_;
  std::vector<RequestRow> rows_;  // of requests that travelled
  QuantileSketch gaps_;
};

Status check_network(const std::vector<Pipeline*>& machines, const ClusterPlan& plan) {
  if (plan.prefill == 0) return {};
  for (const Pipeline* machine : machines) {
    if (sim::transfer_seconds(*machine->executor, 1)) continue;
    return invalid_argument(
        "machines with roles hand K and V over, and the file of a machine has no network; add "
        "network = BYTES_A_SECOND to it");
  }
  return {};
}

}  // namespace

Status check_plan(size_t machines, const ClusterPlan& plan) {
  const std::string all = std::to_string(machines);
  if (plan.prefill > 0 && plan.prefill >= machines) {
    return invalid_argument("cluster.prefill is " + std::to_string(plan.prefill) + " of " + all +
                            " machines; one at least must be left to go on with answers");
  }
  for (const MachineFailure& each : plan.failures) {
    if (each.machine >= 1 && each.machine <= machines) continue;
    return invalid_argument("machine " + std::to_string(each.machine) +
                            " is to fail, and there are " + all + ", numbered from 1");
  }
  return {};
}

Result<MeasuredPiece> replay_cluster(const std::vector<Pipeline*>& machines,
                                     const ClusterPlan& plan, const ReplayWork& work,
                                     const ReplayOptions& options, EarlyEnd* early) {
  for (const Pipeline* pipeline : machines) {
    if (pipeline->virtual_clock != nullptr) continue;
    return invalid_argument("several machines are simulated: choose executor.plugin = \"sim\"");
  }
  if (!options.record.empty()) {
    return unsupported("what schedulers see is recorded of one machine alone; leave --record out");
  }
  TENON_RETURN_IF_ERROR(check_plan(machines.size(), plan));
  TENON_RETURN_IF_ERROR(check_network(machines, plan));
  Cluster cluster(machines, plan, work, options, early);
  if (options.warm) TENON_RETURN_IF_ERROR(cluster.run());
  TENON_RETURN_IF_ERROR(cluster.run());
  return cluster.piece();
}

}  // namespace tenon::compare
