#include <sys/resource.h>
#include <tenon/abi_generated.h>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/server/collector.h"
#include "core/server/generation/answer_form.h"
#include "core/server/grpc/grpc_server.h"
#include "core/server/service.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/serve/models.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/ranks.h"

namespace tenon {
namespace {

struct ServeFlags {
  ModelFlags models;
  http::ServerOptions http;
  std::optional<uint16_t> port, grpc_port;
  std::string max_body;
  uint32_t drain_s = 30;
  std::string keys, request_log, reasoning_field;
  std::string traces_endpoint;
  trace::TracerOptions traces;
  server::ServiceOptions service;
  server::KvEventOptions kv_events;
  bool kv_event_arrays = false;
};

Status limit_body(ServeFlags& flags) {
  if (flags.max_body.empty()) return Status();
  const auto bytes = parse_bytes(flags.max_body);
  if (!bytes || *bytes < 1024 || *bytes > (int64_t{1} << 32)) {
    return invalid_argument("--max-body is " + in_quotes(flags.max_body) +
                            " – it must be a size from 1KiB to 4GiB, such as 16MiB");
  }
  flags.http.body_bytes = static_cast<size_t>(*bytes);
  return Status();
}

Status check_tls(const ServeFlags& flags) {
  const bool has_certificate = !flags.http.tls_certificate.empty();
  if (has_certificate != !flags.http.tls_key.empty()) {
    return invalid_argument(
        "one of --tls-certificate and --tls-key is missing – TLS takes both, or neither");
  }
  if (has_certificate && !flags.http.port) {
    return invalid_argument(
        "there is no port that TLS could protect, since --socket stands alone – say --port too");
  }
  return {};
}

// SIGHUP: a certificate that cannot be used leaves the old one in place.
void renew_certificate(http::Server& server) {
  const Status status = server.renew_certificate();
  if (status.ok()) {
    log(LogLevel::info, "server", "the certificate was read again");
  } else {
    log(LogLevel::error, "server", "the certificate stays as it was: " + message_of(status));
  }
}

// A connection takes a descriptor; what the system allows is taken.
void allow_connections(http::ServerOptions& options) {
  constexpr rlim_t kOthers = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = rlim_t{options.connections} + kOthers;
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min(limit.rlim_max, wanted);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur < wanted && limit.rlim_cur > kOthers) {
    options.connections = static_cast<uint32_t>(limit.rlim_cur - kOthers);
  }
}

// Of pipelines whose K/V goes to other workers: where they fetch it.
std::vector<std::string> transfer_lines_of(const ModelsToServe& models) {
  std::vector<std::string> lines;
  for (const server::ModelSource& source : models.sources) {
    if (source.loaded == nullptr) continue;
    const KvTransfer* const transfer = source.loaded->pipeline->transfer.get();
    if (transfer == nullptr) continue;
    lines.push_back("handing over K/V of " + source.name + " at " + transfer->address() +
                    ", as role " + std::string(role_name(transfer->role())) + "\n");
  }
  return lines;
}

// Null where nothing is traced.
Result<std::unique_ptr<trace::Tracer>> make_tracer(const ServeFlags& flags) {
  if (flags.traces_endpoint.empty()) return std::unique_ptr<trace::Tracer>();
  Result<trace::Deliver> deliver = server::collector_at(flags.traces_endpoint);
  if (!deliver.ok()) return with_context("--otlp-traces-endpoint", deliver.status());
  return std::make_unique<trace::Tracer>(flags.traces, *std::move(deliver));
}

// Null where nobody asked for it.
Result<std::unique_ptr<server::GrpcServer>> open_grpc(const ServeFlags& flags,
                                                      server::Service& service) {
  if (!flags.grpc_port) return std::unique_ptr<server::GrpcServer>();
  return server::GrpcServer::open({.host = flags.http.host,
                                   .port = *flags.grpc_port,
                                   .tls_certificate = flags.http.tls_certificate,
                                   .tls_key = flags.http.tls_key,
                                   .message_bytes = flags.http.body_bytes},
                                  service);
}

std::string shown(const server::KvEventPublisher& publisher) {
  const server::KvEventOptions& options = publisher.options();
  if (options.replay_endpoint.empty()) return options.endpoint;
  return options.endpoint + ", again at " + options.replay_endpoint;
}

// Null where nobody asked for it.
Result<std::unique_ptr<server::KvEventPublisher>> open_kv_events(const ServeFlags& flags,
                                                                 const ModelsToServe& models) {
  server::KvEventOptions options = flags.kv_events;
  if (options.endpoint.empty()) {
    const char* const given = !options.replay_endpoint.empty() ? "--kv-events-replay"
                              : !options.topic.empty()         ? "--kv-events-topic"
                              : flags.kv_event_arrays          ? "--kv-events-arrays"
                                                               : nullptr;
    if (given == nullptr) return std::unique_ptr<server::KvEventPublisher>();
    return invalid_argument(std::string(given) +
                            " has no effect without --kv-events – give the endpoint to publish at");
  }
  if (const auto& first = models.sources.front().loaded; first != nullptr && first->replicas > 1) {
    return invalid_argument("--kv-events tells of one engine, and " +
                            std::string(first->pipeline->config.data_replicas.value > 1
                                            ? "parallel.data"
                                            : "parallel.pipeline") +
                            " is " + std::to_string(first->replicas) +
                            " – start a server for each, or leave one of the two out");
  }
  if (models.sources.size() > 1) {
    return invalid_argument("--kv-events tells of one model, and " +
                            std::to_string(models.sources.size()) +
                            " are served – start a server for each");
  }
  if (!models.sources.front().keep) {
    return invalid_argument(
        "--kv-events tells of a model that stays loaded, and this one is loaded on demand – serve "
        "it without --on-demand");
  }
  options.form = flags.kv_event_arrays ? server::KvEventForm::arrays : server::KvEventForm::maps;
  return server::KvEventPublisher::open(std::move(options), *models.sources.front().loaded);
}

Result<int> serve(ServeFlags flags) {
  TENON_RETURN_IF_ERROR(limit_body(flags));
  if (flags.grpc_port) TENON_RETURN_IF_ERROR(server::GrpcServer::available());
  if (flags.port || flags.http.socket_path.empty())
    flags.http.port = flags.port.value_or(8000);
  else
    flags.http.port.reset();
  TENON_RETURN_IF_ERROR(check_tls(flags));
  std::optional<server::KeyRing> keys;
  if (!flags.keys.empty()) {
    TENON_ASSIGN_OR_RETURN(keys, server::KeyRing::load(flags.keys));
    flags.service.keys = &*keys;
  }
  std::unique_ptr<server::RequestLog> log;
  if (!flags.request_log.empty()) {
    TENON_ASSIGN_OR_RETURN(log, server::RequestLog::open(flags.request_log));
    flags.service.log = log.get();
  }
  flags.service.version = flags.traces.version = TENON_SDK_VERSION;
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<trace::Tracer> tracer, make_tracer(flags));
  flags.service.tracer = tracer.get();
  flags.service.constrain = server::make_form_constrainer();
  flags.service.reasoning_field =
      api::parse_reasoning_field(flags.reasoning_field).value_or(api::ReasoningField::both);
  allow_connections(flags.http);
  // An address that cannot be had, or a certificate, is told before models are loaded for minutes.
  TENON_RETURN_IF_ERROR(http::Server::open(flags.http, {}).take_status());
  TENON_ASSIGN_OR_RETURN(ModelsToServe models, models_to_serve(flags.models));
  const std::string names = models.names();
  const std::vector<std::string> transfer_lines = transfer_lines_of(models);
  TENON_ASSIGN_OR_RETURN(const auto kv_events, open_kv_events(flags, models));
  flags.service.kv_events = kv_events.get();
  flags.service.models = models.options;

