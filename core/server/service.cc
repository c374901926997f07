#include "core/server/service.h"

#include <algorithm>

#include "core/base/ascii.h"
#include "core/base/machine/cpu_cores.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/server/api/read/json.h"

namespace tenon::server {
namespace {

// At least: as many may wait to be read as may wait in an engine.
constexpr size_t kWaitingJobs = 4096;
constexpr std::string_view kModelPath = "/v1/models/";
constexpr size_t kMostNames = 16;  // that a refusal lists

std::string_view media_type(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const size_t end = type.find_last_not_of(" \t");
  return end == type.npos ? std::string_view() : type.substr(0, end + 1);
}

bool is_json(const http::Request& request) {
  const std::string* type = request.find("content-type");
  if (type == nullptr) return false;
  return lower_ascii(media_type(*type)) == "application/json";
}

api::ApiError key_needed() {
  return {.status = 401,
          .message = "a key is needed – send it as \"Authorization: Bearer KEY\"",
          .code = "invalid_api_key"};
}

}  // namespace

Service::Service(std::vector<ModelSource> models, ServiceOptions options,
                 std::function<void()> on_broken)
    : options_(std::move(options)),
      on_broken_(std::move(on_broken)),
      generation_{.queue_bytes = options_.queue_bytes,
                  .constrain = options_.constrain,
                  .running = &running_,
                  .reasoning_field = options_.reasoning_field},
      pool_(options_.threads, std::max<size_t>(kWaitingJobs, options_.requests)),
      models_(std::move(models), pool_options()) {}

ModelPoolOptions Service::pool_options() {
  ModelPoolOptions options = options_.models;
  options.begin = [this](ServedModel& engine, ModelMetrics& metrics, Replicas& group) {
    start_engine(engine, metrics, group);
  };
  options.post = [this](std::function<void()> job) { pool_.post_urgent(std::move(job)); };
  return options;
}

void Service::start_engine(ServedModel& engine, ModelMetrics& metrics, Replicas& group) {
  engine.feed = std::make_unique<StepFeed>();
  if (draining_) engine.feed->close();
  const CoreShare share(engine.rank, engine.cores_apart ? engine.replicas : 1);
  engine.host = std::make_unique<llm::EngineHost>(
      *engine.pipeline,
      llm::HostOptions{.requests = (options_.requests + engine.replicas - 1) / engine.replicas,
                       .on_step = [&metrics](const StepRecord& step) { metrics.add(step); },
                       .observer = engine.feed.get(),
                       .on_kv_events = kv_event_sink(),
                       .on_end = [this, &group, rank = engine.rank](
                                     const std::string& problem) { lose(group, rank, problem); }});
}

void Service::lose(Replicas& group, uint32_t rank, const std::string& problem) {
  if (!group.lose(rank, problem)) return;
  broken_ = true;
  on_broken_();
}

bool Service::lose_replica(const std::string& model, uint32_t rank, const std::string& problem) {
  Entry* const entry = models_.find(model);
  const Lease lease = entry == nullptr ? nullptr : models_.look(*entry);
  if (lease == nullptr || rank >= lease->replicas) return false;
  lose(*lease->group, rank, problem);
  return true;
}

std::function<void(std::span<const KvEvent>)> Service::kv_event_sink() const {
  if (options_.kv_events == nullptr) return {};
  return
      [publisher = options_.kv_events](std::span<const KvEvent> events) { publisher->add(events); };
}

Service::~Service() {
  pool_.stop();
  models_.stop();
}

void Service::drain() {
  draining_ = true;
  for (const Lease& model : loaded_models()) {
    for (ServedModel* engine : model->engines()) engine->feed->close();
  }
}

http::Handlers Service::handlers() {
  return {.gate = [this](const http::Request& request) { return gate(request); },
          .handle =
              [this](http::Request request, std::shared_ptr<http::Exchange> exchange) {
                handle(std::move(request), std::move(exchange));
              },
          .refuse =
              [](unsigned status, const std::string& message) {
                return error_response({.status = status, .message = message}, ErrorShape::openai);
              }};
}

std::span<const Service::Route> Service::routes() {
  using S = Service;
  static constexpr Route kRoutes[] = {
      {"GET", "/", &S::page, true},
      {"GET", "/health", &S::health, true},
      {"GET", "/ping", &S::health, true},
      {"GET", "/ready", &S::ready},
      {"GET", "/version", &S::version},
      {"GET", "/metrics", &S::metrics},
      {"GET", "/openapi.json", &S::openapi},
      {"GET", "/tokenizer_info", &S::tokenizer_info},
      {"GET", "/model_info", &S::model_info},
      {"GET", "/get_model_info", &S::model_info},
      {"GET", "/server_info", &S::server_info},
      {"GET", "/get_server_info", &S::server_info},
      {"GET", "/load", &S::load},
      {"GET", "/get_load", &S::get_load},
      {"GET", "/is_sleeping", &S::is_sleeping},
      {"GET", "/kv_event_sources", &S::kv_event_sources},
      {"GET", "/flush_cache", &S::flush_cache, false, false, ErrorShape::openai, true},
      {"POST", "/flush_cache", &S::flush_cache, false, false, ErrorShape::openai, true},
      {"GET", "/v1/models", &S::models},
      {"GET", kModelPath, &S::one_model},
      {"GET", "/models", &S::models},
      {"POST", "/models/load", &S::load_model, false, true},
      {"POST", "/models/unload", &S::unload_model, false, true},
      {"GET", "/v1/engine/steps", &S::steps},
      {"GET", "/v1/engine/role", &S::role},
      {"POST", "/v1/engine/role", &S::set_role},
      {"POST", "/v1/load_lora_adapter", &S::load_adapter, false, true},
      {"POST", "/v1/unload_lora_adapter", &S::unload_adapter, false, true},
      {"POST", "/v1/completions", &S::completions, false, true},
      {"POST", "/v1/chat/completions", &S::chat_completions, false, true},
      {"POST", "/v1/responses", &S::responses, false, true},
      {"POST", "/v1/responses/input_tokens", &S::input_tokens, false, true},
      {"POST", "/v1/messages", &S::messages, false, true, ErrorShape::anthropic},
      {"POST", "/v1/messages/count_tokens", &S::count_tokens, false, true, ErrorShape::anthropic},
      {"POST", "/v1/embeddings", &S::embeddings, false, true},
      {"POST", "/tokenize", &S::tokenize, false, true},
      {"POST", "/detokenize", &S::detokenize, false, true},
  };
  return kRoutes;
}

const Service::Route* Service::find(const http::Request& request, std::string& allowed) const {
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  for (const Route& route : routes()) {
    const bool is_prefix = route.path.size() > 1 && route.path.ends_with('/');
    const bool matches =
        is_prefix ? request.path.starts_with(route.path) && request.path.size() > route.path.size()
                  : request.path == route.path;
    if (!matches) continue;
    if (route.changes ? route.method == request.method : route.method == method) return &route;
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
    if (route.method == "GET" && !route.changes) allowed += ", HEAD";
  }
  return nullptr;
}

std::vector<http::Field> Service::common_fields() const {
  std::vector<http::Field> fields;
  if (options_.cors_origin.empty()) return fields;
  fields.push_back({"Access-Control-Allow-Origin", options_.cors_origin});
  if (options_.cors_origin != "*") fields.push_back({"Vary", "Origin"});
  fields.push_back({"Access-Control-Expose-Headers",
                    "X-Request-Id, Request-Id, Tenon-Ignored-Fields, Tenon-Schema-Notes"});
  return fields;
}

http::Response Service::preflight() const {
  http::Response response{.status = 204, .fields = common_fields()};
  response.fields.push_back({"Access-Control-Allow-Methods", "GET, POST"});
  response.fields.push_back(
      {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key"});
  response.fields.push_back({"Access-Control-Max-Age", "600"});
  return response;
}

Key* Service::key_of(const http::Request& request) const {
  if (options_.keys == nullptr) return nullptr;
  constexpr std::string_view kBearer = "Bearer ";
  if (const std::string* field = request.find("authorization")) {
    if (field->starts_with(kBearer)) return options_.keys->find(field->substr(kBearer.size()));
  }
  const std::string* field = request.find("x-api-key");
  return field == nullptr ? nullptr : options_.keys->find(*field);
}

std::optional<api::ApiError> Service::fault_of(const http::Request& request,
                                               const Route& route) const {
  if (options_.keys != nullptr && !route.is_open && key_of(request) == nullptr) return key_needed();
  if (route.method != "POST") return std::nullopt;
  if (const std::string* coding = request.find("content-encoding")) {
    if (*coding != "identity") {
      return api::ApiError{.status = 415,
                           .message = "Content-Encoding is " + in_quotes(*coding) +
                                      " – bodies are taken as they are, not compressed"};
    }
  }
  // Pages of other sites cannot send this without being asked for leave (CORS).
  if (!route.changes && !is_json(request)) {
    return api::ApiError{.status = 415, .message = "expected Content-Type: application/json"};
  }
  return std::nullopt;
}

std::optional<http::Response> Service::gate(const http::Request& request) const {
  if (request.method == "OPTIONS" && !options_.cors_origin.empty()) return preflight();
  std::string allowed;
  const Route* route = find(request, allowed);
  http::Response response;
  if (route != nullptr) {
    const auto fault = fault_of(request, *route);
    if (!fault) return std::nullopt;
    response = error_response(*fault, route->shape);
  } else if (!allowed.empty()) {
    response = error_response({.status = 405,
                               .message = in_quotes(request.path) + " takes " + allowed + ", not " +
                                          in_quotes(request.method)},
                              ErrorShape::openai);
    response.fields.push_back({"Allow", allowed});
  } else {
    response =
        error_response({.status = 404, .message = "there is nothing at " + in_quotes(request.path)},
                       ErrorShape::openai);
  }
  const auto common = common_fields();
  response.fields.insert(response.fields.end(), common.begin(), common.end());
  return response;
}

void Service::handle(http::Request request, std::shared_ptr<http::Exchange> exchange) {
  std::string allowed;
  const Route* route = find(request, allowed);
  Key* key = route->is_open ? nullptr : key_of(request);
  // Who looks whether the server lives is no request of anybody's.
  trace::Tracer* tracer = route->is_slow ? options_.tracer : nullptr;
  const auto call = std::make_shared<HttpCall>(request, std::move(exchange), route->shape,
                                               common_fields(), options_.log, key, tracer);
  if (!route->is_slow) return (this->*route->handler)(call, request);
  const auto work = std::make_shared<http::Request>(std::move(request));
  work_on(call, [this, route, call, work] { (this->*route->handler)(call, *work); });
}

void Service::generate_for(http::Request request, std::shared_ptr<http::Exchange> exchange,
                           CallReader read) {
  Key* key = key_of(request);
  const auto call =
      std::make_shared<HttpCall>(request, std::move(exchange), ErrorShape::sentence,
                                 std::vector<http::Field>(), options_.log, key, options_.tracer);
  if (options_.keys != nullptr && key == nullptr) return call->refuse(key_needed());
  const auto body = std::make_shared<std::string>(std::move(request.body));
  work_on(call, [this, call, body, read = std::move(read)] { generate(call, read(*body)); });
}

void Service::answer_for(http::Request request, std::shared_ptr<http::Exchange> exchange,
                         CallAnswer answer) {
  Key* key = key_of(request);
  const auto call =
      std::make_shared<HttpCall>(request, std::move(exchange), ErrorShape::sentence,
                                 std::vector<http::Field>(), options_.log, key, nullptr);
  if (options_.keys != nullptr && key == nullptr) return call->refuse(key_needed());
  const auto work = [call, key, body = std::move(request.body), answer = std::move(answer)] {
    auto answered = answer(body, key);
    if (!answered.ok()) return call->refuse(answered.error());
    call->answer({.status = 200, .fields = {}, .body = *std::move(answered)});
  };
  if (pool_.post(work)) return;
  call->refuse({.status = 429,
                .message = "too many requests wait – try again later",
                .code = "queue_full",
                .retry_after_s = 1});
}

api::Outcome<ModelPool::Lease> Service::only_model() {
  if (models_.size() == 1) return loaded_model("");
  return api::ApiError{.status = 412,
                       .message = std::to_string(models_.size()) +
                                  " models are served here, and this is asked about one – start a "
                                  "server for each"};
}

// On the pool, where the key allows it and there is room.
void Service::work_on(const Call& call, std::function<void()> work) {
  Key* key = call->key();
  if (const unsigned wait = key == nullptr ? 0 : key->admit(std::chrono::steady_clock::now())) {
    return call->refuse({.status = 429,
                         .message = "the key " + in_quotes(key->name()) +
                                    " has used up what it may in a minute – wait " +
                                    std::to_string(wait) + " s",
                         .code = "rate_limit_exceeded",
                         .retry_after_s = wait});
  }
  if (!pool_.post(std::move(work))) {
    call->refuse({.status = 429,
                  .message = "too many requests wait – try again later",
                  .code = "queue_full",
                  .retry_after_s = 1});
  }
}

api::Outcome<Service::Entry*> Service::model_of(const std::string& name) {
  if (name.empty() && models_.size() == 1) return &models_.at(0);
  if (Entry* entry = models_.find(name)) return entry;
  if (Entry* entry = adapted_by(name)) return entry;
  // What huggingface_hub's client says where its caller names no model.
  if (name == "dummy" && models_.size() == 1) return &models_.at(0);
  if (name.empty()) {
    return api::ApiError{
        .message = "\"model\" is missing – several are served here (GET /v1/models)",
        .param = "model"};
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < models_.size() && i < kMostNames; ++i) {
    names.push_back(in_quotes(models_.name(models_.at(i))));
  }
  const std::string there = models_.size() > kMostNames ? join(names) + ", …" : join_and(names);
  return api::ApiError{.status = 404,
                       .message = "there is no model " + in_quotes(name) + " here, only " + there +
                                  " – GET /v1/models lists what there is",
                       .param = "model",
                       .code = "model_not_found"};
}

api::Outcome<ServedModel*> Service::engine_of(ServedModel& model, uint32_t rank) {
  if (rank < model.replicas) return &model.engine(rank);
  return api::ApiError{.message = "\"rank\" is " + std::to_string(rank) + " – the model " +
                                  in_quotes(model.name) + " has the ranks 0 to " +
                                  std::to_string(model.replicas - 1),
                       .param = "rank"};
}

Service::Entry* Service::adapted_by(const std::string& name) {
  if (models_.find(name) != nullptr) return nullptr;
  for (size_t i = 0; i < models_.size(); ++i) {
    const std::vector<std::string> adapters = models_.adapters(models_.at(i));
    if (std::ranges::find(adapters, name) != adapters.end()) return &models_.at(i);
  }
  return nullptr;
}

api::Outcome<Service::Entry*> Service::model_of(const std::string& name,
                                                std::optional<std::string>& adapter) {
  Entry* adapted = adapted_by(name);
  if (adapted == nullptr) return model_of(name);
  if (adapter && *adapter != name) {
    return api::ApiError{.message = "\"model\" names the adapter " + in_quotes(name) +
                                    ", and \"adapter\" is " + in_quotes(*adapter) +
                                    " – leave one of them out",
                         .param = "adapter"};
  }
  adapter = name;
  return adapted;
}

void Service::with_model(const Call& call, const std::string& name, WithModel go_on) {
  auto found = model_of(name);
  if (!found.ok()) return call->refuse(found.error());
  with_model(call, **found, std::move(go_on));
}

void Service::with_model(const Call& call, Entry& entry, WithModel go_on) {
  models_.use(entry, [call, go_on = std::move(go_on)](api::Outcome<Lease> model) {
    if (!model.ok()) return call->refuse(model.error());
    go_on(*model);
  });
}

api::Outcome<Service::Lease> Service::loaded_model(const std::string& name) {
  auto found = model_of(name);
  if (!found.ok()) return found.error();
  if (Lease model = models_.look(**found)) return model;
  return api::ApiError{.status = 503,
                       .message = "the model " + in_quotes(models_.name(**found)) +
                                  " is not loaded – ask it for an answer, or POST /models/load",
                       .param = "model",
                       .code = "model_not_loaded"};
}

std::vector<Service::Lease> Service::loaded_models() {
  std::vector<Lease> all;
  for (size_t i = 0; i < models_.size(); ++i) {
    if (Lease model = models_.look(models_.at(i))) all.push_back(std::move(model));
  }
  return all;
}

}  // namespace tenon::server
