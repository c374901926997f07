// The paths of vLLM and SGLang by which routers and tools ask what runs here, and how busy it is.
#include <charconv>

#include "core/base/quote.h"
#include "core/server/models/model_facts.h"
#include "core/server/query.h"
#include "core/server/service.h"

namespace tenon::server {
namespace {

// A page of another site can send this without being asked for leave (CORS): a browser says so.
bool is_from_elsewhere(const http::Request& request, const std::string& cors_origin) {
  if (const std::string* site = request.find("sec-fetch-site")) {
    if (*site == "same-origin" || *site == "none") return false;
  }
  const std::string* origin = request.find("origin");
  if (origin != nullptr && (cors_origin == "*" || *origin == cors_origin)) return false;
  return origin != nullptr || request.find("sec-fetch-site") != nullptr;
}

bool is_waiting_time(const std::string& text) {
  double seconds = -1.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && end == text.data() + text.size() && seconds >= 0.0;
}

}  // namespace

api::Outcome<Service::Lease> Service::model_in_query(const http::Request& request) {
  constexpr std::string_view kKnown[] = {"model"};
  const auto query = read_query(request.query, kKnown);
  if (!query.ok()) return query.error();
  return loaded_model(query_value(*query, "model"));
}

void Service::tokenizer_info(const Call& call, const http::Request& request) {
  const auto model = model_in_query(request);
  if (!model.ok()) return call->refuse(model.error());
  if ((*model)->pipeline->tokenizer == nullptr) {
    return call->refuse({.message = "the model has no tokenizer: " +
                                    message_of((*model)->pipeline->tokenizer_problem)});
  }
  call->answer_json((*model)->tokenizer_info);
}

void Service::model_info(const Call& call, const http::Request& request) {
  const auto model = model_in_query(request);
  if (!model.ok()) return call->refuse(model.error());
  call->answer_json(model_info_json(**model));
}

void Service::server_info(const Call& call, const http::Request& request) {
  const auto model = model_in_query(request);
  if (!model.ok()) return call->refuse(model.error());
  call->answer_json(server_info_json(**model, options_.version));
}

void Service::load(const Call& call, const http::Request&) {
  uint64_t requests = 0;
  for (const Lease& model : loaded_models()) {
    for (const ServedModel* engine : model->engines()) requests += engine->host->live_requests();
  }
  call->answer_json(api::to_text({{"server_load", requests}}));
}

// Weights and K/V stay where they are from start to end.
void Service::is_sleeping(const Call& call, const http::Request&) {
  call->answer_json(api::to_text({{"is_sleeping", false}}));
}

// By the rank of the engine: there is one, 0, or none that publishes.
void Service::kv_event_sources(const Call& call, const http::Request&) {
  api::Json sources = api::Json::object();
  if (options_.kv_events != nullptr) {
    const KvEventOptions& source = options_.kv_events->options();
    const std::string& replay = source.replay_endpoint;
    sources["0"] = {{"enable_kv_cache_events", true},
                    {"publisher", "zmq"},
                    {"endpoint", source.endpoint},
                    {"replay_endpoint", replay.empty() ? api::Json() : api::Json(replay)},
                    {"buffer_steps", source.buffer_steps},
                    {"hwm", source.high_water_mark},
                    {"max_queue_size", source.queue_batches},
                    {"topic", source.topic},
                    {"encoding", encoding_name(source.form)},
                    {"schema_version", 1}};
  }
  call->answer_json(api::to_text(sources));
}

void Service::get_load(const Call& call, const http::Request&) {
  api::Json loads = api::Json::array();
  for (const Lease& model : loaded_models()) {
    for (const ServedModel* engine : model->engines()) loads.push_back(load_json(*engine));
  }
  call->answer_json(api::to_text(loads));
}

// Nothing is taken out of the cache: from now on requests look for K/V under another salt, and the
// old K/V goes as its memory is needed. So it works while requests run.
void Service::flush_cache(const Call& call, const http::Request& request) {
  if (is_from_elsewhere(request, options_.cors_origin)) {
    return call->refuse(
        {.status = 403,
         .message = "a page of another site asks for this – only pages of --cors-origin may"});
  }
  constexpr std::string_view kKnown[] = {"model", "timeout"};
  const auto query = read_query(request.query, kKnown);
  if (!query.ok()) return call->refuse(query.error());
  const auto timeout = query->find("timeout");
  if (timeout != query->end() && !is_waiting_time(timeout->second)) {
    return call->refuse({.message = "\"timeout\" is " + in_quotes(timeout->second) +
                                    " – it must be a number of seconds, 0 or more",
                         .param = "timeout"});
  }
  const std::string name = query_value(*query, "model");
  if (name.empty()) {
    for (const Lease& model : loaded_models()) ++model->cache_epoch;
    if (options_.kv_events != nullptr) options_.kv_events->clear();
  } else {
    const auto found = model_of(name);
    if (!found.ok()) return call->refuse(found.error());
    // Of one that is not loaded there is nothing to find.
    if (const Lease model = models_.look(**found)) ++model->cache_epoch;
    if (options_.kv_events != nullptr) options_.kv_events->clear();
  }
  call->answer({.status = 200,
                .fields = {{"Content-Type", "text/plain; charset=utf-8"}},
                .body = "Cache flushed.\n"});
}

}  // namespace tenon::server
