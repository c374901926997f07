// The engines that serve one model (parallel.data), and which of them a request goes to.
//
// It goes where its sender wants it (the header X-data-parallel-rank, or a field of the body), else
// where its session is (the header X-Session-Id), else where most of its prompt was sent before,
// unless much more is to do there than elsewhere (Routing::prefix; without a prefix cache:
// least_load).
//
// An engine that cannot go on is lost: it gets nothing more, and who waits for it is told.
//
// [any thread]
#pragma once

#include <tenon/types.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/routing/router.h"
#include "core/server/api/write/error.h"

namespace tenon::server {

struct ServedModel;
class ModelMetrics;

// What a request says about its place.
struct PlaceWish {
  std::optional<std::string> rank;                 // as it was written
  std::string session;                             // X-Session-Id; empty: it belongs to none
  std::string rank_name = "X-data-parallel-rank";  // the header or field that says so
};

struct Replica {
  ServedModel* model = nullptr;  // borrowed, as `metrics`
  ModelMetrics* metrics = nullptr;
};

// What a request is, for routing.
struct RoutedRequest {
  std::span<const TokenId> prompt = {};
  uint64_t answer_tokens = 0;  // at most
  uint64_t salt = 0;
};

class Replicas {
 public:
  // `finds_prefixes`: the engines keep what prompts have computed.
  Replicas(std::string model, std::vector<Replica> replicas, bool finds_prefixes);

  const std::vector<Replica>& all() const { return replicas_; }
  bool is_one() const { return replicas_.size() == 1; }
  size_t size() const { return replicas_.size(); }

  // A request's stay with one of them; its load counts there until it is gone.
  class Stay {
   public:
    Stay(Replicas& replicas, uint32_t rank, uint64_t tokens)
        : replicas_(replicas), rank_(rank), tokens_(tokens) {}
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    uint32_t rank() const { return rank_; }
    const Replica& replica() const { return replicas_.replicas_[rank_]; }

   private:
    friend class Replicas;
    Replicas& replicas_;
    uint32_t rank_;
    uint64_t tokens_;
    uint64_t watcher_ = 0;
  };
  using OnLost = std::function<void(const std::string& problem)>;
  // `not_at`: ranks that it was at already. `on_lost` (may be empty) is called once at most, by the
  // thread that calls `lose`, if the replica is lost while the stay lasts. Errors: status 400 (a
  // rank that is none), 503 (the wished one is lost, or all that are left).
  api::Outcome<std::unique_ptr<Stay>> enter(const RoutedRequest& request, const PlaceWish& wish,
                                            std::span<const uint32_t> not_at, OnLost on_lost);
  // The engine cannot go on. True: it was the last one.
  bool lose(uint32_t rank, const std::string& problem);
  // "replica 1 of model "tale" is lost: …"; empty: it works.
  std::string problem_of(uint32_t rank) const;
  void count_repeated();
  uint64_t repeated() const;

 private:
  api::ApiError lost_error(std::string message) const;
  api::Outcome<uint32_t> wished_rank(const PlaceWish& wish) const;
  std::string name_of(uint32_t rank) const;

  const std::string model_;
  const std::vector<Replica> replicas_;
  mutable std::mutex mutex_;
  Router router_;
  std::vector<MachineLoad> loads_;
  std::vector<std::string> problems_;
  struct Watcher {
    uint32_t rank = 0;
    OnLost on_lost;
  };
  std::map<uint64_t, Watcher> watchers_;
  uint64_t last_watcher_ = 0;
  uint64_t repeated_ = 0;
};

}  // namespace tenon::server
