#include "core/server/models/model_pool.h"

#include <malloc.h>

#include <algorithm>
#include <cstdio>

#include "core/base/quote.h"
#include "core/base/saturating.h"
#include "core/base/threads/start_thread.h"
#include "core/server/models/model_entry.h"

namespace tenon::server {
namespace {

using Clock = std::chrono::steady_clock;
// How often memory is looked at again while somebody waits for it: other programs free some, too.
constexpr std::chrono::seconds kLookAgain{1};

double seconds_of(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string rounded_seconds(Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", seconds_of(time));
  return text;
}

}  // namespace

std::string_view model_state_name(ModelState state) {
  switch (state) {
    case ModelState::unloaded:
      return "unloaded";
    case ModelState::loading:
      return "loading";
    case ModelState::loaded:
      return "loaded";
    case ModelState::unloading:
      return "unloading";
  }
  return "";
}

ModelPool::ModelPool(std::vector<ModelSource> sources, ModelPoolOptions options)
    : options_(std::move(options)) {
  for (ModelSource& source : sources) {
    Entry& entry = *entries_.emplace_back(std::make_unique<Entry>(std::move(source)));
    if (entry.model != nullptr) begin(entry, *entry.model);
  }
  thread_ = start_thread([this] { run(); });
}

ModelPool::~ModelPool() {
  stop();
}

void ModelPool::stop() {
  std::vector<Then> waiters;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (auto& entry : entries_) {
      for (Then& then : std::exchange(entry->waiters, {})) waiters.push_back(std::move(then));
    }
    wanted_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const Then& then : waiters) then(api::ApiError{.status = 503, .message = "the server ends"});
  // Requests that end with their engine give their leases back, under the mutex.
  for (auto& entry : entries_) {
    std::unique_ptr<ServedModel> model;
    {
      const std::lock_guard lock(mutex_);
      model = std::move(entry->model);
      entry->state = ModelState::unloaded;
    }
    end(std::move(model));
  }
}

// Requests that run end with the engine, and look at the rest of the model meanwhile.
void ModelPool::end(std::unique_ptr<ServedModel> model) {
  if (model == nullptr) return;
  for (ServedModel* engine : model->engines()) {
    if (engine->feed != nullptr) engine->feed->close();
    engine->host.reset();
  }
}

// Engines of one model find each other before any of them begins.
void ModelPool::begin(Entry& entry, ServedModel& model) {
  std::vector<Replica> all;
  for (ServedModel* engine : model.engines()) {
    all.push_back({engine, &entry.metrics[engine->rank]});
  }
  const bool finds_prefixes = model.pipeline != nullptr &&
                              model.pipeline->kv_cache.extension<KvEvents>(kKvEvents) != nullptr;
  model.group = std::make_unique<Replicas>(model.name, all, finds_prefixes);
  if (!options_.begin) return;
  for (const Replica& replica : all) options_.begin(*replica.model, *replica.metrics, *model.group);
}

ModelPool::Entry* ModelPool::find(const std::string& name) {
  for (auto& entry : entries_) {
    if (entry->source.name == name) return entry.get();
  }
  return nullptr;
}

std::vector<std::string> ModelPool::adapters(const Entry& entry) const {
  std::vector<std::string> names = entry.source.adapters;
  const std::lock_guard lock(mutex_);
  if (entry.model == nullptr || entry.model->adapters == nullptr) return names;
  for (const auto& loaded : entry.model->adapters->list()) names.push_back(loaded->name());
  return names;
}
const std::string& ModelPool::name(const Entry& entry) const {
  return entry.source.name;
}

// Under the mutex.
ModelPool::Lease ModelPool::lend(Entry& entry, bool is_use) {
  ++entry.users;
  return {entry.model.get(), [this, &entry, is_use](ServedModel*) { give_back(entry, is_use); }};
}

void ModelPool::give_back(Entry& entry, bool is_use) {
  const std::lock_guard lock(mutex_);
  --entry.users;
  if (is_use) entry.last_used = Clock::now();
  if (entry.users == 0) changed_.notify_all();
}

void ModelPool::use(Entry& entry, Then then) {
  Lease lease;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      // Below, without the mutex.
    } else if (entry.state == ModelState::loaded) {
      lease = lend(entry, true);
    } else {
      entry.waiters.push_back(std::move(then));
      want(entry);
      return;
    }
  }
  if (lease == nullptr) return then(api::ApiError{.status = 503, .message = "the server ends"});
  then(std::move(lease));
}

