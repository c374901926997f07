// The models of a server: loaded when they are first asked for, unloaded when nobody needs them.
//
// A model is in use while somebody holds a lease of it, and is then never unloaded. Loading and
// unloading happen one after the other, on a thread of the pool's own, so that what is free is
// known; requests for a model that is being loaded wait together, and it is loaded once. Where
// memory is short, the models that nobody uses go first that nobody used for longest; where all are
// in use, who waits goes on waiting until `load_wait` is over.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/server/models/model_metrics.h"
#include "core/server/models/served_model.h"

namespace tenon::server {

enum class ModelState : uint8_t { unloaded, loading, loaded, unloading };
std::string_view model_state_name(ModelState state);  // llama.cpp's words

// What a model takes of memory, and what can be said of it, before it is loaded.
struct ModelNeeds {
  std::string weights = {};  // models with the same text keep their weights once
  uint64_t weight_bytes = 0;
  uint64_t least_kv_bytes = 0;  // with less it cannot run
  // Of a device on which all of that lies, free now; null = it lies in the host's memory.
  std::optional<uint64_t> device_free_bytes = {};
  uint32_t context_tokens = 0;
  bool has_chat = false;
};

// A model of the pool, and how it comes into memory.
struct ModelSource {
  std::string name;
  std::vector<std::string> adapters = {};     // the pipeline's, which requests may name, too
  std::unique_ptr<ServedModel> loaded = {};   // from the start on; null: it is loaded when needed
  bool keep = false;                          // it is never unloaded
  std::chrono::nanoseconds idle_unload = {};  // unloaded after so long without use; 0 = never
  std::function<Result<ModelNeeds>()> measure = {};  // without loading; may be empty if `keep`
  std::optional<ModelNeeds> needs = {};              // what `measure` found already
  // `free_bytes` of the host's memory are free for it. May be empty if `keep`.
  std::function<Result<std::unique_ptr<ServedModel>>(uint64_t free_bytes)> load = {};
};

struct ModelPoolOptions {
  std::optional<uint64_t> memory_bytes = {};  // of the host, for all models; null = what is free
  uint32_t max_loaded = 0;                    // models; 0 = as many as fit
  std::chrono::nanoseconds load_wait = std::chrono::minutes(1);
  // So long an unload that somebody asks for waits for the model's last use to end: a client has
  // all of an answer a little before its request is gone.
  std::chrono::nanoseconds unload_wait = std::chrono::seconds(1);
  // Free memory of the host, where the pool's models hold so much of it (of which some may not be
  // backed by memory yet).
  std::function<uint64_t(uint64_t held_bytes)> free_bytes = {};
  // Begins each of a model's engines, once it is loaded. May be empty.
  std::function<void(ServedModel& engine, ModelMetrics& metrics, Replicas& group)> begin = {};
  // Runs a job elsewhere than on the pool's thread; empty: there. A job that is dropped drops the
  // request that it is for.
  std::function<void(std::function<void()> job)> post = {};
  // Tells people what was loaded and unloaded. May be empty. [pool]
  std::function<void(const std::string& line)> say = {};
};

class ModelPool {
 public:
  using Lease = std::shared_ptr<ServedModel>;
  using Time = std::chrono::steady_clock::time_point;
  class Entry;

  // What is known of a model, whether it is loaded or not.
  struct Facts {
    ModelState state = ModelState::unloaded;
    std::string problem;  // why it could not be loaded or measured when that was tried last
    int64_t created = 0;  // seconds since 1970
    bool keep = false;
    // Null: it was neither loaded nor measured yet.
    std::optional<uint32_t> context_tokens;
    std::optional<bool> has_chat;
    std::string numerics, pipeline;  // of the latest load; empty: there was none
    uint64_t memory_bytes = 0;       // that it holds, or would take at least; 0 = not known
  };

  ModelPool(std::vector<ModelSource> sources, ModelPoolOptions options);
  // Waits for a load that is under way. No lease is left but those of requests that run in engines.
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  size_t size() const { return entries_.size(); }
  Entry& at(size_t place) { return *entries_[place]; }
  Entry* find(const std::string& name);  // null where there is none

  // Calls `then` with the model: at once where it is loaded, else when it is, or with the reason
  // why it is not. [any thread]
  using Then = std::function<void(api::Outcome<Lease>)>;
  void use(Entry& entry, Then then);
  // Null where it is not loaded. It does not count as a use of the model, but keeps it loaded.
  // [any thread]
  Lease look(Entry& entry);
  // Unloads it, once it is not in use. Errors: status 400 (kept), 409 (being loaded, or still in
  // use when `unload_wait` is over). [any thread]
  void unload(Entry& entry, std::function<void(std::optional<api::ApiError>)> then);
  Facts facts(Entry& entry) const;  // [any thread]
  // The pipeline's, and those that requests have loaded. [any thread]
  std::vector<std::string> adapters(const Entry& entry) const;
  const std::string& name(const Entry& entry) const;
  void write_metrics(MetricsText& out);  // [any thread]

  // Unloads what nobody used for long, as of `now`: what the pool's thread does by itself.
  void unload_idle(Time now);
  // No more is loaded, and all models go, whatever runs in their engines.
  void stop();

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Jobs = std::vector<std::function<void()>>;

  void run();
  Lease lend(Entry& entry, bool is_use);
  void give_back(Entry& entry, bool is_use);
  void want(Entry& entry);
  bool load_next(Lock& lock);
  bool unload_next(Lock& lock, Time now);
  bool refuse_unload(Lock& lock, Time now);
  void tell_unload_waiters(Entry& entry, const std::optional<api::ApiError>& fault, Lock& lock);
  static api::ApiError in_use(const Entry& entry);
  enum class Room : uint8_t { ready, changed, wait };
  Room make_room(Entry& entry, Lock& lock);
  bool measure(Entry& entry, Lock& lock);
  void load(Entry& entry, Lock& lock);
  void unload_now(Entry& entry, const char* reason, Lock& lock);
  void refuse(Entry& entry, const api::ApiError& error, Lock& lock);
  Entry* longest_unused();
  uint64_t held_bytes() const;
  uint64_t free_bytes() const;
  uint64_t needed_bytes(const Entry& entry) const;
  uint64_t could_be_freed() const;
  size_t loaded_count() const;
  std::string names_in_use() const;
  void wait(Lock& lock);
  void post(Jobs jobs, Lock& lock);
  void say(const std::string& line);

  void begin(Entry& entry, ServedModel& model);
  static void end(std::unique_ptr<ServedModel> model);

  const ModelPoolOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry*> wanted_;  // first come first
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace tenon::server
