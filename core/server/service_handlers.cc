#include "core/server/api/dialects.h"
#include "core/server/api/openapi/openapi.h"
#include "core/server/embedding_job.h"
#include "core/server/models/model_list.h"
#include "core/server/page.h"
#include "core/server/service.h"
#include "core/server/steps/step_stream.h"

namespace tenon::server {
namespace {

constexpr std::string_view kModelPath = "/v1/models/";

http::Response text_response(unsigned status, std::string text, const char* type = "text/plain") {
  return {.status = status,
          .fields = {{"Content-Type", std::string(type) + "; charset=utf-8"}},
          .body = std::move(text)};
}

api::Json model_json(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "tenon"},
          {"max_model_len", model.host->sequence_limit_tokens()},
          {"has_chat", model.chat.has_value()},
          {"numerics", model.pipeline->numerics},
          {"pipeline", model.pipeline->hash}};
}

// As vLLM lists an adapter: a model whose parent is the one that it changes.
api::Json adapter_json(const ServedModel& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "tenon"},
          {"parent", model.name},
          {"max_model_len", model.host->sequence_limit_tokens()},
          {"has_chat", model.chat.has_value()}};
}

ModelEntry entry_of(const ServedModel& model) {
  return {model.name, model.created, model.host->sequence_limit_tokens()};
}

// What a request asks for that nothing here can do.
std::optional<api::ApiError> not_built(const api::GenerationCall& call, const ServedModel& model,
                                       const GenerationSetting& setting) {
  if (call.form && !setting.constrain) {
    return api::ApiError{.message = "answers in the form \"" + call.form->form +
                                    "\" are not built here – ask for text",
                         .param = call.form->field,
                         .code = "not_built"};
  }
  // A call that is forced has a form of ours, and any model can be held to it.
  if (!call.tools || call.tools->choice != "auto") return std::nullopt;
  if (!model.reads_calls) {
    return api::ApiError{.message = "the chat template of \"" + model.name +
                                    "\" does not say how its model calls tools, so nothing would "
                                    "read the calls from the answer – leave them out, or force a "
                                    "call by \"tool_choice\"",
                         .param = "tools",
                         .code = "not_built"};
  }
  return std::nullopt;
}

}  // namespace

void Service::health(const Call& call, const http::Request&) {
  if (broken_) return call->answer(text_response(503, "an engine is broken\n"));
  call->answer(text_response(200, ""));
}

void Service::ready(const Call& call, const http::Request&) {
  const bool is_ready = !broken_ && !draining_;
  call->answer(text_response(is_ready ? 200 : 503, is_ready ? "ready\n" : "not ready\n"));
}

void Service::version(const Call& call, const http::Request&) {
  call->answer_json(api::to_text({{"version", options_.version}}));
}

void Service::metrics(const Call& call, const http::Request&) {
  MetricsText text;
  for (const Served& served : served_) served.metrics->write(*served.model, text);
  for (const auto& replicas : replicas_) write_replicas(*replicas, text);
  if (const trace::Tracer* tracer = options_.tracer) {
    const auto spans = [&](const char* what, uint64_t count) {
      text.value("tenon:trace_spans_total", "counter",
                 "Spans of traces: taken by the collector, or lost.", {{"delivery", what}},
                 static_cast<double>(count));
    };
    spans("sent", tracer->sent());
    spans("dropped", tracer->dropped());
  }
  if (figures_ != nullptr) {
    text.value("tenon:http_connections", "gauge", "Connections that are open.", {},
               figures_->open.load());
    text.value("tenon:http_connections_accepted_total", "counter", "Connections so far.", {},
               static_cast<double>(figures_->accepted.load()));
  }
  call->answer(text_response(200, text.text(), "text/plain; version=0.0.4"));
}

void Service::openapi(const Call& call, const http::Request&) {
  call->answer_json(api::openapi_json(options_.version));
}

void Service::models(const Call& call, const http::Request& request) {
  if (is_anthropics(request)) {
    std::vector<ModelEntry> entries;
    for (const Served& served : served_) {
      if (served.model->rank == 0) entries.push_back(entry_of(*served.model));
    }
    const auto page = anthropic_model_list(entries, request.query);
    return page.ok() ? call->answer_json(api::to_text(*page)) : call->refuse(page.error());
  }
  api::Json list = api::Json::array();
  for (const Served& served : served_) {
    if (served.model->rank > 0) continue;
    list.push_back(model_json(*served.model));
    for (const auto& adapter : served.model->pipeline->adapters) {
      list.push_back(adapter_json(*served.model, adapter->name));
    }
  }
  call->answer_json(api::to_text({{"object", "list"}, {"data", std::move(list)}}));
}

void Service::one_model(const Call& call, const http::Request& request) {
  std::string name;
  const std::string_view escaped = std::string_view(request.path).substr(kModelPath.size());
  if (!http::percent_decoded(escaped, name)) name = escaped;
  auto found = model_of(name);
  if (!found.ok()) return call->refuse(found.error());
  const ServedModel& model = *(*found)->model;
  call->answer_json(api::to_text(is_anthropics(request) ? anthropic_model_json(entry_of(model))
                                                        : model_json(model)));
}