// Under the mutex.
void ModelPool::want(Entry& entry) {
  const bool is_wanted = std::ranges::find(wanted_, &entry) != wanted_.end();
  if (is_wanted || entry.state == ModelState::loading) return;
  entry.wanted_since = Clock::now();
  wanted_.push_back(&entry);
  changed_.notify_all();
}

ModelPool::Lease ModelPool::look(Entry& entry) {
  const std::lock_guard lock(mutex_);
  return entry.state == ModelState::loaded && !stopped_ ? lend(entry, false) : nullptr;
}

api::ApiError ModelPool::in_use(const Entry& entry) {
  return {.status = 409,
          .message = "the model " + in_quotes(entry.source.name) +
                     " is in use – try again when it has answered",
          .param = "model",
          .code = "model_in_use"};
}

void ModelPool::unload(Entry& entry, std::function<void(std::optional<api::ApiError>)> then) {
  std::optional<api::ApiError> fault;
  {
    const std::lock_guard lock(mutex_);
    if (entry.source.keep) {
      fault = {.message = "the model " + in_quotes(entry.source.name) +
                          " is kept in memory as long as the server runs – only models that are "
                          "loaded on demand are unloaded",
               .param = "model"};
    } else if (entry.state == ModelState::loading) {
      fault = in_use(entry);
    } else if (entry.state != ModelState::unloaded) {
      if (entry.unload_waiters.empty()) entry.unload_since = Clock::now();
      entry.unload_waiters.push_back(std::move(then));
      changed_.notify_all();
      return;
    }
  }
  then(fault);
}

ModelPool::Facts ModelPool::facts(Entry& entry) const {
  const std::lock_guard lock(mutex_);
  Facts facts = entry.known;
  facts.state = entry.state;
  facts.problem = entry.problem;
  facts.created = entry.created;
  facts.keep = entry.source.keep;
  if (const ServedModel* model = entry.model.get()) {
    facts.memory_bytes = model->weight_bytes + model->kv_bytes;
    if (model->host != nullptr) facts.context_tokens = model->host->sequence_limit_tokens();
    facts.has_chat = model->chat.has_value();
    if (model->pipeline != nullptr) {
      facts.numerics = model->pipeline->numerics;
      facts.pipeline = model->pipeline->hash;
    }
  } else if (entry.needs) {
    facts.memory_bytes = saturating_add(entry.needs->weight_bytes, entry.needs->least_kv_bytes);
    if (!facts.context_tokens) facts.context_tokens = entry.needs->context_tokens;
    if (!facts.has_chat) facts.has_chat = entry.needs->has_chat;
  }
  return facts;
}

void ModelPool::write_metrics(MetricsText& out) {
  for (auto& entry : entries_) {
    const Lease lease = look(*entry);
    if (lease == nullptr) {
      entry->metrics.front().write(entry->source.name, nullptr, out);
    } else {
      for (const ServedModel* engine : lease->engines()) {
        entry->metrics[engine->rank].write(entry->source.name, engine, out);
      }
      write_replicas(*lease->group, out);
    }
    const std::lock_guard lock(mutex_);
    const MetricsText::Labels labels = {{"model_name", entry->source.name}};
    out.value("tenon:model_loaded", "gauge", "1 while the model is in memory.", labels,
              entry->state == ModelState::loaded ? 1.0 : 0.0);
    out.value("tenon:model_loads_total", "counter", "Times that the model was loaded on demand.",
              labels, static_cast<double>(entry->loads));
    out.value("tenon:model_load_failures_total", "counter", "Times that it could not be loaded.",
              labels, static_cast<double>(entry->failures));
    out.value("tenon:model_load_seconds_total", "counter", "Time that loading took.", labels,
              entry->load_seconds);
    for (const char* reason : {"idle", "memory", "asked"}) {
      const auto count = entry->unloads.find(reason);
      out.value("tenon:model_unloads_total", "counter", "Times that the model was unloaded.",
                {{"model_name", entry->source.name}, {"reason", reason}},
                count == entry->unloads.end() ? 0.0 : static_cast<double>(count->second));
    }
  }
}

