#include <tenon/scheduler.h>

#include <algorithm>
#include <vector>

#include "core/isolation/guest/guest.h"

namespace tenon {
namespace {

// The sequences of a view by their id, for as long as one plan.
class SequenceIndex {
 public:
  struct Place {
    SeqId seq = kNoSeq;
    uint32_t at = 0;  // in `running`
    bool grown = false;
  };

  void begin(std::span<const SequenceView> running) {
    size_t size = 64;
    while (size < 2 * running.size()) size *= 2;
    places_.assign(size, {});
    groups_.assign(size, {});
    for (uint32_t i = 0; i < running.size(); ++i) {
      Place& place = places_[free_place(running[i].seq)];
      place = {running[i].seq, i, false};
      ++count_in(running[i].fork_group);
    }
  }
  Place* find(SeqId seq) {
    Place& place = places_[free_place(seq)];
    return place.seq == seq && seq != kNoSeq ? &place : nullptr;
  }
  // No other running sequence is of the same request.
  bool alone(uint32_t group) { return count_in(group) == 1; }

 private:
  struct Group {
    uint32_t id = 0;
    uint32_t count = 0;
  };
  size_t first_at(uint32_t key) const {
    return key * size_t{0x9e3779b1} >> 7 & (places_.size() - 1);
  }
  size_t free_place(SeqId seq) const {
    size_t at = first_at(seq);
    while (places_[at].seq != kNoSeq && places_[at].seq != seq)
      at = (at + 1) & (places_.size() - 1);
    return at;
  }
  uint32_t& count_in(uint32_t group) {
    size_t at = first_at(group);
    while (groups_[at].count > 0 && groups_[at].id != group) at = (at + 1) & (groups_.size() - 1);
    groups_[at].id = group;
    return groups_[at].count;
  }

  std::vector<Place> places_;
  std::vector<Group> groups_;
};

// The program's ledger. A question there costs two changes of process, so what has only one answer
// is answered here and made true afterwards: a running sequence that grows while memory is
// plentiful.
class DistantLedger final : public KvLedger {
 public:
  void begin(const Lane& lane, const PlanHead& head, std::span<const SequenceView> running) {
    lane_ = &lane;
    running_ = running;
    block_tokens_ = head.foresee_block_tokens;
    free_tokens_ = head.free_tokens;
    foreseen_.clear();
    if (block_tokens_ > 0) index_.begin(running);
  }
  std::span<const Foreseen> foreseen() const { return foreseen_; }

  CachedTokens cached(SeqId seq) noexcept override {
    return ask({LedgerQuestion::cached, seq, 0, 0}).cached;
  }
  uint64_t cost(SeqId seq, uint32_t tokens) noexcept override {
    return ask({LedgerQuestion::cost, seq, tokens, 0}).cost;
  }
  GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept override {
    GrowResult result;
    if (foresee(seq, at_least, at_most, result)) return result;
    return ask({LedgerQuestion::try_grow, seq, at_least, at_most}).grown;
  }
  HeldTokens held(SeqId seq) noexcept override {
    return ask({LedgerQuestion::held, seq, 0, 0}).held;
  }
  bool release(SeqId seq, ReleaseHow how) noexcept override {
    return ask({LedgerQuestion::release, seq, static_cast<uint32_t>(how), 0}).released;
  }
  // Known from the last answer on, less what was foreseen since.
  uint64_t free_tokens() noexcept override { return free_tokens_; }

 private:
  bool foresee(SeqId seq, uint32_t at_least, uint32_t at_most, GrowResult& result) {
    if (block_tokens_ == 0 || at_least == 0 || at_least > at_most) return false;
    SequenceIndex::Place* place = index_.find(seq);
    if (place == nullptr || place->grown) return false;
    const SequenceView& view = running_[place->at];
    if (view.samples != 1 || view.whole_tokens > 0 || !index_.alone(view.fork_group)) return false;
    const uint32_t most = view.known_tokens - view.computed_tokens + view.offered_drafts;
    const uint32_t granted = std::min(at_most, most);
    if (granted < at_least) return false;
    const uint64_t taken =
        blocks(uint64_t{view.computed_tokens} + granted) - blocks(view.computed_tokens);
    // One block more than it needs: the last one may be shared, and then be copied.
    if ((taken + 1) * block_tokens_ > free_tokens_) return false;
    free_tokens_ -= taken * block_tokens_;
    foreseen_.push_back({seq, at_least, at_most, granted});
    place->grown = true;
    result = {granted, 0};
    return true;
  }
  uint64_t blocks(uint64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

  LedgerAnswer ask(const LedgerAsked& asked) {
    WireWriter out(lane_->reply_room());
    out.put_list(std::span<const Foreseen>(foreseen_));
    out.put(asked);
    foreseen_.clear();
    LedgerAnswer answer{};
    if (!out.ok()) return answer;
    lane_->ask(out.bytes());
    LedgerReply reply;
    std::memcpy(&reply, lane_->header().answer, sizeof(reply));
    free_tokens_ = reply.free_tokens;
    std::memcpy(&answer, reply.words, sizeof(answer));
    // Its length may be another now.
    if (SequenceIndex::Place* place = block_tokens_ > 0 ? index_.find(asked.seq) : nullptr) {
      place->grown = true;
    }
    return answer;
  }

  const Lane* lane_ = nullptr;
  std::span<const SequenceView> running_;
  uint32_t block_tokens_ = 0;
  uint64_t free_tokens_ = 0;
  SequenceIndex index_;
  std::vector<Foreseen> foreseen_;
};

class SchedulerServer final : public GuestServer {
 public:
  explicit SchedulerServer(Scheduler& plugin) : plugin_(plugin) {}

  void serve(GuestMethod method, WireReader& in, const Lane& lane, GuestReply& reply) override {
    if (method == GuestMethod::on_event) {
      reply.begin(plugin_.on_event(in.get<SequenceEvent>()));
    } else {
      plan(in, lane, reply);
    }
  }

 private:
  void plan(WireReader& in, const Lane& lane, GuestReply& reply) {
    const auto head = in.get<PlanHead>();
    Status told;
    for (const SequenceEvent& event : in.get_list<SequenceEvent>()) {
      Status status = plugin_.on_event(event);
      if (!status.ok()) told = std::move(status);
    }
    SchedulerView view;
    view.step_id = head.step_id;
    view.now_ns = head.now_ns;
    view.limits = head.limits;
    view.kv_tokens = head.kv_tokens;
    view.last_step = head.last_step;
    view.waiting = in.get_list<SequenceView>();
    view.running = in.get_list<SequenceView>();
    grants_.resize(view.waiting.size() + view.running.size());
    PlanOut out;
    out.grants = grants_;
    ledger_.begin(lane, head, view.running);
    Status planned = plugin_.plan(view, ledger_, out);
    if (planned.ok()) planned = std::move(told);
    WireWriter& wire = reply.begin(planned);
    wire.put(PlanTail{out.grant_count, out.idle_rows, out.wake_ns});
    wire.put_list(
        std::span<const Grant>(grants_).first(std::min<size_t>(out.grant_count, grants_.size())));
    wire.put_list(ledger_.foreseen());
  }

  Scheduler& plugin_;
  DistantLedger ledger_;
  std::vector<Grant> grants_;
};

}  // namespace

std::unique_ptr<GuestServer> serve_scheduler(Scheduler& plugin) {
  return std::make_unique<SchedulerServer>(plugin);
}

}  // namespace tenon
