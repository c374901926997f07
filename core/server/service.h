// What the server offers: paths, who may use them, and what becomes of a request to one.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/http/server.h"
#include "core/server/api/read/other_calls.h"
#include "core/server/generation/generation.h"
#include "core/server/kv_events/kv_event_publisher.h"
#include "core/server/models/keys.h"
#include "core/server/models/model_pool.h"
#include "core/server/request_log.h"
#include "core/server/work_pool.h"

namespace tenon::server {

struct ServiceOptions {
  std::string version;
  uint32_t threads = 2;      // of the pool
  uint32_t requests = 1024;  // of each model, running and waiting; of replicas, shared out
  size_t queue_bytes = size_t{1} << 20;
  std::string cors_origin = {};     // that pages may come from: one, or "*"; empty = none
  const KeyRing* keys = nullptr;    // borrowed; null = everybody may
  RequestLog* log = nullptr;        // borrowed
  trace::Tracer* tracer = nullptr;  // borrowed; null = nothing is traced
  // Of the one model that is served; borrowed, null = nothing is published.
  KvEventPublisher* kv_events = nullptr;
  // What holds answers to forms (structured output).
  FormConstrainer constrain = {};
  api::ReasoningField reasoning_field = api::ReasoningField::both;  // of answers of chat
  // Of models that are loaded on demand; `begin` and `post` are the service's own.
  ModelPoolOptions models = {};
};

class Service {
 public:
  // Engines of one model (ServedModel::others) come with the first. `on_broken` is called on a step
  // thread when a model has no engine left that can go on.
  Service(std::vector<ModelSource> models, ServiceOptions options, std::function<void()> on_broken);
  // Ends everything that runs. The connections are gone by then.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  http::Handlers handlers();
  // A request of another protocol, for an answer: keys, limits, log and traces are HTTP's. `read`
  // is called on the pool with the request's body. Errors have the shape `sentence`. [any thread]
  using CallReader = std::function<api::Outcome<api::GenerationCall>(const std::string& body)>;
  void generate_for(http::Request request, std::shared_ptr<http::Exchange> exchange,
                    CallReader read);
  // Another kind of call of another protocol: `answer` gives the response's body, on the pool.
  using CallAnswer =
      std::function<api::Outcome<std::string>(const std::string& body, const Key* key)>;
  void answer_for(http::Request request, std::shared_ptr<http::Exchange> exchange,
                  CallAnswer answer);
  // The one model that is served. Errors: there are several; it is not loaded.
  api::Outcome<ModelPool::Lease> only_model();
  // An adapter comes, or goes from where requests find it, as the operator allows
  // (AdapterPlaces). `model` may be empty where one is served. Errors: those of AdapterPlaces; the
  // model is not there, or takes no adapters from requests. [pool]
  api::Outcome<AdapterPlaces::Held> load_adapter(const api::AdapterCall& call);
  api::Outcome<AdapterPlaces::Held> unload_adapter(const api::AdapterCall& call);
  const std::string& version() const { return options_.version; }
  // Names one run of this server.
  const std::string& instance() const { return instance_; }
  RunningRequests& running() { return running_; }
  const KvEventPublisher* kv_events() const { return options_.kv_events; }
  // Of the server's own figures in /metrics. Borrowed; null until there is one.
  void show(const http::ServerFigures* figures) { figures_ = figures; }
  // From now on /ready says no, and who watches engines is let go. [any thread]
  void drain();
  // An engine cannot go on: its requests are made by others, or answered. False: there is none of
  // that name and rank. [any thread]
  bool lose_replica(const std::string& model, uint32_t rank, const std::string& problem);

 private:
  using Call = std::shared_ptr<HttpCall>;
  using Entry = ModelPool::Entry;
  using Lease = ModelPool::Lease;
  using Handler = void (Service::*)(const Call& call, const http::Request& request);
  struct Route {
    std::string_view method, path;
    Handler handler;
    bool is_open = false;  // to everybody, whatever the keys
    bool is_slow = false;  // for the pool
    ErrorShape shape = ErrorShape::openai;
    bool changes = false;  // something, and needs no body: a HEAD is not taken for a GET
  };
  static std::span<const Route> routes();

