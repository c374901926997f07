#include "core/contract/kernel_rooms.h"

#include <string>

namespace tenon {
namespace {

constexpr uint32_t kMostPhases = 16;
constexpr uint64_t kMostBytes = uint64_t{1} << 42;  // of a plan or a workspace

}  // namespace

Status KernelRooms::add(GroupId group, const Room& room) {
  const bool plan = room.plan_bytes > kMostBytes;
  if (plan || room.workspace_bytes > kMostBytes) {
    return broken_promise(plan ? "plan_bytes" : "workspace_bytes",
                          "wants " + std::to_string(plan ? room.plan_bytes : room.workspace_bytes) +
                              " bytes for KV group " + std::to_string(group),
                          "at most " + std::to_string(kMostBytes));
  }
  rooms_.emplace(group, room);
  return {};
}

KernelRooms::Room KernelRooms::of(GroupId group) const {
  const auto found = rooms_.find(group);
  return found == rooms_.end() ? Room() : found->second;
}

Status KernelRooms::check(GroupId group, const KernelPlanOut& out) const {
  if (out.phases < 1 || out.phases > kMostPhases) {
    return broken_promise("plan", "made a step of " + std::to_string(out.phases) + " phases",
                          "1 to " + std::to_string(kMostPhases));
  }
  if (const uint64_t room = plan_bytes(group); out.plan_bytes > room) {
    return broken_promise("plan", "wrote " + std::to_string(out.plan_bytes) + " bytes",
                          "at most " + std::to_string(room) + ", for which it asked");
  }
  return {};
}

}  // namespace tenon
