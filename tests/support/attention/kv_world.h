// Random traffic over a KV manager (core/conformance/worlds/kv_traffic.h) as tests write it.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/conformance/worlds/kv_traffic.h"
#include "tests/support/attention/kv_case.h"

namespace tenon::test {

using KvWorldOptions = KvTrafficOptions;

class KvWorld : public KvTraffic {
 public:
  using KvTraffic::KvTraffic;

  // Stops at the first thing that is wrong, which fails the test.
  void run() {
    KvTraffic::run();
    EXPECT_EQ(fault(), "");
  }
};

// So many seeds, without and with planning ahead.
inline std::vector<std::pair<uint64_t, bool>> kv_worlds(uint64_t seeds) {
  std::vector<std::pair<uint64_t, bool>> made;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    made.emplace_back(seed, false);
    made.emplace_back(seed, true);
  }
  return made;
}

}  // namespace tenon::test