  std::unique_ptr<http::Server> server;
  std::atomic<http::Server*> running{nullptr};
  std::atomic<bool> broken{false};
  auto service = std::make_unique<server::Service>(std::move(models.sources), flags.service, [&] {
    broken = true;
    if (http::Server* at = running.load()) at->drain(std::chrono::milliseconds(0));
  });
  TENON_ASSIGN_OR_RETURN(server, http::Server::open(flags.http, service->handlers()));
  TENON_ASSIGN_OR_RETURN(auto grpc, open_grpc(flags, *service));
  service->show(&server->figures());
  running = server.get();
  if (broken) server->drain(std::chrono::milliseconds(0));
  {
    std::function<void()> renew;
    if (!flags.http.tls_certificate.empty()) renew = [&] { renew_certificate(*server); };
    const DrainOnSignal drain(
        [&] {
          service->drain();
          server->drain(std::chrono::seconds(flags.drain_s));
          if (grpc != nullptr) grpc->drain(std::chrono::seconds(flags.drain_s));
        },
        renew);
    for (const std::string& address : server->addresses()) {
      put("serving " + names + " at " + address + "\n");
    }
    if (grpc != nullptr) put("serving " + names + " by gRPC at " + grpc->address() + "\n");
    if (kv_events != nullptr) put("publishing KV events at " + shown(*kv_events) + "\n");
    for (const std::string& line : transfer_lines) put(line);
    flush_output();
    server->run();
  }
  // Calls end before what they ask; who answers goes before what the answers would go through.
  grpc.reset();
  service.reset();
  server.reset();
  return broken ? 1 : 0;
}

