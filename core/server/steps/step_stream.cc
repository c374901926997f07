#include "core/server/steps/step_stream.h"

#include <charconv>

#include "core/base/quote.h"
#include "core/server/api/write/step_json.h"
#include "core/server/query.h"

namespace tenon::server {
namespace {

// Written down in one go; others' requests have their turn in between.
constexpr size_t kStepsAtOnce = 32;

// What does not change from step to step: what the engine is made of.
api::Json engine_json(const ServedModel& model) {
  const EngineParts& parts = model.host->parts();
  api::Json plugins = {{"scheduler", parts.scheduler_name},
                       {"kv_cache", parts.kv_cache_name},
                       {"sampler", parts.sampler_name}};
  if (parts.drafter != nullptr) plugins["drafter"] = parts.drafter_name;
  plugins["executor"] = model.pipeline->config.executor.value;
  const bool has_blocks = parts.geometry.group_count > 0;
  const KvGroupGeometry group =
      has_blocks ? parts.geometry.groups[parts.shape->ledger_group] : KvGroupGeometry{};
  return {{"model", model.name},
          {"pipeline", model.pipeline->hash},
          {"plugins", std::move(plugins)},
          {"blocks", group.blocks},
          {"block_tokens", group.block_tokens},
          {"max_sequences", parts.limits.max_sequences},
          {"max_batch_tokens", parts.limits.max_batch_tokens},
          {"context_tokens", model.host->sequence_limit_tokens()}};
}

class StepStream final : public http::BodyStream {
 public:
  StepStream(std::shared_ptr<HttpCall> call, std::unique_ptr<StepFeed::Reader> reader,
             const ServedModel& model)
      : call_(std::move(call)), reader_(std::move(reader)) {
    api::append_event(engine_json(model), head_, "engine");
  }

  Next take(std::string& out) override {
    out += std::exchange(head_, {});
    const StepFeed::Reader::Taken taken = reader_->take(kStepsAtOnce);
    if (taken.dropped > 0) api::append_event({{"steps", taken.dropped}}, out, "dropped");
    for (const StepFeed::KeptStep& step : taken.steps) {
      out.append("event: step\nid: ").append(std::to_string(step->record.step_id));
      out += "\ndata: ";
      api::append_step_json(*step, out);
      out += "\n\n";
    }
    return taken.closed ? Next::end : Next::more;
  }

 private:
  const std::shared_ptr<HttpCall> call_;  // it is over when the stream is
  const std::unique_ptr<StepFeed::Reader> reader_;
  std::string head_;
};

std::optional<uint64_t> step_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

api::Outcome<StepQuery> read_step_query(std::string_view query) {
  constexpr std::string_view kKnown[] = {"model", "rank", "since"};
  auto fields = read_query(query, kKnown);
  if (!fields.ok()) return fields.error();
  StepQuery read;
  read.model = query_value(*fields, "model");
  if (const auto rank = fields->find("rank"); rank != fields->end()) {
    const std::optional<uint64_t> number = step_number(rank->second);
    if (!number || *number > UINT32_MAX) {
      return api::ApiError{
          .message = "\"rank\" is " + in_quotes(rank->second) + " – it must be a replica's rank",
          .param = "rank"};
    }
    read.rank = static_cast<uint32_t>(*number);
  }
  const auto since = fields->find("since");
  if (since == fields->end()) return read;
  read.since = step_number(since->second);
  if (read.since) return read;
  return api::ApiError{
      .message = "\"since\" is " + in_quotes(since->second) + " – it must be a step's id",
      .param = "since"};
}

void stream_steps(const std::shared_ptr<HttpCall>& call, const ServedModel& model, StepFeed& feed,
                  std::optional<uint64_t> since) {
  auto reader = feed.open(since, [call] { call->exchange().wake(); });
  if (reader == nullptr) {
    return call->refuse({.status = 429,
                         .message = std::to_string(feed.readers()) +
                                    " readers watch this engine already – close one",
                         .code = "too_many_readers",
                         .retry_after_s = 10});
  }
  http::Response response;
  response.fields = {{"Content-Type", "text/event-stream; charset=utf-8"},
                     {"Cache-Control", "no-cache"},
                     {"X-Accel-Buffering", "no"}};
  response.stream = std::make_shared<StepStream>(call, std::move(reader), model);
  call->answer(std::move(response));
}

}  // namespace tenon::server
