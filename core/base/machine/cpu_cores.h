// The processor cores that this process may use.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon {

// One logical processor of each core in the affinity mask, rising; cut to what a control group's
// processor quota allows. Never empty.
std::vector<int> usable_cores();

// While it lives, this thread, and threads that it starts meanwhile, use one of `count` shares of
// the cores that it could use before; all of them where there are fewer cores than shares. Ends on
// the thread that made it.
class CoreShare {
 public:
  CoreShare(uint32_t index, uint32_t count);
  ~CoreShare();
  CoreShare(const CoreShare&) = delete;
  CoreShare& operator=(const CoreShare&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;  // null: nothing was changed
};

}  // namespace tenon
