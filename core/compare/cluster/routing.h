// Which of several machines a request goes to, as the routers in front of engines decide it: from
// the request, and from what each machine has to do.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tenon::compare {

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
  bool down = false;    // gets nothing
};

class Router {
 public:
  Router(Routing routing, size_t machines) : routing_(routing), sent_(machines) {}

  // One that is not down; not all are.
  size_t choose(std::span<const TokenId> prompt, std::span<const MachineLoad> loads);

 private:
  size_t by_prefix(std::span<const TokenId> prompt, std::span<const MachineLoad> loads);

  Routing routing_;
  size_t next_ = 0;
  // Hashes of the beginnings, in whole blocks, of prompts that went to each machine.
  std::vector<std::unordered_set<uint64_t>> sent_;
};

}  // namespace tenon::compare
