// A grammar at work on a vocabulary: the machine and the masks that were made, shared by everyone
// who follows the same grammar. One at a time works on it; most masks are found ready.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/grammar/grammar.h"
#include "core/grammar/matching/machine.h"
#include "core/grammar/matching/run.h"
#include "core/grammar/vocabulary.h"

namespace tenon::grammar {

// What was found out so far. When it has grown too large a new one is begun; matchers that still
// point into the old one carry their configurations over.
struct Findings {
  explicit Findings(const Automaton& automaton) : machine(automaton) {}

  Machine machine;
  std::unordered_map<ConfigId, ConfigId> alike;  // whose mask is the same
  std::unordered_map<ConfigId, std::vector<uint64_t>> masks;
  size_t mask_bytes = 0;
};

class Runtime {
 public:
  // The memory that findings may take until they are begun anew.
  static constexpr size_t kMachineBytes = size_t{32} << 20;
  static constexpr size_t kMaskBytes = size_t{32} << 20;

  Runtime(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary);

  const Grammar& grammar() const { return *grammar_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // Held by whoever calls what follows.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  // Those to work with, which are new ones when the old ones are too large.
  const std::shared_ptr<Findings>& findings();
  // The tokens that `config` can go on with, into [words] `mask`. Error: failed, the grammar has
  // too many readings here.
  Status fill_mask(ConfigId config, std::span<uint64_t> mask);

 private:
  ConfigId alike(ConfigId config);
  Status make_mask(ConfigId config, std::vector<uint64_t>& mask);
  // Where few plain characters may follow, whatever they are. False where it took too long.
  bool fill_short_text(ConfigId config, std::vector<uint64_t>& mask);
  // Where runs of characters begin that lead on together (run.h), after a space or without one.
  // False where that would not be less work; `done` is false where it took too long.
  bool fill_runs(ConfigId config, std::vector<uint64_t>& mask, bool& done);
  // add(tokens) for those that may leave `run` by `byte`.
  template <typename Add>
  void add_exits(const TokenIndex& index, const Run& run, uint8_t byte, Add&& add);
  bool walk_tries(ConfigId config, std::vector<uint64_t>& mask);
  // These tokens, one at a time. False as above.
  bool walk_each(std::span<const TokenId> tokens, ConfigId config, std::vector<uint64_t>& mask);
  // Whether there is room and time for more.
  bool may_go_on() const;
  // Those that begin with this byte, or with a space and it.
  bool walk_beginning(bool behind_space, uint8_t byte, ConfigId config,
                      std::vector<uint64_t>& mask);
  // The tokens of one trie, into the mask. False where it took too long.
  bool walk_all(const Trie& trie, ConfigId config, std::vector<uint64_t>& mask);
  // … of these nodes, which are a subtree or several side by side; path_ has what leads to them.
  bool walk(const Trie& trie, uint32_t begin, uint32_t end, std::vector<uint64_t>& mask);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::mutex mutex_;
  std::shared_ptr<Findings> findings_;
  std::vector<ConfigId> path_;  // [depth of the vocabulary + 1]
  uint64_t work_limit_ = 0;
};

}  // namespace tenon::grammar
