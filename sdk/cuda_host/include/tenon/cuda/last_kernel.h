// The name of the kernel that this thread launched last, for messages about what a launch returned.
#pragma once

namespace tenon::cuda {

inline const char*& last_kernel() {
  static thread_local const char* name = "";
  return name;
}

}  // namespace tenon::cuda
