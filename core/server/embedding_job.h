// One request to /v1/embeddings: all its texts run together.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/server/api/read/other_calls.h"
#include "core/server/http_call.h"
#include "core/server/models/model_metrics.h"
#include "core/server/models/replicas.h"
#include "core/server/models/served_model.h"
#include "core/server/work_pool.h"

namespace tenon::server {

class EmbeddingJob final : public std::enable_shared_from_this<EmbeddingJob> {
 public:
  // What is borrowed outlives it.
  EmbeddingJob(api::EmbeddingCall call, std::shared_ptr<ServedModel> model,
               std::shared_ptr<HttpCall> http, WorkPool& pool);
  void start();  // [pool]

 private:
  class Sink;
  api::Outcome<std::vector<Request>> make_requests();
  void add(uint32_t index, const Embedding& embedding);
  void end(const RequestEnd& end);
  void complete();
  void lose_reader();
  void lose_replica(const std::string& problem);
  void cancel();

  const api::EmbeddingCall call_;
  const std::shared_ptr<ServedModel> lease_;  // the model stays loaded
  ServedModel& model_;  // the first replica's, for all that is the same everywhere
  Replicas& replicas_;
  const std::shared_ptr<HttpCall> http_;
  WorkPool& pool_;
  AdapterPlaces::Held adapter_;           // that a request loaded, and this one names; null: none
  std::unique_ptr<Replicas::Stay> stay_;  // where it is
  std::mutex mutex_;
  std::vector<std::vector<float>> vectors_;
  std::vector<RequestId> ids_;
  size_t ended_ = 0;
  uint64_t prompt_tokens_ = 0;
  bool cancelled_ = false;
  std::optional<api::ApiError> problem_;
};

}  // namespace tenon::server
