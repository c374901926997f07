// Workers for tests of what is shared out among them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "core/base/threads/worker_pool.h"

namespace tenon::quantize {

inline std::unique_ptr<WorkerPool> threads(uint32_t count) {
  auto pool = WorkerPool::start({.threads = count, .pin = false});
  EXPECT_TRUE(pool.ok());
  return *std::move(pool);
}

}  // namespace tenon::quantize
