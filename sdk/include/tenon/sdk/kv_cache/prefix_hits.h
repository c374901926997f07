// How much of a prefix can be used when some of its blocks are there and some are not.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <vector>

namespace tenon::sdk {

class PrefixHits {
 public:
  // The most leading blocks, `most` at most, after which a sequence can go on. A group without a
  // window needs all of them, one with a window only those that the next row still sees. Group:
  // id(), block_tokens(), window_tokens(), passed(tokens); `there(group, block)`. And it must be
  // possible to start after the last of them: `starts(block)`.
  template <typename Groups, typename There, typename Starts>
  uint32_t longest(uint32_t most, const Groups& groups, There there, Starts starts) {
    uint32_t best = 0;
    runs_.assign(groups.size(), 0);
    for (uint32_t i = 0; i < most; ++i) {
      bool enough = true;
      auto run = runs_.begin();
      for (const auto& group : groups) {
        *run = there(group.id(), i) ? *run + 1 : 0;
        if (*run == 0 && group.window_tokens() == 0) return best;
        enough = enough && *run >= i + 1 - group.passed((i + 1) * group.block_tokens());
        ++run;
      }
      if (enough && starts(i)) best = i + 1;
    }
    return best;
  }

 private:
  std::vector<uint32_t> runs_;  // [groups] blocks there in a row
};

}  // namespace tenon::sdk
