#include "core/server/generation/generation.h"

#include <algorithm>
#include <random>

#include "core/base/quote.h"
#include "core/pipeline/make_request.h"
#include "core/server/api/read/sampling_fields.h"
#include "core/server/generation/answer_form.h"
#include "core/server/generation/transferring.h"

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

uint64_t draw_seed() {
  return std::random_device{}();
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

api::Outcome<std::vector<std::vector<TokenId>>> Generation::encode() {
  std::vector<std::vector<TokenId>> all;
  if (call_.dialect != api::Dialect::completions) {
    auto encoded = encode_conversation(model_, call_);
    if (!encoded.ok()) return encoded.error();
    prompt_texts_.push_back(std::move(encoded->text));
    prompt_ids_ = encoded->tokens;
    all.push_back(std::move(encoded->tokens));
    return all;
  }
  for (const api::PromptInput& prompt : call_.prompts) {
    auto tokens = encode_input(model_, prompt, call_.add_special);
    if (!tokens.ok()) return tokens.error();
    if (call_.echo && !prompt.tokens) prompt_texts_.push_back(prompt.text);
    if (call_.echo && prompt.tokens && model_.pipeline->tokenizer != nullptr) {
      Result<std::string> text = model_.pipeline->tokenizer->decode(*tokens, false);
      if (!text.ok()) return api::error_of(text.status());
      prompt_texts_.push_back(*std::move(text));
    }
    all.push_back(*std::move(tokens));
  }
  if (all.size() == 1) prompt_ids_ = all.front();
  return all;
}

api::Outcome<std::vector<Request>> Generation::make_requests() {
  auto prompts = encode();
  if (!prompts.ok()) return prompts.error();
  AnswerSettings answer = call_.answer;
  if (call_.draws_seed) {
    answer.seed = draw_seed();
  } else if (!answer.seed && !model_.pipeline->config.seed.value && model_.random_seeds) {
    answer.seed = draw_seed();
  }
  std::vector<Request> requests;
  adapter_ = loaded_adapter(model_, answer.adapter.value_or(""));
  for (std::vector<TokenId>& prompt : *prompts) {
    std::string_view setting;
    Result<Request> request = make_request(*model_.pipeline, answer, std::move(prompt), &setting);
    if (!request.ok()) {
      api::ApiError error = api::error_about(call_, setting, message_of(request.status()));
      error.status = api::error_of(request.status()).status;
      return error;
    }
    if (const auto unknown = use_adapter(model_, adapter_, *request)) return *unknown;
    if (call_.form && setting_.constrain) {
      const Status held =
          setting_.constrain(*call_.form, preface_of(model_, call_, prompt_texts_), *request);
      if (!held.ok()) {
        return api::ApiError{.message = message_of(held), .param = call_.form->field};
      }
      if (requests.empty()) http_->tell_schema_notes(request->grammar->notes());
    }
    std::vector<std::vector<TokenId>>& bad_words = request->lists.bad_words;
    bad_words.insert(bad_words.end(), call_.bad_word_ids.begin(), call_.bad_word_ids.end());
    request->priority = call_.priority;
    request->tenant = http_->key() == nullptr ? 0 : http_->key()->tenant();
    request->cache_salt = cache_salt_of(model_, call_.cache_salt, adapter_);
    request->cache_hit_threshold = call_.cache_hit_threshold;
    samples_expected_ += request->samples;
    requests.push_back(*std::move(request));
  }
  return requests;
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

// Empty: the base model, or a name that will be refused.
std::string Generation::known_adapter(const std::string& name) const {
  if (adapter_ != nullptr) return adapter_->name();
  const auto& all = model_.host->parts().adapters;
  return std::ranges::find(all, name) == all.end() ? std::string() : name;
}

// Of each of its answers.
uint32_t Generation::most_tokens(const Request& request) const {
  if (request.max_tokens > 0) return request.max_tokens;
  const uint32_t limit = model_.host->sequence_limit_tokens();
  return limit - std::min<uint32_t>(limit, static_cast<uint32_t>(request.prompt.size()));
}

// Why the engine will not take it, and the field that is to blame.
std::optional<api::ApiError> Generation::fault_of(const Request& request) const {
  const std::vector<RequestFault> faults = model_.host->faults_of(request);
  if (faults.empty()) return std::nullopt;
  std::string_view setting = faults.front().setting;
  std::string text;
  for (const RequestFault& fault : faults) {
    if (fault.setting != setting) setting = {};
    text += (text.empty() ? "" : "\n") + fault.text;
  }
  api::ApiError error = api::error_about(call_, setting, std::move(text));
  const uint64_t room = model_.host->sequence_limit_tokens();
  const bool is_long = setting == "max_tokens" && request.prompt.size() + request.max_tokens > room;
  if (is_long || request.prompt.size() >= room) {
    api::tell_context_length(error, request.prompt.size(), room,
                             call_.dialect == api::Dialect::messages);
  }
  return error;
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
    requests[i].sink =
        std::make_shared<Sink>(shared_from_this(), place, static_cast<uint32_t>(i), requests[i]);
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