  const Route* find(const http::Request& request, std::string& allowed) const;
  std::optional<http::Response> gate(const http::Request& request) const;
  std::optional<api::ApiError> fault_of(const http::Request& request, const Route& route) const;
  void handle(http::Request request, std::shared_ptr<http::Exchange> exchange);
  void work_on(const Call& call, std::function<void()> work);
  std::vector<http::Field> common_fields() const;
  Key* key_of(const http::Request& request) const;
  http::Response preflight() const;
  std::function<void(std::span<const KvEvent>)> kv_event_sink() const;
  ModelPoolOptions pool_options();

  void start_engine(ServedModel& engine, ModelMetrics& metrics, Replicas& group);
  void lose(Replicas& group, uint32_t rank, const std::string& problem);
  // An adapter's name is that of its model, too.
  api::Outcome<Entry*> model_of(const std::string& name);
  // Where `name` is an adapter's, as vLLM's clients name it, it is noted in `adapter`. Error: that
  // names another one.
  api::Outcome<Entry*> model_of(const std::string& name, std::optional<std::string>& adapter);
  // The model that has the adapter; null where there is none, or a model has that name.
  Entry* adapted_by(const std::string& name);
  // Goes on with the model that `name` names, once it is loaded; else the call is refused.
  using WithModel = std::function<void(const Lease& model)>;
  void with_model(const Call& call, const std::string& name, WithModel go_on);
  void with_model(const Call& call, Entry& entry, WithModel go_on);
  // The model that "?model=NAME" asks for, or the only one, as it is now. Error: not loaded.
  api::Outcome<Lease> model_in_query(const http::Request& request);
  api::Outcome<Lease> loaded_model(const std::string& name);
  std::vector<Lease> loaded_models();
  // One of the engines of a model. Error: there is none of that rank.
  static api::Outcome<ServedModel*> engine_of(ServedModel& model, uint32_t rank);

  void health(const Call& call, const http::Request& request);
  void ready(const Call& call, const http::Request& request);
  void version(const Call& call, const http::Request& request);
  void metrics(const Call& call, const http::Request& request);
  void openapi(const Call& call, const http::Request& request);
  void tokenizer_info(const Call& call, const http::Request& request);
  void model_info(const Call& call, const http::Request& request);
  void server_info(const Call& call, const http::Request& request);
  void load(const Call& call, const http::Request& request);
  void is_sleeping(const Call& call, const http::Request& request);
  void kv_event_sources(const Call& call, const http::Request& request);
  void get_load(const Call& call, const http::Request& request);
  void flush_cache(const Call& call, const http::Request& request);
  void models(const Call& call, const http::Request& request);
  void one_model(const Call& call, const http::Request& request);
  void load_model(const Call& call, const http::Request& request);
  void unload_model(const Call& call, const http::Request& request);
  void load_adapter(const Call& call, const http::Request& request);
  void unload_adapter(const Call& call, const http::Request& request);
  api::Outcome<Lease> model_for_adapters(const std::string& name);
  void steps(const Call& call, const http::Request& request);
  void role(const Call& call, const http::Request& request);
  void set_role(const Call& call, const http::Request& request);
  void page(const Call& call, const http::Request& request);
  void completions(const Call& call, const http::Request& request);
  void chat_completions(const Call& call, const http::Request& request);
  void messages(const Call& call, const http::Request& request);
  void count_tokens(const Call& call, const http::Request& request);
  void responses(const Call& call, const http::Request& request);
  void input_tokens(const Call& call, const http::Request& request);
  void embeddings(const Call& call, const http::Request& request);
  void tokenize(const Call& call, const http::Request& request);
  void detokenize(const Call& call, const http::Request& request);
  void generate(const Call& call, api::Outcome<api::GenerationCall> parsed);
  void count(const Call& call, const api::Outcome<api::GenerationCall>& parsed, api::Json answer);

  const ServiceOptions options_;
  const std::function<void()> on_broken_;
  const std::string instance_ = fresh_id();
  RunningRequests running_;
  const GenerationSetting generation_;
  const http::ServerFigures* figures_ = nullptr;
  std::atomic<bool> draining_{false};
  std::atomic<bool> broken_{false};
  WorkPool pool_;
  ModelPool models_;
};

}  // namespace tenon::server
