// What the engine says, on its way to the response.
#include <algorithm>
#include <utility>

#include "core/base/quote.h"
#include "core/server/api/read/sampling_fields.h"
#include "core/server/generation/generation.h"

namespace tenon::server {
namespace {

std::vector<api::AnswerToken> kept(std::span<const GeneratedToken> tokens) {
  std::vector<api::AnswerToken> all;
  all.reserve(tokens.size());
  for (const GeneratedToken& token : tokens) {
    all.push_back({token.token, token.logprob, {token.top.begin(), token.top.end()}, token.rank});
  }
  return all;
}

std::string_view prefix_of(api::Dialect dialect) {
  switch (dialect) {
    case api::Dialect::completions:
      return "cmpl-";
    case api::Dialect::chat:
      return "chatcmpl-";
    case api::Dialect::messages:
      return "msg_";
    case api::Dialect::responses:
      return "resp_";
  }
  return "";
}

}  // namespace

// What the engine says about one of the call's prompts.
class Generation::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<Generation> generation, const Place& place, uint32_t prompt,
       const Request& request)
      : generation_(std::move(generation)),
        metrics_(*place.replica.metrics),
        rank_(place.rank),
        attempt_(place.attempt),
        prompt_(prompt),
        first_(request.prompt.empty() ? kNoToken : request.prompt.front()),
        only_first_(request.prompt_logprobs && request.prompt.size() == 1),
        adapter_(generation_->known_adapter(request.adapter)),
        shape_{.samples = request.samples, .max_tokens = generation_->most_tokens(request)},
        slot_(place.slot) {
    metrics_.note_adapter(adapter_, 1, 0);
  }
  ~Sink() override { metrics_.note_adapter(adapter_, has_begun_ ? 0 : -1, has_begun_ ? -1 : 0); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void on_delta(const RequestDelta& delta) override {
    begin();
    show_only_token();
    api::AnswerEvent event;
    event.prompt = prompt_;
    event.sample = delta.sample;
    event.text = delta.text;
    for (const GeneratedToken& token : delta.tokens) event.ids.push_back(token.token);
    if (delta.record != nullptr) {
      event.prompt_tokens = delta.record->prompt_tokens;
      event.cached_tokens = delta.record->reused_tokens;
    }
    const api::GenerationCall& call = generation_->call_;
    if (call.logprobs || call.token_ids) event.tokens = kept(delta.tokens);
    generation_->push(std::move(event), attempt_);
  }
  void on_prompt(const PromptDelta& delta) override {
    auto tokens = kept(delta.tokens);
    // Nothing stands before the first token, so that the engine has nothing to say about it.
    if (delta.position == 1) tokens.insert(tokens.begin(), {.id = first_});
    show_prompt(std::move(tokens));
  }
  void on_end(const RequestEnd& end) override {
    show_only_token();
    api::AnswerEvent event;
    event.kind = api::AnswerEvent::Kind::end;
    event.prompt = prompt_;
    event.sample = end.sample;
    event.reason = end.reason;
    event.message = end.message;
    event.blame = end.blame;
    if (end.blame == Blame::request) {
      // By the name that the field has in the request.
      event.message = api::error_about(generation_->call_, "allowed_tokens", event.message).message;
    }
    event.stop = end.stop;
    event.is_aborted = end.reason == FinishReason::cancelled && generation_->is_aborted_;
    if (end.record != nullptr) {
      event.prompt_tokens = end.record->prompt_tokens;
      event.generated_tokens = end.record->generated_tokens;
      event.cached_tokens = end.record->reused_tokens;
      metrics_.add(end.reason, *end.record);
      shape_.longest_tokens = std::max(shape_.longest_tokens, end.record->generated_tokens);
      if (++ended_ == shape_.samples) metrics_.add(shape_);
      if (RequestTrace* trace = generation_->http_->trace()) {
        trace->add(*end.record, finish_reason_name(end.reason),
                   generation_->model_.pipeline->clock->now_ns());
      }
      // Once a prompt, whatever its samples; of requests that were cut off too.
      const uint64_t prompt_tokens = end.sample == 0 ? end.record->prompt_tokens : 0;
      if (Key* key = generation_->http_->key()) {
        key->spend_tokens(prompt_tokens + end.record->generated_tokens);
      }
    }
    const bool may_go_elsewhere = end.reason == FinishReason::error && end.blame == Blame::server;
    const std::string where = "replica " + std::to_string(rank_) + ": ";
    if (may_go_elsewhere && generation_->make_again(attempt_, where + event.message, false)) return;
    generation_->push(std::move(event), attempt_);
  }

 private:
  void begin() {
    if (std::exchange(has_begun_, true)) return;
    metrics_.note_adapter(adapter_, -1, 1);
  }
  void show_only_token() {
    if (only_first_) show_prompt({{.id = first_}});
    only_first_ = false;
  }
  void show_prompt(std::vector<api::AnswerToken> tokens) {
    api::AnswerEvent event;
    event.kind = api::AnswerEvent::Kind::prompt;
    event.prompt = prompt_;
    event.tokens = std::move(tokens);
    generation_->push(std::move(event), attempt_);
  }

  const std::shared_ptr<Generation> generation_;
  ModelMetrics& metrics_;  // of the replica
  const uint32_t rank_;    // the replica's
  const uint32_t attempt_;
  const uint32_t prompt_;
  const TokenId first_;
  bool only_first_;  // of a prompt that is shown and has no other token, and is still to be shown
  const std::string adapter_;
  bool has_begun_ = false;  // to answer
  RequestShape shape_;
  uint32_t ended_ = 0;
  const std::shared_ptr<void> slot_;
};

