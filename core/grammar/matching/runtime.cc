#include "core/grammar/matching/runtime.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {
namespace {

constexpr uint64_t kMostWork = 4'000'000;  // pairs looked at for one mask: some 100 ms
// With more room than that for any text, whole tries are allowed at once.
constexpr uint32_t kMuchFreeText = 32;
// Of the vocabulary, the part that may be tried a token at a time: all at once cost less a token.
constexpr size_t kWorthwhilePart = 6;
// Of so many tokens that leave a run by the same byte, those that cannot go on after it are left
// out where it leads to so few places.
constexpr size_t kManyTokens = 128;
constexpr int kFewTargets = 4;
constexpr size_t kMostMachineBytes = 4 * Runtime::kMachineBytes;  // … before it is given up

// Plain characters (code_set.h).
AsciiSet plain_ascii() {
  AsciiSet set;
  for (uint8_t byte = 0x20; byte < 0x80; ++byte) {
    if (byte != '"' && byte != '\\') set.add(byte);
  }
  set.others = true;
  return set;
}

void set_bit(std::vector<uint64_t>& mask, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  mask[id / 64] |= uint64_t{1} << (id % 64);
}

void clear_bit(std::vector<uint64_t>& mask, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  mask[id / 64] &= ~(uint64_t{1} << (id % 64));
}

bool takes_continuation(Machine& machine, ConfigId config) {
  for (uint8_t byte = 0x80; byte < 0xc0; ++byte) {
    if (machine.step(config, byte) != kDeadConfig) return true;
  }
  return false;
}

}  // namespace

Runtime::Runtime(std::shared_ptr<const Grammar> grammar,
                 std::shared_ptr<const Vocabulary> vocabulary)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      findings_(std::make_shared<Findings>(grammar_->automaton())),
      path_(size_t{vocabulary_->depth()} + 1) {}

const std::shared_ptr<Findings>& Runtime::findings() {
  if (findings_->machine.bytes() > kMachineBytes) {
    findings_ = std::make_shared<Findings>(grammar_->automaton());
  }
  return findings_;
}

Status Runtime::fill_mask(ConfigId config, std::span<uint64_t> mask) {
  Findings& findings = *findings_;
  config = alike(config);
  auto found = findings.masks.find(config);
  if (found == findings.masks.end()) {
    std::vector<uint64_t> made;
    TENON_RETURN_IF_ERROR(make_mask(config, made));
    const size_t bytes = made.size() * sizeof(uint64_t);
    if (findings.mask_bytes + bytes > kMaskBytes) {
      findings.masks.clear();
      findings.mask_bytes = 0;
    }
    findings.mask_bytes += bytes;
    found = findings.masks.emplace(config, std::move(made)).first;
  }
  std::copy(found->second.begin(), found->second.end(), mask.begin());
  return {};
}

// Tokens end within the horizon, and how much free text follows matters no further than there.
ConfigId Runtime::alike(ConfigId config) {
  const auto [place, is_new] = findings_->alike.try_emplace(config, config);
  const uint32_t horizon = std::max(vocabulary_->depth(), kMuchFreeText) + 1;
  if (is_new) place->second = findings_->machine.alike(config, horizon);
  return place->second;
}

Status Runtime::make_mask(ConfigId config, std::vector<uint64_t>& mask) {
  mask.assign(vocabulary_->words(), 0);
  Machine& machine = findings_->machine;
  const uint32_t free_text = machine.free_text(config);
  work_limit_ = machine.work() + kMostWork;
  (void)machine.take_overflow();
  bool done = true;
  if (free_text > 0 && free_text < kMuchFreeText && machine.has_only_free_text(config)) {
    done = fill_short_text(config, mask);
  } else if (free_text > 0 || !fill_runs(config, mask, done)) {
    done = walk_tries(config, mask);
  }
  if (done && !machine.take_overflow()) return {};
  return failed(
      "the grammar has too many readings of the text so far – a few at a time are possible – write "
      "it so that fewer of its parts match the same text");
}

