// An automaton at work: what can come next after some bytes, as one number.
//
// A configuration is the set of (state, stack) pairs that some text leads to. Each is kept once and
// gets a number; where a byte leads is found out when it is first asked for, and then stands in a
// table. So texts that look alike cost a table lookup a byte, as a DFA would, though stacks may
// grow without end. Stacks are shared lists, each kept once too.
//
// Not thread safe (runtime.h has the lock). Memory grows with what was seen: see bytes().
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/grammar/automaton/ascii_set.h"
#include "core/grammar/automaton/automaton.h"

namespace tenon::grammar {

using ConfigId = uint32_t;
constexpr ConfigId kDeadConfig = 0;  // nothing may follow, and the text is not whole

class Machine {
 public:
  // The automaton outlives the machine.
  explicit Machine(const Automaton& automaton);

  ConfigId start() const { return start_; }
  ConfigId step(ConfigId config, uint8_t byte) {
    const size_t entry = config * stride_ + automaton_.class_of[byte];
    const ConfigId next = table_[entry];
    return next != kUnknown ? next : find_step(config, entry, byte);
  }
  ConfigId walk(ConfigId config, std::string_view bytes);

  // The text may end here.
  bool accepts(ConfigId config) const { return configs_[config].accepts; }
  // … and must, as no byte may follow.
  bool is_finished(ConfigId config) const {
    return configs_[config].accepts && configs_[config].count == 0;
  }
  // Any so many plain_characters() may follow; kUnbounded = any number of them.
  uint32_t free_text(ConfigId config) const { return configs_[config].free_text; }
  // … and no other reading of the text takes any of them.
  bool has_only_free_text(ConfigId config) const;

  // The bytes of ASCII that change nothing. Found out when it is first asked for.
  const AsciiSet& idle_bytes(ConfigId config);

  // A configuration that takes the same texts of up to `horizon` bytes: what is counted is told
  // apart near its bounds alone.
  ConfigId alike(ConfigId config, uint32_t horizon);

  // The configuration of another machine of the same automaton.
  ConfigId import(const Machine& other, ConfigId config);

  size_t bytes() const;
  size_t configs() const { return configs_.size(); }
  // (state, stack) pairs looked at so far: what time is spent on.
  uint64_t work() const { return work_; }
  // A configuration was left out because it had too many pairs: what seems dead may not be. Asking
  // forgets it.
  bool take_overflow() { return std::exchange(overflow_, false); }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint32_t kIsCounter = uint32_t{1} << 31;
  using FrameId = uint32_t;  // 0 = an empty stack

  struct Frame {
    uint32_t code = 0;   // the state to return to, a loop, or a counter and kIsCounter
    uint32_t count = 0;  // of a loop: how often its body was entered; of a counter: the edges that
                         // were taken, and one; 0 = a state
    FrameId below = 0;
    uint32_t depth = 0;
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    size_t operator()(const Frame& frame) const;
  };
  struct Item {
    uint32_t state = 0;
    FrameId stack = 0;
    auto operator<=>(const Item&) const = default;
  };
  struct Config {
    uint32_t first = 0, count = 0;  // in items_
    uint32_t free_text = 0;
    uint32_t next_alike = 0;  // of the same hash
    bool accepts = false;
  };

  ConfigId find_step(ConfigId config, size_t entry, uint8_t byte);
  void open(uint32_t state, FrameId stack);
  void close();
  void visit(Item item);
  void leave(FrameId stack);
  void run_loop(uint32_t loop, uint32_t ran, FrameId below);
  void arrive(uint32_t node, uint32_t taken, FrameId below);
  bool may_arrive(uint32_t node, FrameId stack) const;
  FrameId push(uint32_t code, uint32_t count, FrameId below);
  FrameId alike_stack(FrameId stack, uint32_t horizon);
  uint32_t alike_count(const Frame& frame, uint32_t horizon) const;
  ConfigId intern();
  uint32_t free_text_of(const Item& item) const;

  const Automaton& automaton_;
  const size_t stride_;
  ConfigId start_ = 0;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, FrameId, FrameHash> frame_ids_;
  std::vector<Item> items_;
  std::vector<Config> configs_;
  std::unordered_map<uint64_t, ConfigId> by_hash_;  // the first of each
  std::vector<ConfigId> table_;                     // [configs, stride]
  std::unordered_map<ConfigId, AsciiSet> idle_bytes_;
  uint64_t work_ = 0;
  bool overflow_ = false;

  // Of the closure that is being made.
  std::vector<Item> pending_, made_;
  std::vector<uint64_t> seen_;     // a hash table of items, by open addressing
  std::vector<uint32_t> seen_in_;  // … in which closure
  uint32_t closure_ = 0, seen_count_ = 0;
  bool accepts_ = false;
};

}  // namespace tenon::grammar
