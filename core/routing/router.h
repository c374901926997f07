// Which of several engines a request goes to, as the routers before engines decide it: from the
// request, and from what each engine has to do. `tenon serve` routes to its replicas so, and
// simulations to their machines.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tenon {

//   round_robin  one after the other
//   least_load   where fewest tokens are waiting and running; of equals the first
//   prefix       where most of the prompt was sent before, if that is half of it or more and the
//                machine is not loaded far above the least loaded one; else least_load
//   session      always the same machine for the same beginning of a prompt
enum class Routing : uint8_t { round_robin = 0, least_load = 1, prefix = 2, session = 3 };
std::string_view routing_name(Routing routing);
std::optional<Routing> parse_routing(std::string_view name);

// What a machine has to do now.
struct MachineLoad {
  uint32_t requests = 0;
  uint64_t tokens = 0;  // of their prompts and, at most, answers
  bool out = false;     // takes none
};

// Hashes of what was sent somewhere; of very many the latest.
class SentBlocks {
 public:
  explicit SentBlocks(size_t most) : most_(most) {}
  bool contains(uint64_t hash) const { return newer_.contains(hash) || older_.contains(hash); }
  void insert(std::span<const uint64_t> hashes);

 private:
  size_t most_;
  std::unordered_set<uint64_t> newer_, older_;  // at most half of them each
};

// Not thread safe.
class Router {
 public:
  // `most_blocks`: of 32 tokens, that are remembered of each machine.
  Router(Routing routing, size_t machines, size_t most_blocks = size_t{1} << 20)
      : routing_(routing), sent_(machines, SentBlocks(most_blocks)) {}

  // There is a load for each machine, and one of them at least is not out. Prompts of different
  // salts have no beginning in common.
  size_t choose(std::span<const TokenId> prompt, std::span<const MachineLoad> loads,
                uint64_t salt = 0);
  // The machine of a session with that name. Where one is out, its sessions alone move.
  static size_t of_session(std::string_view name, std::span<const MachineLoad> loads);
  // A prompt that went there for another reason.
  void note_sent(std::span<const TokenId> prompt, size_t machine, uint64_t salt = 0);

 private:
  size_t by_prefix(std::span<const TokenId> prompt, std::span<const MachineLoad> loads,
                   uint64_t salt);

  Routing routing_;
  size_t next_ = 0;
  // Hashes of the beginnings, in whole blocks, of prompts that went to each machine.
  std::vector<SentBlocks> sent_;
};

}  // namespace tenon