bool Runtime::walk_tries(ConfigId config, std::vector<uint64_t>& mask) {
  const uint32_t free_text = findings_->machine.free_text(config);
  return std::all_of(vocabulary_->tries().begin(), vocabulary_->tries().end(),
                     [&](const Trie& trie) {
                       if (!trie.is_plain() || free_text < trie.nodes.front().most_below) {
                         return walk_all(trie, config, mask);
                       }
                       for (size_t word = 0; word < mask.size(); ++word)
                         mask[word] |= trie.all[word];
                       return true;
                     });
}

bool Runtime::fill_short_text(ConfigId config, std::vector<uint64_t>& mask) {
  const uint32_t free_text = findings_->machine.free_text(config);
  for (const bool behind_space : {false, true}) {
    const TokenIndex& index = vocabulary_->index(behind_space);
    const uint32_t room =
        std::min(behind_space ? free_text - 1 : free_text, TokenIndex::kMostCharacters);
    const auto plain = index.within(plain_ascii());
    const TokenIndex::Bits& at_most = index.at_most(room);
    for (size_t word = 0; word < mask.size(); ++word) mask[word] |= (*plain)[word] & at_most[word];
    const bool may_be_long = free_text > TokenIndex::kMostCharacters;
    if (may_be_long && !walk_each(index.long_ones(), config, mask)) return false;
  }
  return std::all_of(
      vocabulary_->tries().begin(), vocabulary_->tries().end(),
      [&](const Trie& trie) { return trie.is_plain() || walk_all(trie, config, mask); });
}

bool Runtime::fill_runs(ConfigId config, std::vector<uint64_t>& mask, bool& done) {
  Machine& machine = findings_->machine;
  std::optional<Run> runs[2];
  std::vector<std::span<const TokenId>> others;  // that are tried one at a time
  size_t count = 0;
  const auto add = [&](std::span<const TokenId> tokens) {
    others.push_back(tokens);
    count += tokens.size();
  };
  for (const bool behind_space : {false, true}) {
    const ConfigId from = behind_space ? machine.step(config, ' ') : config;
    if (from == kDeadConfig) continue;
    const auto& run = runs[behind_space ? 1 : 0] =
        find_run(machine, grammar_->automaton(), from, TokenIndex::kMostCharacters);
    if (!run) return false;
    const TokenIndex& index = vocabulary_->index(behind_space);
    add(index.long_ones());
    if (run->characters.others) {
      add(takes_continuation(machine, from) ? index.broken() : index.broken_behind_whole());
    }
    if (run->ways_out.others) add(index.beyond_ascii());
    for (uint8_t byte = 0; byte < 128; ++byte) {
      if (run->ways_out.has(byte)) add_exits(index, *run, byte, add);
    }
  }
  if (count > vocabulary_->size() / kWorthwhilePart) return false;
  for (const bool behind_space : {false, true}) {
    const auto& run = runs[behind_space ? 1 : 0];
    if (!run) continue;
    const TokenIndex& index = vocabulary_->index(behind_space);
    const auto within = index.within(run->characters);
    const TokenIndex::Bits& at_most = index.at_most(run->most);
    TokenIndex::Bits allowed = *within;
    for (size_t word = 0; word < mask.size(); ++word) allowed[word] &= at_most[word];
    for (uint8_t byte = 0; byte < 128; ++byte) {
      if (!run->elsewhere.has(byte)) continue;
      for (const TokenId token : index.beginning(byte)) clear_bit(allowed, token);
    }
    for (size_t word = 0; word < mask.size(); ++word) mask[word] |= allowed[word];
  }
  done = std::all_of(others.begin(), others.end(),
                     [&](const auto& tokens) { return walk_each(tokens, config, mask); });
  for (const bool behind_space : {false, true}) {
    const auto& run = runs[behind_space ? 1 : 0];
    for (uint8_t byte = 0; byte < 128 && run && done; ++byte) {
      if (run->elsewhere.has(byte)) done = walk_beginning(behind_space, byte, config, mask);
    }
  }
  return true;
}

