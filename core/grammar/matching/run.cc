#include "core/grammar/matching/run.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tenon::grammar {
namespace {

constexpr uint32_t kFewestLetters = 8;
constexpr int kMostTries = 4;
constexpr uint8_t kBeyond = 0x80, kBehindContinuation = 0xc0;

// Characters beyond ASCII by their first two bytes (Unicode, table 3-7).
struct Utf8Row {
  uint8_t first, last;                // of the lead
  uint8_t second_first, second_last;  // of the next byte
  uint32_t rest;                      // continuation bytes after it
};
constexpr Utf8Row kUtf8Rows[] = {{0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1},
                                 {0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
                                 {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
                                 {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2}};

class RunSearch {
 public:
  RunSearch(Machine& machine, const Automaton& automaton)
      : machine_(machine), automaton_(automaton) {}

  std::optional<Run> find(ConfigId from, uint32_t most) {
    AsciiSet all;
    all.low = all.high = ~uint64_t{0};
    AsciiSet set = largest(from, all);
    set.others = true;
    if (std::optional<Run> wider = find_wider(from, most, set)) return wider;
    for (int tries = 0; tries < kMostTries; ++tries) {
      if (letters_in(set) < kFewestLetters) return std::nullopt;
      Run run;
      run.characters = set;
      if (follow(from, most, set, run)) return run;
      set = run.characters;
    }
    return std::nullopt;
  }

 private:
  // A run that takes more after its first character than as that.
  std::optional<Run> find_wider(ConfigId from, uint32_t most, AsciiSet first) {
    if (letters_in(first) < kFewestLetters) return std::nullopt;
    const ConfigId next = machine_.step(from, first_of(first));
    if (next == from) return std::nullopt;
    AsciiSet all;
    all.low = all.high = ~uint64_t{0};
    AsciiSet set = largest(next, all);
    AsciiSet elsewhere;
    elsewhere.low = set.low & ~first.low;
    elsewhere.high = set.high & ~first.high;
    const bool holds_first = (first.low & ~set.low) == 0 && (first.high & ~set.high) == 0;
    if (!holds_first || (elsewhere.low == 0 && elsewhere.high == 0)) return std::nullopt;
    for (const bool others : {true, false}) {
      first.others = set.others = others;
      Run run;
      run.characters = set;
      run.elsewhere = elsewhere;
      if (follow(from, most, first, run)) return run;
    }
    return std::nullopt;
  }

  static uint32_t letters_in(const AsciiSet& set) {
    uint32_t count = 0;
    for (uint8_t byte = 'a'; byte <= 'z'; ++byte) count += set.has(byte) ? 1 : 0;
    return count;
  }

  // Of `set`, those that lead where most of its letters lead.
  AsciiSet largest(ConfigId from, const AsciiSet& set) {
    std::vector<std::pair<ConfigId, uint32_t>> targets;  // and how many letters lead there
    for (uint8_t byte = 'a'; byte <= 'z'; ++byte) {
      const ConfigId target = set.has(byte) ? machine_.step(from, byte) : kDeadConfig;
      if (target == kDeadConfig) continue;
      const auto known = std::find_if(targets.begin(), targets.end(),
                                      [&](const auto& other) { return other.first == target; });
      if (known == targets.end()) {
        targets.emplace_back(target, 1);
      } else {
        ++known->second;
      }
    }
    AsciiSet same;
    const auto most =
        std::max_element(targets.begin(), targets.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == targets.end()) return same;
    for (uint8_t byte = 0; byte < kBeyond; ++byte) {
      if (set.has(byte) && machine_.step(from, byte) == most->first) same.add(byte);
    }
    return same;
  }

  // Walks the run, whose first character is of `expected`. False: its characters part on the way;
  // those of `run` that stay together are left in it.
  bool follow(ConfigId from, uint32_t most, AsciiSet expected, Run& run) {
    ConfigId at = from;
    for (;; expected = run.characters) {
      const AsciiSet same = largest(at, expected);
      const bool is_over = same.low == 0 && same.high == 0;
      if (is_over && !leads_nowhere(at, expected)) return shrink(same, run);
      if (!is_over && (same.low != expected.low || same.high != expected.high)) {
        return shrink(same, run);
      }
      const ConfigId next = is_over ? kDeadConfig : machine_.step(at, first_of(same));
      if (run.characters.others && !others_lead_to(at, next)) {
        run.characters.others = false;
        return false;
      }
      note_ways_out(at, run);
      if (is_over) return true;
      if (next == at) {
        run.most = most;
        return true;
      }
      if (++run.most > most) {
        run.most = most;
        return true;
      }
      at = next;
    }
  }

  static bool shrink(const AsciiSet& same, Run& run) {
    const bool others = run.characters.others;
    run.characters = same;
    run.characters.others = others;
    return false;
  }

  static uint8_t first_of(const AsciiSet& set) {
    uint8_t byte = 0;
    while (!set.has(byte)) ++byte;
    return byte;
  }

  bool leads_nowhere(ConfigId at, const AsciiSet& set) {
    for (uint8_t byte = 0; byte < kBeyond; ++byte) {
      if (set.has(byte) && machine_.step(at, byte) != kDeadConfig) return false;
    }
    return true;
  }

  void note_ways_out(ConfigId at, Run& run) {
    for (uint8_t byte = 0; byte < kBeyond; ++byte) {
      if (run.characters.has(byte)) continue;
      const Run::Exit exit{byte, machine_.step(at, byte)};
      if (exit.target == kDeadConfig) continue;
      run.ways_out.add(byte);
      if (std::find(run.exits.begin(), run.exits.end(), exit) == run.exits.end()) {
        run.exits.push_back(exit);
      }
    }
    if (run.characters.others || run.ways_out.others) return;
    run.ways_out.others = !each_class(
        kBeyond, 0xff, [&](uint8_t byte) { return machine_.step(at, byte) == kDeadConfig; });
  }

  // Asks of one byte of each class; whether all say yes.
  template <typename Ask>
  bool each_class(uint8_t first, uint8_t last, Ask&& ask) {
    uint32_t before = UINT32_MAX;
    for (uint32_t byte = first; byte <= last; ++byte) {
      const uint32_t byte_class = automaton_.class_of[byte];
      if (std::exchange(before, byte_class) == byte_class) continue;
      if (!ask(static_cast<uint8_t>(byte))) return false;
    }
    return true;
  }

  // Every character beyond ASCII leads from `at` to `next`. Where that is nowhere, none may begin.
  bool others_lead_to(ConfigId at, ConfigId next) {
    if (next == kDeadConfig) {
      return each_class(kBeyond, 0xff,
                        [&](uint8_t byte) { return machine_.step(at, byte) == kDeadConfig; });
    }
    checked_.clear();
    return std::all_of(std::begin(kUtf8Rows), std::end(kUtf8Rows), [&](const Utf8Row& row) {
      return each_class(row.first, row.last, [&](uint8_t lead) {
        const ConfigId behind = machine_.step(at, lead);
        return each_class(row.second_first, row.second_last, [&](uint8_t second) {
          return rest_leads_to(machine_.step(behind, second), row.rest, next);
        });
      });
    });
  }

  bool rest_leads_to(ConfigId at, uint32_t rest, ConfigId next) {
    if (rest == 0) return at == next;
    if (at == kDeadConfig) return false;
    const uint64_t key = uint64_t{at} << 2 | rest;
    if (std::find(checked_.begin(), checked_.end(), key) != checked_.end()) return true;
    const bool does = each_class(kBeyond, kBehindContinuation - 1, [&](uint8_t byte) {
      return rest_leads_to(machine_.step(at, byte), rest - 1, next);
    });
    if (does) checked_.push_back(key);
    return does;
  }

  Machine& machine_;
  const Automaton& automaton_;
  std::vector<uint64_t> checked_;  // (configuration, bytes left) that do
};

}  // namespace

std::optional<Run> find_run(Machine& machine, const Automaton& automaton, ConfigId from,
                            uint32_t most) {
  return RunSearch(machine, automaton).find(from, most);
}

AsciiSet following_bytes(Machine& machine, ConfigId config) {
  AsciiSet set;
  for (uint32_t byte = 0; byte <= 0xff; ++byte) {
    if (machine.step(config, static_cast<uint8_t>(byte)) != kDeadConfig) {
      set.add(static_cast<uint8_t>(byte));
    }
  }
  return set;
}

}  // namespace tenon::grammar
