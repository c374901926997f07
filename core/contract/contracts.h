// The checked plugins of one engine (contract.h).
#pragma once

#include <memory>
#include <string>

#include "core/contract/checked_drafter.h"
#include "core/contract/checked_kv_cache.h"
#include "core/contract/checked_sampler.h"
#include "core/contract/checked_scheduler.h"

namespace tenon {

struct Contracts {
  std::unique_ptr<CheckedScheduler> scheduler;
  std::unique_ptr<CheckedKvCache> kv_cache;
  std::unique_ptr<CheckedSampler> sampler;
  std::unique_ptr<CheckedDrafter> drafter;  // null without speculation
};

}  // namespace tenon
