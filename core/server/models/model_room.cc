// Whether there is room for a model, and who goes so that there is.
#include <algorithm>
#include <map>

#include "core/base/quote.h"
#include "core/base/saturating.h"
#include "core/base/text.h"
#include "core/server/models/model_entry.h"

namespace tenon::server {

// One step towards room for it.
ModelPool::Room ModelPool::make_room(Entry& entry, Lock& lock) {
  const bool is_on_device = entry.needs && entry.needs->device_free_bytes;
  if (!entry.needs || is_on_device) {
    if (!measure(entry, lock)) return Room::changed;
  }
  const uint64_t free = entry.needs->device_free_bytes.value_or(free_bytes());
  const uint64_t needed = needed_bytes(entry);
  const bool has_place = options_.max_loaded == 0 || loaded_count() < options_.max_loaded;
  if (needed <= free && has_place) return Room::ready;
  if (needed > free && needed > saturating_add(free, could_be_freed())) {
    refuse(entry,
           {.status = 503,
            .message = "the model " + in_quotes(entry.source.name) + " needs " +
                       approximate_bytes(needed) + ", and " +
                       approximate_bytes(saturating_add(free, could_be_freed())) +
                       " are free even if all models are unloaded that may be – 'tenon model fit' "
                       "says what to change",
            .code = "no_room_for_model"},
           lock);
    return Room::changed;
  }
  if (Entry* other = longest_unused()) {
    unload_now(*other, "memory", lock);
    return Room::changed;
  }
  return Room::wait;
}

ModelPool::Entry* ModelPool::longest_unused() {
  Entry* found = nullptr;
  for (auto& entry : entries_) {
    if (!entry->is_idle()) continue;
    if (found == nullptr || entry->last_used < found->last_used) found = entry.get();
  }
  return found;
}

// Weights that several models share count once.
uint64_t ModelPool::held_bytes() const {
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> weights;
  for (const auto& entry : entries_) {
    const ServedModel* model = entry->model.get();
    if (model == nullptr) continue;
    bytes = saturating_add(bytes, model->kv_bytes);
    if (model->weights.empty()) {
      bytes = saturating_add(bytes, model->weight_bytes);
    } else {
      uint64_t& shared = weights[model->weights];
      shared = std::max(shared, model->weight_bytes);
    }
  }
  for (const auto& [name, shared] : weights) bytes = saturating_add(bytes, shared);
  return bytes;
}

uint64_t ModelPool::free_bytes() const {
  const uint64_t held = held_bytes();
  uint64_t free = options_.free_bytes ? options_.free_bytes(held) : UINT64_MAX;
  if (options_.memory_bytes) {
    free = std::min(free, *options_.memory_bytes - std::min(*options_.memory_bytes, held));
  }
  return free;
}

uint64_t ModelPool::needed_bytes(const Entry& entry) const {
  const ModelNeeds& needs = *entry.needs;
  const bool is_shared =
      !needs.weights.empty() && std::ranges::any_of(entries_, [&](const auto& other) {
        return other->model != nullptr && other->model->weights == needs.weights;
      });
  return saturating_add(is_shared ? 0 : needs.weight_bytes, needs.least_kv_bytes);
}

// By unloading all that may be, once it is not in use any more.
uint64_t ModelPool::could_be_freed() const {
  uint64_t bytes = 0;
  for (const auto& entry : entries_) {
    if (entry->model == nullptr || entry->source.keep) continue;
    bytes = saturating_add(bytes, entry->model->weight_bytes + entry->model->kv_bytes);
  }
  return bytes;
}

size_t ModelPool::loaded_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(entries_, [](const auto& entry) { return entry->model != nullptr; }));
}

std::string ModelPool::names_in_use() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) {
    if (entry->model != nullptr && !entry->is_idle()) names.push_back(entry->source.name);
  }
  return join_and(names) + (names.size() == 1 ? " is" : " are");
}

}  // namespace tenon::server
