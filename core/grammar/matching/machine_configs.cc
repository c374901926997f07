// Configurations next to each other: which bytes leave one as it is, which other one is as good.
#include <algorithm>

#include "core/grammar/automaton/automaton_check.h"
#include "core/grammar/matching/machine.h"

namespace tenon::grammar {

bool Machine::has_only_free_text(ConfigId config) const {
  const auto is_plain = [](uint32_t byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; };
  const Config& of = configs_[config];
  for (uint32_t i = 0; i < of.count; ++i) {
    const Item& item = items_[of.first + i];
    const State& state = automaton_.states[item.state];
    if (state.free_text != FreeText::none && free_text_of(item) == of.free_text) continue;
    for (uint32_t e = 0; e < state.b; ++e) {
      const Edge& edge = automaton_.edges[state.a + e];
      for (uint32_t byte = edge.first; byte <= edge.last; ++byte) {
        if (is_plain(byte)) return false;
      }
    }
  }
  return true;
}

const AsciiSet& Machine::idle_bytes(ConfigId config) {
  const auto [place, is_new] = idle_bytes_.try_emplace(config);
  for (uint8_t byte = 0; is_new && byte < 128; ++byte) {
    if (step(config, byte) == config) place->second.add(byte);
  }
  return place->second;
}

ConfigId Machine::import(const Machine& other, ConfigId config) {
  if (config == kDeadConfig) return kDeadConfig;
  overflow_ = false;
  const Config& from = other.configs_[config];
  made_.clear();
  accepts_ = from.accepts;
  for (uint32_t i = 0; i < from.count; ++i) {
    const Item& item = other.items_[from.first + i];
    std::vector<FrameId> chain;
    for (FrameId at = item.stack; at != 0; at = other.frames_[at].below) chain.push_back(at);
    FrameId stack = 0;
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      stack = push(other.frames_[*at].code, other.frames_[*at].count, stack);
    }
    made_.push_back({item.state, stack});
  }
  return intern();
}

ConfigId Machine::alike(ConfigId config, uint32_t horizon) {
  constexpr uint32_t kMostAlike = 16;  // pairs; with many, what is merged may hide an overflow
  const Config from = configs_[config];
  if (from.count > kMostAlike) return config;
  std::vector<Item> items;
  bool is_other = false;
  for (uint32_t i = 0; i < from.count; ++i) {
    const Item item = items_[from.first + i];
    items.push_back({item.state, alike_stack(item.stack, horizon)});
    is_other = is_other || items.back().stack != item.stack;
  }
  if (!is_other) return config;
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  made_ = std::move(items);
  accepts_ = from.accepts;
  const bool overflow_before = std::exchange(overflow_, false);
  const ConfigId found = intern();
  overflow_ = overflow_before;
  return found;
}

Machine::FrameId Machine::alike_stack(FrameId stack, uint32_t horizon) {
  std::vector<FrameId> chain;
  for (FrameId at = stack; at != 0; at = frames_[at].below) chain.push_back(at);
  FrameId made = 0;
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    const Frame frame = frames_[*at];
    made = push(frame.code, alike_count(frame, horizon), made);
  }
  return made;
}

// A loop whose body reads something, so that it runs once a byte at most.
uint32_t Machine::alike_count(const Frame& frame, uint32_t horizon) const {
  if (frame.count == 0) return 0;
  if ((frame.code & kIsCounter) != 0) {
    const Counter& counter = automaton_.counters[frame.code & ~kIsCounter];
    return counter.counted->alike(frame.count - 1, horizon) + 1;
  }
  const Loop& loop = automaton_.loops[frame.code];
  if (loop.most <= kMostEmptyRounds) return frame.count;
  if (frame.count >= loop.least) {
    return loop.most - frame.count > horizon ? std::max(loop.least, 1u) : frame.count;
  }
  return loop.least - frame.count > horizon ? 1 : frame.count;
}

}  // namespace tenon::grammar
