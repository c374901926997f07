// Keeps what a KV manager tells of its cache (kKvEvents) until the host takes it.
#pragma once

#include <tenon/extensions/kv_events.h>

#include <algorithm>
#include <vector>

namespace tenon::sdk {

class KvEventLog {
 public:
  void watch() { watched_ = true; }
  bool watched() const { return watched_; }

  // `event.tokens` are copied.
  void stored(const KvEvent& event) {
    events_.push_back(event);
    starts_.push_back(tokens_.size());
    tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
  }
  void removed(GroupId group, uint64_t content) {
    stored({.kind = KvEventKind::removed, .group = group, .content = content, .tokens = {}});
  }

  void take(KvEventsOut& out) {
    if (taken_ == events_.size()) clear();
    const size_t count = std::min(out.events.size(), events_.size() - taken_);
    for (size_t i = 0; i < count; ++i, ++taken_) {
      KvEvent& event = out.events[i] = events_[taken_];
      event.tokens = {tokens_.data() + starts_[taken_], event.tokens.size()};
    }
    out.count = static_cast<uint32_t>(count);
  }

 private:
  void clear() {
    events_.clear();
    starts_.clear();
    tokens_.clear();
    taken_ = 0;
  }

  bool watched_ = false;
  std::vector<KvEvent> events_;  // the data of their tokens is not used
  std::vector<size_t> starts_;   // [events_] in `tokens_`
  std::vector<TokenId> tokens_;
  size_t taken_ = 0;  // events that the host has
};

}  // namespace tenon::sdk