bool Runtime::walk_beginning(bool behind_space, uint8_t byte, ConfigId config,
                             std::vector<uint64_t>& mask) {
  const auto child = [](const Trie& trie, uint32_t at, uint32_t end, uint8_t of) {
    while (at < end && trie.nodes[at].byte != of) at = trie.nodes[at].subtree_end;
    return at;
  };
  const ConfigId from = behind_space ? findings_->machine.step(config, ' ') : config;
  return std::all_of(vocabulary_->tries().begin(), vocabulary_->tries().end(),
                     [&](const Trie& trie) {
                       uint32_t at = 1, end = static_cast<uint32_t>(trie.nodes.size() - 1);
                       if (behind_space) {
                         at = child(trie, at, end, ' ');
                         if (at == end) return true;
                         end = trie.nodes[at++].subtree_end;
                       }
                       at = child(trie, at, end, byte);
                       if (at == end) return true;
                       path_[trie.nodes[at].depth - 1u] = from;
                       return walk(trie, at, trie.nodes[at].subtree_end, mask);
                     });
}

template <typename Add>
void Runtime::add_exits(const TokenIndex& index, const Run& run, uint8_t byte, Add&& add) {
  const auto tokens = index.with(byte);
  const auto leads_out = [&](const Run::Exit& exit) { return exit.byte == byte; };
  const auto targets = std::count_if(run.exits.begin(), run.exits.end(), leads_out);
  if (tokens.size() < kManyTokens || targets > kFewTargets) return add(tokens);
  AsciiSet next;
  for (const Run::Exit& exit : run.exits) {
    if (leads_out(exit)) next.add(following_bytes(findings_->machine, exit.target));
  }
  add(index.with(byte, TokenIndex::kEnd));
  if (next.others) add(index.with(byte, TokenIndex::kBeyond));
  for (uint8_t behind = 0; behind < 128; ++behind) {
    if (next.has(behind)) add(index.with(byte, behind));
  }
}

bool Runtime::walk_each(std::span<const TokenId> tokens, ConfigId config,
                        std::vector<uint64_t>& mask) {
  return std::all_of(tokens.begin(), tokens.end(), [&](TokenId token) {
    const std::string_view bytes = vocabulary_->bytes(token);
    if (findings_->machine.walk(config, bytes) != kDeadConfig) set_bit(mask, token);
    return may_go_on();
  });
}

bool Runtime::may_go_on() const {
  const Machine& machine = findings_->machine;
  return machine.work() <= work_limit_ && machine.bytes() <= kMostMachineBytes;
}

bool Runtime::walk_all(const Trie& trie, ConfigId config, std::vector<uint64_t>& mask) {
  path_[0] = config;
  return walk(trie, 1, static_cast<uint32_t>(trie.nodes.size() - 1), mask);
}

bool Runtime::walk(const Trie& trie, uint32_t begin, uint32_t end, std::vector<uint64_t>& mask) {
  Machine& machine = findings_->machine;
  const bool plain = trie.is_plain();
  ConfigId idle_config = kDeadConfig;  // whose idle bytes these are
  AsciiSet idle;
  for (uint32_t at = begin; at < end;) {
    const TrieNode& node = trie.nodes[at];
    const ConfigId here = machine.step(path_[node.depth - 1u], node.byte);
    if (here == kDeadConfig) {
      at = node.subtree_end;
      continue;
    }
    path_[node.depth] = here;
    uint32_t next = at + 1;
    if (plain && node.whole && machine.free_text(here) >= node.most_below && node.most_below > 0) {
      next = node.subtree_end;
    } else if (here == path_[node.depth - 1u]) {
      // As this byte changed nothing, those after it may not either.
      if (here != idle_config) idle = machine.idle_bytes(idle_config = here);
      if (node.bytes_below.is_within(idle)) next = node.subtree_end;
    }
    for (uint32_t i = node.first_token; i < trie.nodes[next].first_token; ++i) {
      set_bit(mask, trie.tokens[i]);
    }
    at = next;
    if (machine.work() > work_limit_) return false;
    if ((at & 0xff) == 0 && machine.bytes() > kMostMachineBytes) return false;
  }
  return true;
}

}  // namespace tenon::grammar
