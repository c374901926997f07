// A call that a replica fails is made again by another one, as long as there is one that it was not
// at. Its reader gets what it has not got yet.
#include "core/server/generation/generation.h"

namespace tenon::server {

// The head says it before the body.
PlaceWish Generation::wish_of(const api::GenerationCall& call, const HttpCall& http) {
  PlaceWish wish = http.place();
  if (wish.rank || !call.engine_rank) return wish;
  wish.rank = std::to_string(*call.engine_rank);
  wish.rank_name = '"' + call.engine_rank_name + '"';
  return wish;
}

// [step]
void Generation::hear_of_loss(uint32_t attempt, const std::string& problem) {
  if (!make_again(attempt, problem, true)) fail_rest(attempt, problem, true);
}

// False: it is not made again, and ends with what went wrong. [step]
bool Generation::make_again(uint32_t attempt, const std::string& problem, bool is_lost) {
  uint32_t next = 0;
  {
    const std::lock_guard lock(mutex_);
    if (attempt != attempt_ || samples_ended_ == samples_expected_) return true;
    const bool was_everywhere = was_at_.size() + 1 >= replicas_.size();
    if (cancelled_ || was_everywhere || wish_.rank) return false;
    next = ++attempt_;
    progress_.begin_again();
  }
  pool_.post_urgent([self = shared_from_this(), next, problem, is_lost] {
    self->begin_again(next, problem, is_lost);
  });
  return true;
}

// [pool]
void Generation::begin_again(uint32_t attempt, const std::string& problem, bool is_lost) {
  {
    const std::lock_guard lock(mutex_);
    was_at_.push_back(stay_->rank());
    // Its other prompts and samples may run there still.
    for (const RequestId id : ids_) stay_->replica().model->host->cancel(id);
    ids_.clear();
    stay_.reset();
  }
  std::optional<api::ApiError> refused = enter(requests_, attempt);
  if (!refused) {
    replicas_.count_repeated();
    refused = submit(requests_, attempt);
  }
  if (refused) fail_rest(attempt, problem + "\nit is not made again: " + refused->message, is_lost);
}

// Of all answers that have not ended.
void Generation::fail_rest(uint32_t attempt, const std::string& problem, bool is_lost) {
  for (uint32_t prompt = 0; prompt < requests_.size(); ++prompt) {
    for (uint32_t sample = 0; sample < requests_[prompt].samples; ++sample) {
      api::AnswerEvent event;
      event.kind = api::AnswerEvent::Kind::end;
      event.prompt = prompt;
      event.sample = sample;
      event.reason = FinishReason::error;
      event.message = problem;
      event.is_lost = is_lost;
      push(std::move(event), attempt);
    }
  }
}

}  // namespace tenon::server
