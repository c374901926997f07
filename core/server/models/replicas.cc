#include "core/server/models/replicas.h"

#include <algorithm>
#include <charconv>

#include "core/base/quote.h"

namespace tenon::server {
namespace {

std::optional<uint32_t> number_of(const std::string& text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Replicas::Replicas(std::string model, std::vector<Replica> replicas, bool finds_prefixes)
    : model_(std::move(model)),
      replicas_(std::move(replicas)),
      router_(finds_prefixes ? Routing::prefix : Routing::least_load, replicas_.size()),
      loads_(replicas_.size()),
      problems_(replicas_.size()) {}

std::string Replicas::name_of(uint32_t rank) const {
  return "replica " + std::to_string(rank) + " of the model " + in_quotes(model_);
}

api::ApiError Replicas::lost_error(std::string message) const {
  return {.status = 503, .message = std::move(message), .code = "replica_lost", .retry_after_s = 1};
}

api::Outcome<uint32_t> Replicas::wished_rank(const PlaceWish& wish) const {
  const std::optional<uint32_t> rank = number_of(*wish.rank);
  if (!rank || *rank >= replicas_.size()) {
    const std::string there = is_one() ? "one engine runs a model here, whose rank is 0"
                                       : std::to_string(replicas_.size()) + " engines run " +
                                             in_quotes(model_) + " here, whose ranks are 0 to " +
                                             std::to_string(replicas_.size() - 1);
    return api::ApiError{.message =
                             wish.rank_name + " is " + in_quotes(*wish.rank) + " – " + there};
  }
  if (loads_[*rank].out) {
    return lost_error(name_of(*rank) + ", which " + wish.rank_name +
                      " names, is lost: " + problems_[*rank]);
  }
  return *rank;
}

api::Outcome<std::unique_ptr<Replicas::Stay>> Replicas::enter(const RoutedRequest& request,
                                                              const PlaceWish& wish,
                                                              std::span<const uint32_t> not_at,
                                                              OnLost on_lost) {
  const std::lock_guard lock(mutex_);
  std::vector<MachineLoad> loads = loads_;
  for (const uint32_t rank : not_at) loads[rank].out = true;
  uint32_t chosen = 0;
  if (wish.rank) {
    auto wished = wished_rank(wish);
    if (!wished.ok()) return wished.error();
    chosen = *wished;
  } else if (std::ranges::all_of(loads, &MachineLoad::out)) {
    std::string message = "no replica of the model " + in_quotes(model_) + " is left";
    for (uint32_t rank = 0; rank < problems_.size(); ++rank) {
      if (!problems_[rank].empty()) message += "\n" + name_of(rank) + ": " + problems_[rank];
    }
    return lost_error(std::move(message));
  } else if (is_one()) {
    chosen = 0;
  } else if (!wish.session.empty()) {
    chosen = static_cast<uint32_t>(Router::of_session(wish.session, loads));
  } else {
    chosen = static_cast<uint32_t>(router_.choose(request.prompt, loads, request.salt));
  }
  const bool routed = !wish.rank && wish.session.empty();
  if (!is_one() && !routed) router_.note_sent(request.prompt, chosen, request.salt);
  const uint64_t tokens = request.prompt.size() + request.answer_tokens;
  auto stay = std::make_unique<Stay>(*this, chosen, tokens);
  ++loads_[chosen].requests;
  loads_[chosen].tokens += tokens;
  if (on_lost) {
    stay->watcher_ = ++last_watcher_;
    watchers_[stay->watcher_] = {chosen, std::move(on_lost)};
  }
  return stay;
}

Replicas::Stay::~Stay() {
  const std::lock_guard lock(replicas_.mutex_);
  --replicas_.loads_[rank_].requests;
  replicas_.loads_[rank_].tokens -= tokens_;
  if (watcher_ != 0) replicas_.watchers_.erase(watcher_);
}

bool Replicas::lose(uint32_t rank, const std::string& problem) {
  std::vector<OnLost> told;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    loads_[rank].out = true;
    problems_[rank] = problem.empty() ? "its engine has ended" : problem;
    last = std::ranges::all_of(loads_, &MachineLoad::out);
    for (auto& [number, watcher] : watchers_) {
      if (watcher.rank == rank && watcher.on_lost) told.push_back(std::move(watcher.on_lost));
    }
  }
  const std::string text = name_of(rank) + " is lost: " + problem;
  for (const OnLost& on_lost : told) on_lost(text);
  return last;
}

std::string Replicas::problem_of(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return problems_[rank];
}

void Replicas::count_repeated() {
  const std::lock_guard lock(mutex_);
  ++repeated_;
}

uint64_t Replicas::repeated() const {
  const std::lock_guard lock(mutex_);
  return repeated_;
}

}  // namespace tenon::server
