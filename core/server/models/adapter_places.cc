#include "core/server/models/adapter_places.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/engine/requests/adapter_names.h"
#include "core/server/models/adapter_folder.h"
#include "core/server/models/served_model.h"

namespace tenon::server {
namespace {

constexpr size_t kLongestName = 128;

// Names stand in labels of metrics, joined by commas, and in paths.
bool is_name(const std::string& name) {
  const auto fits = [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_digit = c >= '0' && c <= '9';
    return is_letter || is_digit || std::string_view("_-./:").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kLongestName && !find_adapter(name, {}).ok() &&
         std::ranges::all_of(name, fits);
}

api::ApiError fault(std::string text, std::string param, unsigned status = 400) {
  return {.status = status, .message = std::move(text), .param = std::move(param)};
}

}  // namespace

AdapterPlaces::AdapterPlaces(std::string root, uint32_t places)
    : root_(std::move(root)), places_(places) {
  board_->taken.assign(places, false);
  board_->latest.resize(places);
}

AdapterPlaces::Held AdapterPlaces::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(name);
  return found == loaded_.end() ? nullptr : found->second;
}

std::optional<AdapterIdentity> AdapterPlaces::at_place(uint32_t index) const {
  const std::lock_guard lock(board_->mutex);
  if (index >= places_ || board_->latest[index].number == 0) return std::nullopt;
  return board_->latest[index];
}

std::vector<AdapterPlaces::Held> AdapterPlaces::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Held> all;
  for (const auto& [name, adapter] : loaded_) all.push_back(adapter);
  return all;
}

std::vector<AdapterPlaces::Engine> AdapterPlaces::engines_of(ServedModel& model) {
  std::vector<Engine> engines;
  for (ServedModel* engine : model.engines()) {
    engines.push_back({engine->pipeline, engine->host->jobs()});
  }
  return engines;
}

api::Outcome<AdapterPlaces::Held> AdapterPlaces::load(ServedModel& model, const std::string& name,
                                                      const std::string& path, bool replace) {
  if (!is_name(name)) {
    return fault("\"lora_name\" is " + shown_text(name) +
                     " – it must have up to 128 letters, digits, _, -, ., / and :, and \"none\" "
                     "means the base model",
                 "lora_name");
  }
  const std::unique_lock loading(loading_, std::try_to_lock);
  if (!loading.owns_lock()) {
    return api::ApiError{.status = 409,
                         .message = "another adapter is being loaded – try again when it is there",
                         .retry_after_s = 1};
  }
  const std::vector<NamedAdapter>& fixed = model.pipeline->config.adapters;
  const bool is_fixed = std::ranges::find(fixed, name, &NamedAdapter::name) != fixed.end();
  if (is_fixed || (!replace && find(name) != nullptr)) {
    return fault("there is an adapter " + in_quotes(name) + " already – " +
                     (is_fixed ? "it is the pipeline's; choose another name"
                               : "unload it, or say \"load_inplace\": true"),
                 "lora_name", 409);
  }
  const auto folder = adapter_folder(root_, path);
  if (!folder.ok()) return folder.error();
  const std::vector<Engine> engines = engines_of(model);
  auto adapter = std::make_unique<LoadedAdapter>();
  adapter->identity.name = name;
  adapter->folder = *folder;
  for (const Engine& engine : engines) {
    Result<LaterAdapter> opened = open_later_adapter(*engine.pipeline, name, *folder);
    if (!opened.ok()) return fault(message_of(opened.status()), "lora_path");
    adapter->opened.push_back(*std::move(opened));
  }
  const auto index = take_place(engines);
  if (!index.ok()) return index.error();
  adapter->index = *index;
  adapter->place = adapter_place_name(*model.pipeline, *index);
  return put(engines, std::move(adapter));
}

// Those that are about to be left are given time for that.
api::Outcome<uint32_t> AdapterPlaces::take_place(const std::vector<Engine>& engines) {
  for (const bool waits : {true, false}) {
    {
      const std::lock_guard lock(board_->mutex);
      const auto free = std::ranges::find(board_->taken, false);
      if (free != board_->taken.end()) {
        *free = true;
        return static_cast<uint32_t>(free - board_->taken.begin());
      }
    }
    for (const Engine& engine : engines) {
      if (waits) (void)engine.jobs->call([] { return Status(); });
    }
  }
  return fault("all " + std::to_string(places_) +
                   " places for adapters are taken, by those that /v1/models lists and those that "
                   "requests still use – unload one, or start the server with more --max-adapters",
               "lora_name", 409);
}

void AdapterPlaces::give_back(uint32_t index) {
  const std::lock_guard lock(board_->mutex);
  board_->taken[index] = false;
}

// At all engines, or at none.
api::Outcome<AdapterPlaces::Held> AdapterPlaces::put(const std::vector<Engine>& engines,
                                                     std::unique_ptr<LoadedAdapter> adapter) {
  std::string numerics;
  for (size_t i = 0; i < engines.size(); ++i) {
    Pipeline& pipeline = *engines[i].pipeline;
    Status status = engines[i].jobs->call([&]() -> Status {
      Result<std::string> put = put_adapter(pipeline, adapter->index, *adapter->opened[i].adapter);
      if (!put.ok()) return put.take_status();
      numerics = *std::move(put);
      return {};
    });
    if (status.ok()) continue;
    for (size_t before = 0; before < i; ++before) {
      (void)engines[before].jobs->call([&, before]() -> Status {
        drop_adapter(*engines[before].pipeline, adapter->index);
        return {};
      });
    }
    give_back(adapter->index);
    api::ApiError error = fault(message_of(status), "lora_path");
    if (status.code() != StatusCode::unsupported) error.status = 503;
    return error;
  }
  adapter->identity.content = adapter->opened.front().contents + "\n" + numerics;
  const auto leaves = [board = board_, engines](LoadedAdapter* left) {
    leave(board, engines, std::unique_ptr<LoadedAdapter>(left));
  };
  Held replaced;  // which may be the last to hold it
  const std::lock_guard lock(mutex_);
  adapter->identity.number = ++last_number_;
  const Held held(adapter.release(), leaves);
  {
    const std::lock_guard of_board(board_->mutex);
    board_->latest[held->index] = held->identity;
  }
  Held& entry = loaded_[held->name()];
  replaced.swap(entry);
  entry = held;
  return held;
}

// Nobody uses it any more. Where an engine has ended, nothing is there to take it from.
void AdapterPlaces::leave(const std::shared_ptr<Board>& board, const std::vector<Engine>& engines,
                          std::unique_ptr<LoadedAdapter> adapter) {
  // The place is free once the last engine has let go.
  const uint32_t index = adapter->index;
  const std::shared_ptr<LoadedAdapter> left(adapter.release(),
                                            [board, index](const LoadedAdapter* gone) {
                                              delete gone;
                                              const std::lock_guard lock(board->mutex);
                                              board->taken[index] = false;
                                            });
  for (const Engine& engine : engines) {
    engine.jobs->post([pipeline = engine.pipeline, left] { drop_adapter(*pipeline, left->index); });
  }
}

api::Outcome<AdapterPlaces::Held> AdapterPlaces::unload(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(name);
  if (found == loaded_.end()) {
    return fault("there is no adapter " + shown_text(name) + " that was loaded by a request",
                 "lora_name", 404);
  }
  Held held = std::move(found->second);
  loaded_.erase(found);
  return held;
}

}  // namespace tenon::server