std::shared_ptr<RequestSink> Generation::make_sink(const Place& place, uint32_t prompt,
                                                   const Request& request) {
  return std::make_shared<Sink>(shared_from_this(), place, prompt, request);
}

api::WriterContext Generation::writer_context() const {
  return {.call = &call_,
          .id = std::string(prefix_of(call_.dialect)) + http_->id(),
          .model = call_.model.empty() ? model_.name : call_.model,
          .fingerprint = "tenon-" + model_.pipeline->hash,
          .created = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count(),
          .token_text = token_text_of(model_),
          .reader = model_.reader,
          .prompt_texts = prompt_texts_,
          .prompt_ids = prompt_ids_,
          .kv_transfer = kv_transfer_,
          .reasoning_field = setting_.reasoning_field};
}

void Generation::push(api::AnswerEvent event, uint32_t attempt) {
  const bool is_end = event.kind == api::AnswerEvent::Kind::end;
  bool all_ended = false;
  bool overflowed = false;
  bool is_first = false;  // its reader waits, or will look
  {
    const std::lock_guard lock(mutex_);
    if (attempt != attempt_) return;
    if (!replicas_.is_one() && !progress_.pass(event)) return;
    is_first = events_.empty();
    if (is_end) all_ended = ++samples_ended_ == samples_expected_;
    if (all_ended) stay_.reset();
    if (!has_token_ && event.kind == api::AnswerEvent::Kind::delta) {
      has_token_ = true;
      const auto passed = std::chrono::steady_clock::now() - http_->started();
      http_->note([&](LogEntry& entry) {
        entry.first_token_ms = std::chrono::duration<double, std::milli>(passed).count();
      });
    }
    if (overflowed_ || (cancelled_ && !is_end)) return;
    queued_bytes_ += event.bytes();
    overflowed = call_.stream && queued_bytes_ > setting_.queue_bytes;
    if (overflowed) {
      overflowed_ = true;
      events_.clear();
    } else {
      events_.push_back(std::move(event));
    }
  }
  if (overflowed) {
    lose_reader();
    model_metrics().count_slow_reader();
  }
  if (call_.stream) {
    if (is_first || overflowed) http_->exchange().wake();
  } else if (all_ended) {
    pool_.post_urgent([self = shared_from_this()] { self->complete(); });
  }
}

void Generation::write_down(std::deque<api::AnswerEvent>& events, std::string& out) {
  for (const api::AnswerEvent& event : events) writer_->take(event, out);
}

http::BodyStream::Next Generation::take(std::string& out) {
  if (finished_) return Next::end;
  std::deque<api::AnswerEvent> events;
  bool all_ended = false;
  {
    const std::lock_guard lock(mutex_);
    if (overflowed_) return Next::broken;
    events.swap(events_);
    queued_bytes_ = 0;
    all_ended = samples_ended_ == samples_expected_;
  }
  write_down(events, out);
  if (!all_ended && !writer_->problem()) return Next::more;
  finished_ = true;
  if (writer_->problem()) {
    http_->note([&](LogEntry& entry) { entry.error = one_line(writer_->problem()->message); });
    writer_->fail(*writer_->problem(), out);
    if (!all_ended) cancel();
  } else {
    writer_->finish(out);
  }
  note_usage();
  return Next::end;
}

void Generation::complete() {
  std::deque<api::AnswerEvent> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  std::string body;
  write_down(events, body);
  note_usage();
  if (writer_->problem()) return http_->refuse(*writer_->problem());
  writer_->finish(body);
  http_->answer_json(std::move(body));
}

void Generation::note_usage() {
  const api::Usage usage = writer_->usage();
  http_->note([&](LogEntry& entry) {
    entry.prompt_tokens = usage.prompt_tokens;
    entry.generated_tokens = usage.generated_tokens;
    entry.cached_tokens = usage.cached_tokens;
  });
}

}  // namespace tenon::server
