// Adapters of a model that requests load and unload while it is served.
//
// The model's engines have so many places for them (core/pipeline/later_adapters.h). An adapter
// that is unloaded is not found from then on; it leaves its place when the last request that uses
// it has ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/llm/step_jobs.h"
#include "core/pipeline/later_adapters.h"
#include "core/server/api/write/error.h"

namespace tenon::server {

struct ServedModel;

struct AdapterIdentity {
  std::string name;
  uint64_t number = 0;  // of all that the server has loaded, from 1 on
  std::string content;  // what its K/V follow from, beside the base model
};
// Whoever holds one keeps it at its place.
struct LoadedAdapter {
  AdapterIdentity identity;
  std::string folder;
  uint32_t index = 0;                // of its place, at every engine
  std::string place;                 // what requests name in the engine
  std::vector<LaterAdapter> opened;  // for the model of each engine

  const std::string& name() const { return identity.name; }
};

class AdapterPlaces {
 public:
  using Held = std::shared_ptr<const LoadedAdapter>;

  // Requests may name folders below `root`. The pipelines of the model's engines have `places`.
  AdapterPlaces(std::string root, uint32_t places);

  // Null: none of that name is loaded. [any thread]
  Held find(const std::string& name) const;
  // The latest one at a place, by its number; null: there was none. [any thread]
  std::optional<AdapterIdentity> at_place(uint32_t index) const;
  std::vector<Held> list() const;  // by name [any thread]
  uint32_t places() const { return places_; }

  // Waits until all engines have it, between their steps. `replace`: an adapter of that name gives
  // way to it. Errors: status 400 (what is wrong with name, path or files), 409 (the name is taken,
  // all places are, or another adapter is being loaded), 503 (an engine has ended). [any thread
  // but step threads]
  api::Outcome<Held> load(ServedModel& model, const std::string& name, const std::string& path,
                          bool replace);
  // Error: status 404. [any thread]
  api::Outcome<Held> unload(const std::string& name);

 private:
  // What outlives this: an adapter may leave its place later.
  struct Board {
    std::mutex mutex;
    std::vector<bool> taken;              // [places]
    std::vector<AdapterIdentity> latest;  // [places]; number 0: there was none
  };
  // An engine, for the threads that have it do something.
  struct Engine {
    Pipeline* pipeline;
    std::shared_ptr<llm::StepJobs> jobs;
  };

  static std::vector<Engine> engines_of(ServedModel& model);
  api::Outcome<uint32_t> take_place(const std::vector<Engine>& engines);
  void give_back(uint32_t index);
  api::Outcome<Held> put(const std::vector<Engine>& engines,
                         std::unique_ptr<LoadedAdapter> adapter);
  static void leave(const std::shared_ptr<Board>& board, const std::vector<Engine>& engines,
                    std::unique_ptr<LoadedAdapter> adapter);

  const std::string root_;
  const uint32_t places_;
  const std::shared_ptr<Board> board_ = std::make_shared<Board>();
  std::mutex loading_;  // one at a time
  mutable std::mutex mutex_;
  std::map<std::string, Held> loaded_;  // by name
  uint64_t last_number_ = 0;
};

}  // namespace tenon::server