void Service::steps(const Call& call, const http::Request& request) {
  auto query = read_step_query(request.query);
  if (!query.ok()) return call->refuse(query.error());
  auto found = model_of(query->model);
  if (found.ok()) found = replica_of(**found, query->rank);
  if (!found.ok()) return call->refuse(found.error());
  call->note([&](LogEntry& entry) {
    entry.model = (*found)->model->name;
    entry.stream = true;
  });
  stream_steps(call, *(*found)->model, *(*found)->feed, query->since);
}

void Service::page(const Call& call, const http::Request& request) {
  call->answer(page_response(request));
}

void Service::generate(const Call& call, api::Outcome<api::GenerationCall> parsed) {
  if (!parsed.ok()) return call->refuse(parsed.error());
  auto found = model_of(*parsed);
  if (!found.ok()) return call->refuse(found.error());
  Served& served = **found;
  if (const auto missing = not_built(*parsed, *served.model, generation_)) {
    return call->refuse(*missing);
  }
  call->note([&](LogEntry& entry) {
    entry.model = served.model->name;
    entry.stream = parsed->stream;
  });
  std::make_shared<Generation>(*std::move(parsed), *served.replicas, call, pool_, generation_)
      ->start();
}

void Service::completions(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  generate(call, api::read_completion(*body));
}

void Service::chat_completions(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  generate(call, api::read_chat(*body));
}

void Service::messages(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  generate(call, api::read_messages_call(*body));
}

// Tokens of a conversation, as a member of `answer`.
void Service::count(const Call& call, const api::Outcome<api::GenerationCall>& parsed,
                    api::Json answer) {
  if (!parsed.ok()) return call->refuse(parsed.error());
  auto found = model_of(parsed->model);
  if (!found.ok()) return call->refuse(found.error());
  call->name_ignored(parsed->ignored);
  const auto encoded = encode_conversation(*(*found)->model, *parsed);
  if (!encoded.ok()) return call->refuse(encoded.error());
  answer["input_tokens"] = encoded->tokens.size();
  call->answer_json(api::to_text(answer));
}

void Service::count_tokens(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  count(call, api::read_messages_call(*body, true), api::Json::object());
}

void Service::input_tokens(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  count(call, api::read_responses_call(*body), {{"object", "response.input_tokens"}});
}

void Service::responses(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  generate(call, api::read_responses_call(*body));
}

void Service::embeddings(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  auto parsed = api::read_embedding(*body);
  if (!parsed.ok()) return call->refuse(parsed.error());
  auto found = model_of(parsed->model);
  if (!found.ok()) return call->refuse(found.error());
  Served& served = **found;
  call->note([&](LogEntry& entry) { entry.model = served.model->name; });
  std::make_shared<EmbeddingJob>(*std::move(parsed), *served.replicas, call, pool_)->start();
}

void Service::tokenize(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto parsed = api::read_tokenize(*body);
  if (!parsed.ok()) return call->refuse(parsed.error());
  call->name_ignored(parsed->ignored);
  auto found = model_of(parsed->model);
  if (!found.ok()) return call->refuse(found.error());
  const ServedModel& model = *(*found)->model;
  std::vector<TokenId> tokens;
  if (parsed->prompt) {
    auto encoded =
        encode_input(model, {.text = *parsed->prompt, .tokens = {}}, parsed->add_special);
    if (!encoded.ok()) return call->refuse(encoded.error());
    tokens = *std::move(encoded);
  } else {
    auto encoded = encode_conversation(model, parsed->chat, parsed->chat_options);
    if (!encoded.ok()) return call->refuse(encoded.error());
    tokens = std::move(encoded->tokens);
  }
  call->answer_json(api::tokenize_json(*parsed, tokens, model.host->sequence_limit_tokens(),
                                       token_text_of(model)));
}

void Service::detokenize(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto parsed = api::read_detokenize(*body);
  if (!parsed.ok()) return call->refuse(parsed.error());
  call->name_ignored(parsed->ignored);
  auto found = model_of(parsed->model);
  if (!found.ok()) return call->refuse(found.error());
  const Pipeline& pipeline = *(*found)->model->pipeline;
  if (pipeline.tokenizer == nullptr) {
    return call->refuse(
        {.message = "the model has no tokenizer: " + message_of(pipeline.tokenizer_problem)});
  }
  const auto most = static_cast<TokenId>(pipeline.model->plan.vocabulary);
  const auto size = static_cast<TokenId>(pipeline.tokenizer->vocab_size());
  std::vector<TokenId> known;
  for (const TokenId token : parsed->tokens) {
    if (token >= std::max(most, size)) {
      return call->refuse({.message = "the token id " + std::to_string(token) +
                                      " is beyond the vocabulary of " + std::to_string(most),
                           .param = "tokens"});
    }
    // A padded vocabulary has ids that give no text.
    if (token < size) known.push_back(token);
  }
  Result<std::string> text = pipeline.tokenizer->decode(known, parsed->skip_special);
  if (!text.ok()) return call->refuse(api::error_of(text.status()));
  call->answer_json(api::to_text({{"prompt", *text}}));
}

}  // namespace tenon::server
