// One request to a generating endpoint: from its tokens to the last byte of its response.
//
//   pool         start(): template, tokens, submission
//   step thread  sinks put what the engine says into a queue
//   I/O thread   take(): out of the queue, written down, to the client
//
// The queue of a stream is bounded. Who reads so slowly that it overflows ends its own request:
// the engine drops it, and the connection is closed without an end of the stream. Everybody else
// goes on as if nothing had happened, since the step thread never waits.
//
// Where a model has several replicas, a call that one of them fails is made again by another: its
// reader gets the rest, since the tokens are the same.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/grammar/grammar.h"
#include "core/server/api/write/writer.h"
#include "core/server/generation/answer_progress.h"
#include "core/server/http_call.h"
#include "core/server/models/model_metrics.h"
#include "core/server/models/replicas.h"
#include "core/server/models/served_model.h"
#include "core/server/running_requests.h"
#include "core/server/work_pool.h"

namespace tenon::server {

// Holds a request to the form that its answer must have, before it is submitted; the model's
// reasoning may precede it. Errors: the form is not understood, or not supported. [pool]
using FormConstrainer = std::function<Status(
    const api::AnswerForm& form, const std::optional<grammar::Preface>& preface, Request& request)>;

struct GenerationSetting {
  size_t queue_bytes = size_t{1} << 20;  // of events that a stream's reader has not taken
  FormConstrainer constrain = {};        // empty: no forms
  RunningRequests* running = nullptr;    // borrowed; null: none can be aborted by name
  api::ReasoningField reasoning_field = api::ReasoningField::both;
};

class Generation final : public http::BodyStream, public std::enable_shared_from_this<Generation> {
 public:
  // What is borrowed outlives it.
  Generation(api::GenerationCall call, std::shared_ptr<ServedModel> model,
             std::shared_ptr<HttpCall> http, WorkPool& pool, const GenerationSetting& setting);
  ~Generation() override;

  void start();                          // [pool]
  void abort();                          // its sender wants no more of it [any thread]
  Next take(std::string& out) override;  // [I/O]

 private:
  class Sink;
  // Where an attempt runs.
  struct Place {
    Replica replica;
    uint32_t rank = 0;
    uint32_t attempt = 0;
    std::shared_ptr<void> slot;
  };

  // From the call to requests (generation_requests.cc).
  api::Outcome<std::vector<Request>> make_requests();
  api::Outcome<std::vector<std::vector<TokenId>>> encode();
  std::optional<api::ApiError> fault_of(const Request& request) const;
  std::string known_adapter(const std::string& name) const;
  uint32_t most_tokens(const Request& request) const;
  // These say why it is refused; nothing: it goes well.
  std::optional<api::ApiError> enter(std::span<const Request> requests, uint32_t attempt);
  std::optional<api::ApiError> submit(std::vector<Request> requests, uint32_t attempt);
  // The first replica's: who counts requests that were given up looks at all of them.
  ModelMetrics& model_metrics() const { return *replicas_.all().front().metrics; }
  // On another replica (generation_again.cc).
  void hear_of_loss(uint32_t attempt, const std::string& problem);
  bool make_again(uint32_t attempt, const std::string& problem, bool is_lost);
  void begin_again(uint32_t attempt, const std::string& problem, bool is_lost);
  void fail_rest(uint32_t attempt, const std::string& problem, bool is_lost);
  void lose_reader();
  void cancel();
  // From what the engine says to the response (generation_events.cc).
  std::shared_ptr<RequestSink> make_sink(const Place& place, uint32_t prompt,
                                         const Request& request);
  api::WriterContext writer_context() const;
  void push(api::AnswerEvent event, uint32_t attempt);
  void complete();
  void write_down(std::deque<api::AnswerEvent>& events, std::string& out);
  void note_usage();

  static PlaceWish wish_of(const api::GenerationCall& call, const HttpCall& http);

  const api::GenerationCall call_;
  const std::shared_ptr<ServedModel> lease_;  // the model stays loaded
  ServedModel& model_;  // the first replica's, for all that is the same everywhere
  Replicas& replicas_;
  const PlaceWish wish_;  // among them
  const std::shared_ptr<HttpCall> http_;
  WorkPool& pool_;
  const GenerationSetting& setting_;
  std::unique_ptr<api::AnswerWriter> writer_;
  std::vector<std::string> prompt_texts_;
  std::vector<TokenId> prompt_ids_;
  api::Json kv_transfer_;        // that the response says
  AdapterPlaces::Held adapter_;  // that a request loaded, and this one names; null: none
  uint32_t samples_expected_ = 0;
  std::atomic<bool> is_aborted_{false};
  uint64_t running_ = 0;  // its number in `setting_.running`; 0: it is not there

  // Of a model with several replicas: what was submitted, and where it was already.
  std::vector<Request> requests_;
  std::vector<uint32_t> was_at_;

  std::mutex mutex_;
  std::unique_ptr<Replicas::Stay> stay_;  // where it is; null once all has ended
  std::shared_ptr<void> slot_;            // room there, until its sinks have it
  uint32_t attempt_ = 0;                  // what earlier ones say does not count any more
  AnswerProgress progress_;
  std::deque<api::AnswerEvent> events_;
  size_t queued_bytes_ = 0;
  uint32_t samples_ended_ = 0;
  std::vector<RequestId> ids_;
  bool cancelled_ = false;
  bool overflowed_ = false;
  bool has_token_ = false;
  bool finished_ = false;  // [I/O] the end was written
};

}  // namespace tenon::server
