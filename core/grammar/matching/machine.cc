#include "core/grammar/matching/machine.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {
namespace {

constexpr uint32_t kDeepestStack = 1000;
constexpr size_t kMostPairs = 4096;      // of one configuration
constexpr size_t kMostVisited = 65'536;  // pairs seen on the way to one

uint64_t mix(uint64_t value) {
  value ^= value >> 31;
  value *= 0x9e3779b97f4a7c15u;
  return value ^ value >> 29;
}

}  // namespace

size_t Machine::FrameHash::operator()(const Frame& frame) const {
  return mix(mix(uint64_t{frame.code} << 32 | frame.count) ^ frame.below);
}

Machine::Machine(const Automaton& automaton)
    : automaton_(automaton), stride_(automaton.classes), seen_(64), seen_in_(64, 0) {
  frames_.emplace_back();
  configs_.emplace_back();
  table_.assign(stride_, kDeadConfig);
  open(automaton_.start, 0);
  close();
  start_ = intern();
}

ConfigId Machine::walk(ConfigId config, std::string_view bytes) {
  for (const char byte : bytes) {
    if (config == kDeadConfig) break;
    config = step(config, static_cast<uint8_t>(byte));
  }
  return config;
}

ConfigId Machine::find_step(ConfigId config, size_t entry, uint8_t byte) {
  const Config from = configs_[config];
  const bool overflow_before = std::exchange(overflow_, false);
  pending_.clear();
  made_.clear();
  accepts_ = false;
  ++closure_;
  seen_count_ = 0;
  for (uint32_t i = 0; i < from.count; ++i) {
    const Item item = items_[from.first + i];
    const State& state = automaton_.states[item.state];
    for (uint32_t e = 0; e < state.b; ++e) {
      const Edge& edge = automaton_.edges[state.a + e];
      if (edge.first <= byte && byte <= edge.last) visit({edge.target, item.stack});
    }
  }
  close();
  const ConfigId next = intern();
  // What was left out is looked for again, and told of again, by the next who asks.
  if (!overflow_) table_[entry] = next;
  overflow_ = overflow_ || overflow_before;
  return next;
}

void Machine::open(uint32_t state, FrameId stack) {
  ++closure_;
  seen_count_ = 0;
  accepts_ = false;
  pending_.clear();
  made_.clear();
  visit({state, stack});
}

// Notes a pair that was not met in this closure.
void Machine::visit(Item item) {
  const uint64_t key = uint64_t{item.state} << 32 | item.stack;
  const size_t mask = seen_.size() - 1;
  size_t at = mix(key) & mask;
  while (seen_in_[at] == closure_) {
    if (seen_[at] == key) return;
    at = (at + 1) & mask;
  }
  if (seen_count_ >= kMostVisited) {
    overflow_ = true;
    return;
  }
  seen_[at] = key;
  seen_in_[at] = closure_;
  pending_.push_back(item);
  if (++seen_count_ * 2 <= seen_.size()) return;
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < seen_.size(); ++i) {
    if (seen_in_[i] == closure_) keys.push_back(seen_[i]);
  }
  seen_.assign(seen_.size() * 2, 0);
  seen_in_.assign(seen_.size(), 0);
  closure_ = 1;
  for (const uint64_t again : keys) {
    size_t place = mix(again) & (seen_.size() - 1);
    while (seen_in_[place] == closure_) place = (place + 1) & (seen_.size() - 1);
    seen_[place] = again;
    seen_in_[place] = closure_;
  }
}

// Follows everything that reads no byte; what is left reads one.
void Machine::close() {
  while (!pending_.empty()) {
    const Item item = pending_.back();
    pending_.pop_back();
    ++work_;
    const State& state = automaton_.states[item.state];
    switch (state.kind) {
      case StateKind::read:
        if (state.b > 0) made_.push_back(item);
        break;
      case StateKind::split:
        for (uint32_t i = 0; i < state.b; ++i) {
          visit({automaton_.targets[state.a + i], item.stack});
        }
        break;
      case StateKind::call: {
        const FrameId stack = state.b == kNoState ? item.stack : push(state.b, 0, item.stack);
        if (stack != kUnknown) visit({state.a, stack});
        break;
      }
      case StateKind::loop:
        run_loop(state.a, 0, item.stack);
        break;
      case StateKind::end:
        leave(item.stack);
        break;
      case StateKind::begin_count:
        arrive(automaton_.counters[state.a].first_node, 0, item.stack);
        break;
      case StateKind::arrive:
        arrive(state.a, frames_[item.stack].count, frames_[item.stack].below);
        break;
      case StateKind::may_arrive:
        if (may_arrive(state.a, item.stack)) visit({state.b, item.stack});
        break;
    }
  }
}

