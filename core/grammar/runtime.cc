#include "core/grammar/runtime.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {
namespace {

constexpr uint64_t kMostWork = 4'000'000;  // pairs looked at for one mask: some 100 ms
constexpr size_t kMostMachineBytes = 4 * Runtime::kMachineBytes;  // … before it is given up

void set_bit(std::vector<uint64_t>& mask, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  mask[id / 64] |= uint64_t{1} << (id % 64);
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

Status Runtime::make_mask(ConfigId config, std::vector<uint64_t>& mask) {
  mask.assign(vocabulary_->words(), 0);
  Machine& machine = findings_->machine;
  const uint32_t free_text = machine.free_text(config);
  work_limit_ = machine.work() + kMostWork;
  (void)machine.take_overflow();
  bool done = true;
  for (const Trie& trie : vocabulary_->tries()) {
    if (trie.is_plain() && free_text >= trie.nodes.front().most_below) {
      for (size_t word = 0; word < mask.size(); ++word) mask[word] |= trie.all[word];
    } else {
      done = done && walk(trie, config, mask);
    }
  }
  if (done && !machine.take_overflow()) return {};
  return failed(
      "the grammar has too many readings of the text so far – a few at a time are possible – write "
      "it so that fewer of its parts match the same text");
}

bool Runtime::walk(const Trie& trie, ConfigId config, std::vector<uint64_t>& mask) {
  Machine& machine = findings_->machine;
  path_[0] = config;
  const auto end = static_cast<uint32_t>(trie.nodes.size() - 1);
  const bool plain = trie.is_plain();
  ConfigId idle_config = kDeadConfig;  // whose idle bytes these are
  AsciiSet idle;
  for (uint32_t at = 1; at < end;) {
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
      // As this byte changed nothing, those behind it may not either.
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
