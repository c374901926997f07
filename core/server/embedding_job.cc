#include "core/server/embedding_job.h"

namespace tenon::server {

class EmbeddingJob::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<EmbeddingJob> job, uint32_t index, std::shared_ptr<void> slot)
      : job_(std::move(job)), index_(index), slot_(std::move(slot)) {}
  void on_delta(const RequestDelta&) override {}
  void on_embedding(const Embedding& embedding) override { job_->add(index_, embedding); }
  void on_end(const RequestEnd& end) override { job_->end(end); }

 private:
  const std::shared_ptr<EmbeddingJob> job_;
  const uint32_t index_;
  const std::shared_ptr<void> slot_;
};

EmbeddingJob::EmbeddingJob(api::EmbeddingCall call, std::shared_ptr<ServedModel> model,
                           std::shared_ptr<HttpCall> http, WorkPool& pool)
    : call_(std::move(call)),
      lease_(std::move(model)),
      model_(*lease_),
      replicas_(*model_.group),
      http_(std::move(http)),
      pool_(pool) {}

api::Outcome<std::vector<Request>> EmbeddingJob::make_requests() {
  if (model_.pooling == Pooling::none) {
    return api::ApiError{.message = model_.pooling_problem};
  }
  const uint32_t hidden = model_.pipeline->model->plan.hidden;
  if (call_.dimensions && *call_.dimensions != hidden) {
    return api::ApiError{.message = "\"dimensions\" must be " + std::to_string(hidden) +
                                    ": vectors are not cut here",
                         .param = "dimensions"};
  }
  std::vector<Request> requests;
  adapter_ = loaded_adapter(model_, call_.adapter.value_or(""));
  for (const api::PromptInput& input : call_.inputs) {
    auto tokens = encode_input(model_, input, true);
    if (!tokens.ok()) return tokens.error();
    Request request;
    request.prompt = *std::move(tokens);
    request.pooling = model_.pooling;
    request.normalise = model_.normalise;
    request.adapter = call_.adapter.value_or("");
    if (const auto unknown = use_adapter(model_, adapter_, request)) return *unknown;
    request.cache_salt = cache_salt_of(model_, "", adapter_);
    request.tenant = http_->key() == nullptr ? 0 : http_->key()->tenant();
    requests.push_back(std::move(request));
  }
  return requests;
}

void EmbeddingJob::start() {
  http_->name_ignored(call_.ignored);
  auto requests = make_requests();
  if (!requests.ok()) return http_->refuse(requests.error());
  vectors_.resize(requests->size());
  RoutedRequest routed;
  if (!requests->empty()) routed.prompt = requests->front().prompt;
  auto stay = replicas_.enter(routed, http_->place(), {},
                              [weak = weak_from_this()](const std::string& problem) {
                                if (const auto self = weak.lock()) self->lose_replica(problem);
                              });
  if (!stay.ok()) return http_->refuse(stay.error());
  stay_ = std::move(*stay);
  llm::EngineHost& host = *stay_->replica().model->host;
  const auto slot = host.reserve(static_cast<uint32_t>(requests->size()));
  if (slot == nullptr) {
    return http_->refuse({.status = 429,
                          .message = "the queue is full – try again later",
                          .code = "queue_full",
                          .retry_after_s = 1});
  }
  http_->exchange().watch([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->lose_reader();
  });
  for (size_t i = 0; i < vectors_.size(); ++i) {
    Request& request = (*requests)[i];
    const uint64_t prompt_tokens = request.prompt.size();
    const uint64_t room = host.sequence_limit_tokens();
    request.sink = std::make_shared<Sink>(shared_from_this(), static_cast<uint32_t>(i), slot);
    const Result<RequestId> id = host.submit(std::move(request));
    if (!id.ok()) {
      api::ApiError error = api::error_of(id.status());
      error.param = "input";
      if (prompt_tokens >= room) api::tell_context_length(error, prompt_tokens, room);
      api::tell_entry(error, "input", i, vectors_.size());
      http_->refuse(error);
      return cancel();
    }
    const std::lock_guard lock(mutex_);
    ids_.push_back(*id);
    if (cancelled_) host.cancel(*id);
  }
}

void EmbeddingJob::add(uint32_t index, const Embedding& embedding) {
  const std::lock_guard lock(mutex_);
  vectors_[index].assign(embedding.values.begin(), embedding.values.end());
}

void EmbeddingJob::end(const RequestEnd& end) {
  bool all_ended = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ == vectors_.size()) return;  // its replica is lost
    all_ended = ++ended_ == vectors_.size();
    if (end.record != nullptr) prompt_tokens_ += end.record->prompt_tokens;
    if (end.reason == FinishReason::error) {
      problem_ = {.status = 500, .message = std::string(end.message), .code = "engine_error"};
    } else if (end.reason == FinishReason::cancelled) {
      problem_ = {.status = 503, .message = "the server ended this request", .code = "aborted"};
    }
  }
  if (end.record != nullptr) {
    ModelMetrics& metrics = *stay_->replica().metrics;
    metrics.add(end.reason, *end.record);
    metrics.add(RequestShape{});
    if (http_->key() != nullptr) http_->key()->spend_tokens(end.record->prompt_tokens);
  }
  if (all_ended) {
    pool_.post_urgent([self = shared_from_this()] { self->complete(); });
  }
}

void EmbeddingJob::lose_reader() {
  http_->note([](LogEntry& entry) { entry.aborted = true; });
  stay_->replica().metrics->count_aborted();
  cancel();
}

// It can be asked for again, and nothing of it was sent. [step]
void EmbeddingJob::lose_replica(const std::string& problem) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ >= vectors_.size()) return;
    ended_ = vectors_.size();
    problem_ = {.status = 503, .message = problem, .code = "replica_lost", .retry_after_s = 1};
  }
  pool_.post_urgent([self = shared_from_this()] { self->complete(); });
}

void EmbeddingJob::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (const RequestId id : ids_) stay_->replica().model->host->cancel(id);
}

void EmbeddingJob::complete() {
  const std::lock_guard lock(mutex_);
  http_->note([&](LogEntry& entry) { entry.prompt_tokens = prompt_tokens_; });
  if (problem_) return http_->refuse(*problem_);
  http_->answer_json(
      api::embedding_json(call_, call_.adapter.value_or(model_.name), vectors_, prompt_tokens_));
}

}  // namespace tenon::server
