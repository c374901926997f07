#include "core/client/load.h"

#include <algorithm>
#include <numeric>

#include "core/base/clock.h"

namespace tenon::client {
namespace {

constexpr int64_t kLookNs = 50'000'000;

// Sends requests in order: all that are due, or so many at once.
class Load {
 public:
  Load(Session& session, const LoadPlan& plan, const std::function<void(LoadRow)>& on_row)
      : session_(session), plan_(plan), on_row_(on_row), order_(plan.requests.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (plan.in_flight > 0) return;
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return plan.requests[a].due_ns < plan.requests[b].due_ns;
    });
  }

  LoadResult run() {
    LoadResult result{.start_ns = now_ns()};
    start_ns_ = end_ns_ = result.start_ns;
    if (plan_.in_flight > 0) {
      const size_t first = std::min<size_t>(plan_.in_flight, order_.size());
      for (size_t i = 0; i < first; ++i) send_next(start_ns_);
    } else {
      send_due();
    }
    if (plan_.is_unwanted) watch();
    session_.run();
    result.end_ns = end_ns_;
    result.unsent = order_.size() - next_;
    return result;
  }

 private:
  static int64_t now_ns() { return WallClock().now_ns(); }

  void watch() {
    if (ended_ == order_.size()) return;
    if (plan_.is_unwanted()) return session_.stop();
    session_.at(now_ns() + kLookNs, [this] { watch(); });
  }

  void send_due() {
    while (next_ < order_.size()) {
      const int64_t due_ns = start_ns_ + plan_.requests[order_[next_]].due_ns;
      if (due_ns > now_ns()) {
        session_.at(due_ns, [this] { send_due(); });
        return;
      }
      send_next(due_ns);
    }
  }

  void send_next(int64_t due_ns) {
    const size_t index = order_[next_++];
    session_.ask(plan_.requests[index].question, [this, index, due_ns](Answer answer) {
      const bool go_on = plan_.in_flight > 0 && answer.trouble != Trouble::stopped;
      const int64_t room_ns = now_ns();
      end_ns_ = std::max(end_ns_, answer.end_ns);
      ++ended_;
      on_row_({index, due_ns, std::move(answer)});
      if (go_on && next_ < order_.size()) send_next(room_ns);
    });
  }

  Session& session_;
  const LoadPlan& plan_;
  const std::function<void(LoadRow)>& on_row_;
  std::vector<size_t> order_;
  size_t next_ = 0, ended_ = 0;
  int64_t start_ns_ = 0, end_ns_ = 0;
};

}  // namespace

LoadResult run_load(Session& session, const LoadPlan& plan,
                    const std::function<void(LoadRow)>& on_row) {
  return Load(session, plan, on_row).run();
}

}  // namespace tenon::client
