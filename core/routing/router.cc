#include "core/routing/router.h"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"round_robin", "least_load", "prefix",
                                                    "session"};
constexpr size_t kBlockTokens = 32;    // of beginnings that are told apart
constexpr size_t kSessionTokens = 64;  // of a prompt, that tell a session
// A machine with so much more to do than the least loaded one gets nothing for its prefixes.
constexpr double kFarAbove = 1.5;
constexpr uint64_t kFarTokens = 4096;

// FNV-1a (Fowler, Noll and Vo), a token or a character at a time.
uint64_t mixed(uint64_t hash, uint32_t token) {
  return (hash ^ token) * 0x100000001b3u;
}
constexpr uint64_t kBegin = 0xcbf29ce484222325u;

uint64_t begin_with(uint64_t salt) {
  if (salt == 0) return kBegin;
  return mixed(mixed(kBegin, static_cast<uint32_t>(salt)), static_cast<uint32_t>(salt >> 32));
}

size_t least_loaded(std::span<const MachineLoad> loads) {
  const auto less = [](const MachineLoad& a, const MachineLoad& b) {
    return a.out != b.out ? b.out : a.tokens < b.tokens;
  };
  return static_cast<size_t>(std::ranges::min_element(loads, less) - loads.begin());
}

size_t not_out(size_t machine, std::span<const MachineLoad> loads) {
  size_t tried = 0;
  while (loads[machine].out && tried++ < loads.size()) machine = (machine + 1) % loads.size();
  return machine;
}

// Of each whole block of a prompt, with all that comes before it.
std::vector<uint64_t> hashes_of(std::span<const TokenId> prompt, uint64_t salt) {
  std::vector<uint64_t> hashes;
  uint64_t hash = begin_with(salt);
  for (size_t i = 0; i < prompt.size(); ++i) {
    hash = mixed(hash, static_cast<uint32_t>(prompt[i]));
    if ((i + 1) % kBlockTokens == 0) hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

std::string_view routing_name(Routing routing) {
  return kNames[static_cast<size_t>(routing)];
}

std::optional<Routing> parse_routing(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Routing>(found - kNames.begin());
}

void SentBlocks::insert(std::span<const uint64_t> hashes) {
  for (const uint64_t hash : hashes) {
    if (newer_.size() >= most_ / 2) {
      older_ = std::move(newer_);
      newer_.clear();
    }
    newer_.insert(hash);
  }
}

size_t Router::choose(std::span<const TokenId> prompt, std::span<const MachineLoad> loads,
                      uint64_t salt) {
  switch (routing_) {
    case Routing::round_robin:
      return not_out(next_++ % loads.size(), loads);
    case Routing::least_load:
      return least_loaded(loads);
    case Routing::prefix:
      return by_prefix(prompt, loads, salt);
    case Routing::session:
      break;
  }
  uint64_t hash = begin_with(salt);
  for (const TokenId token : prompt.first(std::min(prompt.size(), kSessionTokens))) {
    hash = mixed(hash, static_cast<uint32_t>(token));
  }
  return not_out((hash >> 32) % loads.size(), loads);
}

size_t Router::of_session(std::string_view name, std::span<const MachineLoad> loads) {
  // Rendezvous hashing (Thaler and Ravishankar): the machine with the highest hash has it.
  size_t best = 0;
  uint64_t highest = 0;
  for (size_t machine = 0; machine < loads.size(); ++machine) {
    uint64_t hash = kBegin;
    for (const char c : name) hash = mixed(hash, static_cast<unsigned char>(c));
    hash = mixed(hash, static_cast<uint32_t>(machine + 1));
    hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u;  // its high bits depend on all of it
    if (loads[machine].out || hash < highest) continue;
    best = machine;
    highest = hash;
  }
  return best;
}

void Router::note_sent(std::span<const TokenId> prompt, size_t machine, uint64_t salt) {
  sent_[machine].insert(hashes_of(prompt, salt));
}

size_t Router::by_prefix(std::span<const TokenId> prompt, std::span<const MachineLoad> loads,
                         uint64_t salt) {
  const std::vector<uint64_t> hashes = hashes_of(prompt, salt);
  std::vector<size_t> matched(loads.size());
  for (size_t machine = 0; machine < loads.size(); ++machine) {
    size_t& blocks = matched[machine];
    while (!loads[machine].out && blocks < hashes.size() &&
           sent_[machine].contains(hashes[blocks])) {
      ++blocks;
    }
  }
  const size_t least = least_loaded(loads);
  const auto best = static_cast<size_t>(std::ranges::max_element(matched) - matched.begin());
  const bool enough = matched[best] * kBlockTokens * 2 >= prompt.size() && matched[best] > 0;
  const auto bound = static_cast<uint64_t>(kFarAbove * static_cast<double>(loads[least].tokens));
  const size_t chosen = enough && loads[best].tokens <= bound + kFarTokens ? best : least;
  sent_[chosen].insert(hashes);
  return chosen;
}

}  // namespace tenon