void ModelPool::run() {
  Lock lock(mutex_);
  while (!stopped_) {
    if (unload_next(lock, Clock::now())) continue;
    if (refuse_unload(lock, Clock::now())) continue;
    if (load_next(lock)) continue;
    wait(lock);
  }
}

// Until something changes, or time alone makes something due.
void ModelPool::wait(Lock& lock) {
  std::optional<Time> due;
  const auto at = [&](Time time) { due = due ? std::min(*due, time) : time; };
  for (const auto& entry : entries_) {
    if (entry->is_idle() && entry->source.idle_unload.count() > 0) {
      at(entry->last_used + entry->source.idle_unload);
    }
    if (!entry->unload_waiters.empty()) at(entry->unload_since + options_.unload_wait);
  }
  if (!wanted_.empty()) at(Clock::now() + kLookAgain);
  if (due) {
    changed_.wait_until(lock, *due);
  } else {
    changed_.wait(lock);
  }
}

void ModelPool::unload_idle(Time now) {
  Lock lock(mutex_);
  while (unload_next(lock, now)) {
  }
}

bool ModelPool::unload_next(Lock& lock, Time now) {
  for (auto& entry : entries_) {
    if (!entry->is_idle()) continue;
    const bool is_asked = !entry->unload_waiters.empty();
    const auto idle = entry->source.idle_unload;
    const bool is_due = idle.count() > 0 && now >= entry->last_used + idle;
    if (!is_asked && !is_due) continue;
    unload_now(*entry, is_asked ? "asked" : "idle", lock);
    return true;
  }
  return false;
}

// Tells who asked for it that a model is not unloaded, since it is still in use.
bool ModelPool::refuse_unload(Lock& lock, Time now) {
  for (auto& entry : entries_) {
    if (entry->unload_waiters.empty() || now < entry->unload_since + options_.unload_wait) continue;
    tell_unload_waiters(*entry, in_use(*entry), lock);
    return true;
  }
  return false;
}

void ModelPool::tell_unload_waiters(Entry& entry, const std::optional<api::ApiError>& fault,
                                    Lock& lock) {
  Jobs jobs;
  for (auto& then : std::exchange(entry.unload_waiters, {})) {
    jobs.push_back([then = std::move(then), fault] { then(fault); });
  }
  post(std::move(jobs), lock);
}

// The first of those that wait for which something can be done.
bool ModelPool::load_next(Lock& lock) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    Entry& entry = *wanted_[i];
    const Room room = make_room(entry, lock);
    if (room == Room::ready) {
      std::erase(wanted_, &entry);
      load(entry, lock);
    }
    if (room != Room::wait) return true;
    if (Clock::now() < entry.wanted_since + options_.load_wait) continue;
    refuse(entry,
           {.status = 503,
            .message = "there is no room for the model " + in_quotes(entry.source.name) + ": " +
                       names_in_use() +
                       " in use, and models in use are not unloaded – try again "
                       "later",
            .code = "no_room_for_model",
            .retry_after_s = 10},
           lock);
    return true;
  }
  return false;
}