void add_network_flags(Command command, ServeFlags& flags) {
  const char* group = "Server";
  add_text(command, "--host", flags.http.host,
           "address to listen on (default: 127.0.0.1, this machine alone)")
      .group(group);
  add_number(command, whole_number("--port", 0, 65535), flags.port,
             "port to listen on; 0 = any that is free, and printed (default: 8000)")
      .group(group);
  add_number(command, whole_number("--grpc-port", 0, 65535), flags.grpc_port,
             "port for gRPC (vllm.Inference) beside HTTP; 0 = any that is free (default: none)")
      .group(group);
  add_text(command, "--socket", flags.http.socket_path,
           "a unix socket to listen on; without --port, it alone")
      .group(group);
  add_text(command, "--tls-certificate", flags.http.tls_certificate,
           "a PEM file of the server's certificate, and those that signed it: TLS on the port")
      .group(group);
  add_text(command, "--tls-key", flags.http.tls_key, "a PEM file of its private key").group(group);
  add_text(command, "--keys", flags.keys,
           "a file of keys; without one everybody may use the server")
      .group(group);
  add_text(command, "--cors-origin", flags.service.cors_origin,
           "the origin whose pages may use the server, or \"*\" (default: none)")
      .group(group);
  add_text(command, "--request-log", flags.request_log,
           "adds a line of JSON a request to this file")
      .group(group);
}

void add_model_flags(Command command, ModelFlags& flags) {
  const char* group = "Models";
  add_text(command, "--models", flags.file,
           "a TOML file that lists models, which are loaded when they are first asked for")
      .group(group);
  command
      .add_flag("--on-demand", flags.on_demand,
                "load the models that are named here when they are first asked for, too")
      .group(group);
  add_text(command, "--idle-unload", flags.idle_unload,
           "unload models that were loaded on demand after this time without use, as 10min "
           "(default: never, or as the file says)")
      .group(group);
  add_number(command, whole_number("--max-loaded", 1, 1024), flags.max_loaded,
             "models in memory at a time (default: as many as fit)")
      .group(group);
  add_text(command, "--adapters", flags.adapters,
           "a folder below which requests may name adapters to load (default: they may load none)")
      .group(group);
  add_number(command, whole_number("--max-adapters", 1, 256), flags.max_adapters,
             "how many of them a model may have at a time (default: 8)")
      .group(group);
  add_text(command, "--models-memory", flags.memory,
           "memory for all models, as 24GiB (default: what is free)")
      .group(group);
}

