// What a kernel that plans its steps asked for of memory, and whether its plans keep to it:
// attention and state kernels answer alike.
#pragma once

#include <tenon/attention.h>

#include <cstdint>
#include <map>
#include <span>

#include "core/contract/contract.h"

namespace tenon {

class KernelRooms {
 public:
  // Asked for once, after a `bind` that went well: every later answer is the same.
  template <typename Kernel>
  Status ask(const Kernel& kernel, std::span<const GroupId> groups) {
    rooms_.clear();
    for (const GroupId group : groups) {
      Status status = add(group, {kernel.plan_bytes(group), kernel.workspace_bytes(group)});
      if (!status.ok()) return status;
    }
    return {};
  }
  // 0 for a group that was not asked about.
  uint64_t plan_bytes(GroupId group) const { return of(group).plan_bytes; }
  uint64_t workspace_bytes(GroupId group) const { return of(group).workspace_bytes; }

  // Of a plan that the kernel says went well.
  Status check(GroupId group, const KernelPlanOut& out) const;

 private:
  struct Room {
    uint64_t plan_bytes = 0;
    uint64_t workspace_bytes = 0;
  };
  Status add(GroupId group, const Room& room);
  Room of(GroupId group) const;

  std::map<GroupId, Room> rooms_;
};

}  // namespace tenon
