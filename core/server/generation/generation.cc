#include "core/server/generation/generation.h"

#include "core/server/generation/transferring.h"

namespace tenon::server {

Generation::Generation(api::GenerationCall call, std::shared_ptr<ServedModel> model,
                       std::shared_ptr<HttpCall> http, WorkPool& pool,
                       const GenerationSetting& setting)
    : call_(std::move(call)),
      lease_(std::move(model)),
      model_(*lease_),
      replicas_(*model_.group),
      wish_(wish_of(call_, *http)),
      http_(std::move(http)),
      pool_(pool),
      setting_(setting) {}

Generation::~Generation() {
  if (running_ != 0) setting_.running->remove(call_.request_name, running_);
}

void Generation::start() {
  std::vector<std::string> ignored = call_.ignored;
  const std::string unused = unused_transfer(call_, model_);
  if (!unused.empty()) ignored.push_back(unused);
  http_->name_ignored(ignored);
  auto requests = make_requests();
  if (!requests.ok()) return http_->refuse(requests.error());
  const auto attached = attach_transfer(call_, model_, *requests, kv_transfer_);
  if (!attached.ok()) return http_->refuse(attached.error());
  if (!replicas_.is_one()) requests_ = *requests;
  writer_ = api::make_writer(writer_context());
  if (const auto refused = enter(*requests, 0)) return http_->refuse(*refused);
  http_->exchange().watch([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->lose_reader();
  });
  if (setting_.running != nullptr && !call_.request_name.empty()) {
    running_ = setting_.running->add(call_.request_name, http_->key(), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->abort();
    });
  }
  if (const auto refused = submit(*std::move(requests), 0)) {
    http_->refuse(*refused);
    return cancel();
  }
  if (!call_.stream) return;
  http::Response response;
  response.fields = {{"Content-Type", "text/event-stream; charset=utf-8"},
                     {"Cache-Control", "no-cache"},
                     {"X-Accel-Buffering", "no"}};
  response.stream = shared_from_this();
  http_->answer(std::move(response));
}

// A place among the replicas, with room for all of them.
std::optional<api::ApiError> Generation::enter(std::span<const Request> requests,
                                               uint32_t attempt) {
  RoutedRequest routed{.salt = cache_salt_of(model_, call_.cache_salt, adapter_)};
  if (!requests.empty()) routed.prompt = requests.front().prompt;
  for (const Request& request : requests) {
    routed.answer_tokens += uint64_t{most_tokens(request)} * request.samples;
  }
  std::vector<uint32_t> not_at = was_at_;
  for (;;) {
    Replicas::OnLost on_lost;
    if (!replicas_.is_one()) {
      on_lost = [weak = weak_from_this(), attempt](const std::string& problem) {
        if (const auto self = weak.lock()) self->hear_of_loss(attempt, problem);
      };
    }
    auto stay = replicas_.enter(routed, wish_, not_at, std::move(on_lost));
    if (!stay.ok()) return stay.error();
    llm::EngineHost& host = *(*stay)->replica().model->host;
    auto slot = host.reserve(static_cast<uint32_t>(requests.size()));
    if (slot != nullptr) {
      const std::lock_guard lock(mutex_);
      stay_ = std::move(*stay);
      slot_ = std::move(slot);
      return std::nullopt;
    }
    not_at.push_back((*stay)->rank());
    if (not_at.size() < replicas_.size() && !wish_.rank) continue;
    return api::ApiError{.status = 429,
                         .message = "the queue is full: " + std::to_string(host.live_requests()) +
                                    " requests run or wait – try again later",
                         .code = "queue_full",
                         .retry_after_s = 1};
  }
}

// All of them, or none: where one is refused, so is the call.
std::optional<api::ApiError> Generation::submit(std::vector<Request> requests, uint32_t attempt) {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    if (attempt != attempt_ || stay_ == nullptr) return std::nullopt;  // it is made again already
    place = {stay_->replica(), stay_->rank(), attempt, std::move(slot_)};
  }
  llm::EngineHost& host = *place.replica.model->host;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto fault = fault_of(requests[i]);
    requests[i].sink = make_sink(place, static_cast<uint32_t>(i), requests[i]);
    Result<RequestId> id = host.submit(std::move(requests[i]));
    if (!id.ok()) {
      api::ApiError error = fault.value_or(api::error_of(id.status()));
      // A full inbox is nobody's fault.
      if (id.status().code() == StatusCode::failed) error.status = 429, error.retry_after_s = 1;
      api::tell_entry(error, "prompt", i, requests.size());
      return error;
    }
    const std::lock_guard lock(mutex_);
    const bool is_over = attempt != attempt_;
    if (!is_over) ids_.push_back(*id);
    if (is_over || cancelled_) host.cancel(*id);
  }
  return std::nullopt;
}

// The log, the trace and the figures say so, and nobody needs the rest.
void Generation::lose_reader() {
  http_->note([](LogEntry& entry) { entry.aborted = true; });
  model_metrics().count_aborted();
  cancel();
}

void Generation::abort() {
  is_aborted_ = true;
  http_->note([](LogEntry& entry) { entry.aborted = true; });
  model_metrics().count_aborted();
  cancel();
}

void Generation::cancel() {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return;
  cancelled_ = true;
  if (stay_ == nullptr) return;
  for (const RequestId id : ids_) stay_->replica().model->host->cancel(id);
}

}  // namespace tenon::server