// False: it cannot be, and who waits for it is told.
bool ModelPool::measure(Entry& entry, Lock& lock) {
  lock.unlock();
  Result<ModelNeeds> needs = entry.source.measure();
  lock.lock();
  if (needs.ok()) {
    entry.needs = *std::move(needs);
    return true;
  }
  entry.problem = message_of(needs.status());
  ++entry.failures;
  refuse(entry,
         {.status = 503,
          .message =
              "the model " + in_quotes(entry.source.name) + " cannot be loaded: " + entry.problem,
          .code = "model_load_failed"},
         lock);
  return false;
}

void ModelPool::load(Entry& entry, Lock& lock) {
  entry.state = ModelState::loading;
  const uint64_t free = entry.needs->device_free_bytes ? 0 : free_bytes();
  const std::string name = entry.source.name;
  const std::string weights = entry.needs->weights;
  lock.unlock();
  say("loading " + name);
  const Time began = Clock::now();
  Result<std::unique_ptr<ServedModel>> model = entry.source.load(free);
  if (model.ok()) begin(entry, **model);
  const Clock::duration took = Clock::now() - began;
  say(model.ok() ? name + " is loaded, in " + rounded_seconds(took)
                 : name + " cannot be loaded: " + message_of(model.status()));
  lock.lock();
  if (!model.ok()) {
    entry.state = ModelState::unloaded;
    entry.problem = message_of(model.status());
    entry.needs.reset();  // it may be another file by the next time
    ++entry.failures;
    return refuse(
        entry,
        {.status = 503,
         .message = "the model " + in_quotes(name) + " cannot be loaded: " + entry.problem,
         .code = "model_load_failed"},
        lock);
  }
  entry.model = *std::move(model);
  entry.model->weights = weights;
  entry.problem.clear();
  entry.state = ModelState::loaded;
  entry.last_used = Clock::now();
  ++entry.loads;
  entry.load_seconds += seconds_of(took);
  // All have their leases before the first of them can be done.
  Jobs jobs;
  for (Then& then : std::exchange(entry.waiters, {})) {
    jobs.push_back(
        [then = std::move(then), lease = lend(entry, true)]() mutable { then(std::move(lease)); });
  }
  post(std::move(jobs), lock);
}

void ModelPool::unload_now(Entry& entry, const char* reason, Lock& lock) {
  entry.state = ModelState::unloading;
  std::unique_ptr<ServedModel> model = std::move(entry.model);
  if (model->host != nullptr) entry.known.context_tokens = model->host->sequence_limit_tokens();
  entry.known.has_chat = model->chat.has_value();
  if (model->pipeline != nullptr) {
    entry.known.numerics = model->pipeline->numerics;
    entry.known.pipeline = model->pipeline->hash;
  }
  ++entry.unloads[reason];
  lock.unlock();
  for (const ServedModel* engine : model->engines()) entry.metrics[engine->rank].carry(*engine);
  end(std::move(model));
  ::malloc_trim(0);
  const std::string_view why = reason;
  say(entry.source.name + " is unloaded: " +
      (why == "idle"     ? "nobody used it for long"
       : why == "memory" ? "another model needs its room"
                         : "somebody asked for it"));
  lock.lock();
  entry.state = ModelState::unloaded;
  tell_unload_waiters(entry, std::nullopt, lock);
}

void ModelPool::refuse(Entry& entry, const api::ApiError& error, Lock& lock) {
  std::erase(wanted_, &entry);
  if (entry.problem.empty() && error.retry_after_s == 0) entry.problem = error.message;
  Jobs jobs;
  for (Then& then : std::exchange(entry.waiters, {})) {
    jobs.push_back([then = std::move(then), error] { then(error); });
  }
  post(std::move(jobs), lock);
}

// They may come back here, so that the mutex is free meanwhile.
void ModelPool::post(Jobs jobs, Lock& lock) {
  if (jobs.empty()) return;
  lock.unlock();
  for (std::function<void()>& job : jobs) {
    if (options_.post) {
      options_.post(std::move(job));
    } else {
      job();
    }
  }
  jobs.clear();
  lock.lock();
}

void ModelPool::say(const std::string& line) {
  if (options_.say) options_.say(line);
}

}  // namespace tenon::server