// A rule, or a loop's body, has come to its end.
void Machine::leave(FrameId stack) {
  if (stack == 0) {
    accepts_ = true;
    return;
  }
  const Frame frame = frames_[stack];
  if (frame.count == 0) {
    visit({frame.code, frame.below});
  } else {
    run_loop(frame.code, frame.count, frame.below);
  }
}

void Machine::run_loop(uint32_t loop, uint32_t ran, FrameId below) {
  const Loop& rules = automaton_.loops[loop];
  if (ran >= rules.least) visit({rules.after, below});
  if (ran >= rules.most) return;
  const FrameId stack = push(loop, ran + 1, below);
  if (stack != kUnknown) visit({rules.body, stack});
}

void Machine::arrive(uint32_t node, uint32_t taken, FrameId below) {
  const CounterNode& here = automaton_.counter_nodes[node];
  const Counter& counter = automaton_.counters[here.counter];
  const CountedAutomaton& counted = *counter.counted;
  taken = counted.counted(taken);
  if (!counted.is_live(here.node, taken)) return;
  if (counted.nodes()[here.node].accepts && taken >= counted.least()) {
    visit({counter.after, below});
  }
  const FrameId stack = push(here.counter | kIsCounter, taken + 1, below);
  if (stack != kUnknown) visit({here.entry, stack});
}

// `stack` has the counter of the node that the edge begins at, so one edge more than it says.
bool Machine::may_arrive(uint32_t node, FrameId stack) const {
  const CounterNode& there = automaton_.counter_nodes[node];
  const CountedAutomaton& counted = *automaton_.counters[there.counter].counted;
  return counted.is_live(there.node, counted.counted(frames_[stack].count));
}

// kUnknown where the stack is as deep as it may be: that way ends here.
Machine::FrameId Machine::push(uint32_t code, uint32_t count, FrameId below) {
  const uint32_t depth = frames_[below].depth + 1;
  if (depth > kDeepestStack) return kUnknown;
  const Frame frame{code, count, below, depth};
  const auto [place, is_new] = frame_ids_.try_emplace(frame, static_cast<FrameId>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return place->second;
}

// What made_ and accepts_ say, as a number.
ConfigId Machine::intern() {
  overflow_ = overflow_ || made_.size() > kMostPairs;
  if (overflow_) return kDeadConfig;
  if (made_.empty() && !accepts_) return kDeadConfig;
  std::sort(made_.begin(), made_.end());
  uint64_t hash = accepts_ ? 1 : 0;
  for (const Item& item : made_) {
    hash = mix(hash ^ (uint64_t{item.state} << 32 | item.stack)) + 0x632be59bd9b4e019u;
  }
  const auto [place, is_new] = by_hash_.try_emplace(hash, static_cast<ConfigId>(configs_.size()));
  const ConfigId alike = is_new ? kDeadConfig : place->second;
  for (ConfigId id = alike; id != kDeadConfig; id = configs_[id].next_alike) {
    const Config& config = configs_[id];
    if (config.accepts == accepts_ && config.count == made_.size() &&
        std::equal(made_.begin(), made_.end(), items_.begin() + config.first)) {
      return id;
    }
  }
  Config config;
  config.first = static_cast<uint32_t>(items_.size());
  config.count = static_cast<uint32_t>(made_.size());
  config.accepts = accepts_;
  config.next_alike = alike;
  for (const Item& item : made_) config.free_text = std::max(config.free_text, free_text_of(item));
  items_.insert(items_.end(), made_.begin(), made_.end());
  configs_.push_back(config);
  const auto id = static_cast<ConfigId>(configs_.size() - 1);
  place->second = id;
  table_.resize(table_.size() + stride_, kUnknown);
  return id;
}

uint32_t Machine::free_text_of(const Item& item) const {
  const State& state = automaton_.states[item.state];
  if (state.free_text == FreeText::none) return 0;
  if (state.free_text == FreeText::unbounded) return kUnbounded;
  const Frame& frame = frames_[item.stack];
  if (state.free_text == FreeText::limited) {
    const uint32_t most = automaton_.counters[frame.code & ~kIsCounter].counted->most();
    return most == kUnbounded ? kUnbounded : most - frame.count + 1;
  }
  return frame.count == 0 ? 0 : automaton_.loops[frame.code].most - frame.count + 1;
}

size_t Machine::bytes() const {
  constexpr size_t kMapEntry = 48;
  return table_.capacity() * sizeof(ConfigId) + items_.capacity() * sizeof(Item) +
         configs_.capacity() * (sizeof(Config) + kMapEntry) +
         frames_.capacity() * (sizeof(Frame) * 2 + kMapEntry);
}

}  // namespace tenon::grammar
