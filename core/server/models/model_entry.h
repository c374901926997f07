// A model of the pool, for the pool's own sources.
#pragma once

#include <deque>
#include <map>

#include "core/server/models/model_pool.h"

namespace tenon::server {

class ModelPool::Entry {
 public:
  explicit Entry(ModelSource from)
      : source(std::move(from)),
        metrics(source.loaded == nullptr ? 1 : source.loaded->replicas),
        model(std::move(source.loaded)),
        needs(source.needs),
        created(now_s()) {
    state = model == nullptr ? ModelState::unloaded : ModelState::loaded;
  }

  ModelSource source;
  std::deque<ModelMetrics> metrics;  // of each of its engines
  // The rest is the mutex's.
  ModelState state;
  std::unique_ptr<ServedModel> model;
  uint32_t users = 0;  // leases
  Time last_used = std::chrono::steady_clock::now();
  Time wanted_since = {};
  std::vector<Then> waiters;
  std::vector<std::function<void(std::optional<api::ApiError>)>> unload_waiters;
  Time unload_since = {};  // the first of them waits
  std::optional<ModelNeeds> needs;
  std::string problem;
  const int64_t created;
  Facts known;  // of the latest load
  uint64_t loads = 0, failures = 0;
  double load_seconds = 0.0;
  std::map<std::string, uint64_t> unloads;  // by reason

  bool is_idle() const {
    return state == ModelState::loaded && users == 0 && !source.keep && waiters.empty();
  }

 private:
  static int64_t now_s() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace tenon::server
