#include "core/compare/cluster/routing.h"

#include <algorithm>
#include <array>

namespace tenon::compare {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"round_robin", "least_load", "prefix",
                                                    "session"};
constexpr size_t kBlockTokens = 32;    // of beginnings that are told apart
constexpr size_t kSessionTokens = 64;  // of a prompt, that tell a session
// A machine with so much more to do than the least loaded one gets nothing for its prefixes.
constexpr double kFarAbove = 1.5;
constexpr uint64_t kFarTokens = 4096;

uint64_t mixed(uint64_t hash, TokenId token) {
  // FNV-1a (Fowler, Noll and Vo), a token at a time.
  return (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3u;
}
constexpr uint64_t kBegin = 0xcbf29ce484222325u;

size_t least_loaded(std::span<const MachineLoad> loads) {
  const auto less = [](const MachineLoad& a, const MachineLoad& b) {
    return a.down != b.down ? b.down : a.tokens < b.tokens;
  };
  return static_cast<size_t>(std::ranges::min_element(loads, less) - loads.begin());
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

size_t Router::choose(std::span<const TokenId> prompt, std::span<const MachineLoad> loads) {
  switch (routing_) {
    case Routing::round_robin:
      while (loads[next_ % loads.size()].down) ++next_;
      return next_++ % loads.size();
    case Routing::least_load:
      return least_loaded(loads);
    case Routing::prefix:
      return by_prefix(prompt, loads);
    case Routing::session:
      break;
  }
  uint64_t hash = kBegin;
  for (const TokenId token : prompt.first(std::min(prompt.size(), kSessionTokens))) {
    hash = mixed(hash, token);
  }
  size_t machine = (hash >> 32) % loads.size();
  while (loads[machine].down) machine = (machine + 1) % loads.size();
  return machine;
}

size_t Router::by_prefix(std::span<const TokenId> prompt, std::span<const MachineLoad> loads) {
  std::vector<size_t> matched(loads.size());
  std::vector<uint64_t> hashes;
  uint64_t hash = kBegin;
  for (size_t i = 0; i < prompt.size(); ++i) {
    hash = mixed(hash, prompt[i]);
    if ((i + 1) % kBlockTokens != 0) continue;
    hashes.push_back(hash);
    for (size_t machine = 0; machine < loads.size(); ++machine) {
      const bool whole = matched[machine] + 1 == hashes.size();
      if (whole && sent_[machine].contains(hash)) ++matched[machine];
    }
  }
  const size_t least = least_loaded(loads);
  const auto best = static_cast<size_t>(std::ranges::max_element(matched) - matched.begin());
  const bool enough =
      !loads[best].down && matched[best] * kBlockTokens * 2 >= prompt.size() && matched[best] > 0;
  const auto bound = static_cast<uint64_t>(kFarAbove * static_cast<double>(loads[least].tokens));
  const size_t chosen = enough && loads[best].tokens <= bound + kFarTokens ? best : least;
  sent_[chosen].insert(hashes.begin(), hashes.end());
  return chosen;
}

}  // namespace tenon::compare