void add_trace_flags(Command command, ServeFlags& flags) {
  const char* group = "Traces";
  add_text(command, "--otlp-traces-endpoint", flags.traces_endpoint,
           "an OpenTelemetry collector to send traces to, as http://127.0.0.1:4318/v1/traces "
           "(default: none are made)")
      .group(group);
  add_text(command, "--otlp-service-name", flags.traces.service,
           "what the traces call this server (default: tenon)")
      .group(group);
  add_number(command, real_number("--trace-share", 0.0, 1.0), flags.traces.share,
             "of requests that belong to no trace, the share that gets one (default: 1)")
      .group(group);
}

void add_kv_event_flags(Command command, ServeFlags& flags) {
  const char* group = "KV events";
  add_text(
      command, "--kv-events", flags.kv_events.endpoint,
      "where changes of the prefix cache are published over ZeroMQ, as vLLM does: tcp://*:5557 "
      "to listen, tcp://HOST:PORT to connect (default: nowhere)")
      .group(group);
  add_text(command, "--kv-events-replay", flags.kv_events.replay_endpoint,
           "where subscribers ask for what they missed, as tcp://*:5558 (default: nowhere)")
      .group(group);
  add_text(command, "--kv-events-topic", flags.kv_events.topic,
           "their topic; {model} in it becomes the model's name (default: empty)")
      .group(group);
  command
      .add_flag("--kv-events-arrays", flags.kv_event_arrays,
                "events are arrays, as before June 2026, and not maps")
      .group(group);
  add_number(command, whole_number("--kv-events-buffer", 1, 1 << 24), flags.kv_events.buffer_steps,
             "how many batches can be asked for again (default: 10000)")
      .group(group);
}

void add_limit_flags(Command command, ServeFlags& flags) {
  const char* group = "Limits";
  add_number(command, whole_number("--max-requests", 1, 1 << 20), flags.service.requests,
             "requests of a model that run or wait; more are refused with 429 (default: 1024)")
      .group(group);
  add_number(command, whole_number("--max-connections", 1, 1 << 20), flags.http.connections,
             "connections at once; more wait (default: 16384)")
      .group(group);
  add_text(command, "--max-body", flags.max_body, "size of a request's body (default: 16MiB)")
      .group(group);
  add_number(command, whole_number("--prepare-threads", 1, 256), flags.service.threads,
             "threads that read, render and tokenise requests (default: 2)")
      .group(group);
  add_number(command, whole_number("--drain-seconds", 0, 86400), flags.drain_s,
             "how long running requests may go on after a signal (default: 30)")
      .group(group);
}

}  // namespace

void add_serve_command(Command app, Action& action) {
  auto flags = std::make_shared<ServeFlags>();
  Command command = app.add_subcommand("serve", "Serve models over HTTP, as OpenAI's API");
  Option listed =
      command
          .add_option("models", flags->models.listed,
                      "pipeline files (*.toml) and models (folders, GGUF files, names), "
                      "each served under its name, or as NAME=FILE (default: the "
                      "bundled pipeline, under its model's name)")
          .type_name("PIPELINE");
  add_model_flags(command, flags->models);
  add_network_flags(command, *flags);
  add_limit_flags(command, *flags);
  add_trace_flags(command, *flags);
  add_kv_event_flags(command, *flags);
  add_text(command, "--chat-template", flags->models.chat_template,
           "a template for conversations, in place of the models' own");
  command.add_flag("--random-seeds", flags->models.random_seeds,
                   "requests without a seed get one by chance, not 0");
  add_text(command, "--reasoning-field", flags->reasoning_field,
           "where clients find the reasoning of an answer of chat (default: both)")
      .one_of({"reasoning", "reasoning_content", "both"});
  flags->models.pipeline.add_to(command);
  add_launch(command);
  command.get_option("--config").excludes(listed);
  for (const char* other : {"--config", "--model"}) command.get_option(other).excludes("--models");
  command.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = serve(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
