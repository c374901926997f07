#include "core/compare/cluster.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "core/compare/replay_run.h"

namespace tenon::compare {
namespace {

class Cluster {
 public:
  Cluster(const std::vector<Pipeline*>& machines, Routing routing, const ReplayWork& work,
          const ReplayOptions& options)
      : pipelines_(machines), router_(routing, machines.size()), work_(work) {
    for (Pipeline* pipeline : machines) {
      runs_.push_back(std::make_unique<ReplayRun>(*pipeline, work, options));
    }
    open_.resize(machines.size());
    order_.resize(work.requests.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (work.in_flight > 0) return;
    std::ranges::stable_sort(order_, {}, [&](size_t index) { return work.arrivals_ns[index]; });
  }

  Status run() {
    begin();
    while (true) {
      const std::optional<size_t> machine = first_machine();
      const std::optional<int64_t> due_ns = next_due_ns();
      if (!machine && !due_ns) break;
      TENON_RETURN_IF_ERROR(due_ns && (!machine || *due_ns <= runs_[*machine]->next_ns())
                                ? route(*due_ns)
                                : step(*machine));
    }
    if (next_ < order_.size()) return internal("requests are left that no machine was sent");
    for (size_t i = 0; i < runs_.size(); ++i) TENON_RETURN_IF_ERROR(named(i, runs_[i]->end()));
    return {};
  }

  Result<MeasuredPiece> piece() const {
    MeasuredPiece all;
    std::vector<double> gaps;
    for (size_t i = 0; i < runs_.size(); ++i) {
      std::vector<double> own;
      TENON_ASSIGN_OR_RETURN(const MeasuredPiece piece, runs_[i]->piece(own));
      gaps.insert(gaps.end(), own.begin(), own.end());
      add(piece, i == 0, all);
    }
    all.gap_ms = quantiles_of(gaps);
    std::ranges::stable_sort(all.requests, {}, &RequestRow::index);
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
      open_[i].clear();
    }
    next_ = 0;
    slots_ns_.clear();
    for (uint32_t i = 0; i < work_.in_flight; ++i) slots_ns_.insert(begin_ns_);
  }

  Status named(size_t machine, Status status) const {
    if (status.ok()) return status;
    return with_context("machine " + std::to_string(machine + 1), status);
  }

  // The machine with work whose time comes first; null: all are idle.
  std::optional<size_t> first_machine() const {
    std::optional<size_t> first;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i]->idle()) continue;
      if (!first || runs_[i]->next_ns() < runs_[*first]->next_ns()) first = i;
    }
    return first;
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
    TENON_RETURN_IF_ERROR(named(machine, runs_[machine]->step()));
    if (work_.in_flight == 0) return {};
    const uint64_t ended = runs_[machine]->samples_ended() - before;
    for (uint64_t i = 0; i < ended; ++i) slots_ns_.insert(clock.now_ns());
    return {};
  }

  Status route(int64_t due_ns) {
    const size_t index = order_[next_++];
    const Request& request = work_.requests[index];
    for (uint32_t i = 0; i < request.samples && !slots_ns_.empty(); ++i) {
      slots_ns_.erase(slots_ns_.begin());
    }
    // Those with a step under way are beyond it already.
    for (Pipeline* pipeline : pipelines_) pipeline->virtual_clock->advance_to(due_ns);
    const size_t machine = router_.choose(request.prompt, loads());
    open_[machine].push_back(index);
    return named(machine, runs_[machine]->submit(index, due_ns));
  }

  std::vector<MachineLoad> loads() {
    std::vector<MachineLoad> out(runs_.size());
    for (size_t i = 0; i < runs_.size(); ++i) {
      std::erase_if(open_[i], [&](size_t index) { return runs_[i]->answered(index); });
      for (const size_t index : open_[i]) {
        const Request& request = work_.requests[index];
        ++out[i].requests;
        out[i].tokens += request.prompt.size() + request.max_tokens;
      }
    }
    return out;
  }

  static void add(const MeasuredPiece& piece, bool first, MeasuredPiece& all) {
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
    all.requests.insert(all.requests.end(), piece.requests.begin(), piece.requests.end());
    // The first machine's stands for all.
    if (first) all.timeline = piece.timeline;
  }

  const std::vector<Pipeline*>& pipelines_;
  Router router_;
  const ReplayWork& work_;
  std::vector<std::unique_ptr<ReplayRun>> runs_;
  std::vector<std::vector<size_t>> open_;  // by machine: sent there, and perhaps not answered
  std::vector<size_t> order_;
  size_t next_ = 0;
  int64_t begin_ns_ = 0;
  std::multiset<int64_t> slots_ns_;  // of a closed loop: since when another request may come
};

}  // namespace

Result<MeasuredPiece> replay_cluster(const std::vector<Pipeline*>& machines, Routing routing,
                                     const ReplayWork& work, const ReplayOptions& options) {
  for (const Pipeline* pipeline : machines) {
    if (pipeline->virtual_clock != nullptr) continue;
    return invalid_argument("several machines are simulated: choose executor.plugin = \"sim\"");
  }
  if (!options.record.empty()) {
    return unsupported("what schedulers see is recorded of one machine alone; leave --record out");
  }
  Cluster cluster(machines, routing, work, options);
  if (options.warm) TENON_RETURN_IF_ERROR(cluster.run());
  TENON_RETURN_IF_ERROR(cluster.run());
  return cluster.piece();
}

}  // namespace tenon::compare
