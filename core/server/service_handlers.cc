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

// As llama.cpp tells it: {"value": "unloaded"}, with "failed" where the last try did.
api::Json status_json(const ModelPool::Facts& facts) {
  api::Json status = {{"value", model_state_name(facts.state)}};
  if (facts.problem.empty()) return status;
  status["failed"] = true;
  status["error"] = facts.problem;
  return status;
}

template <typename Value>
void put_known(api::Json& model, const char* name, const std::optional<Value>& value) {
  if (value) model[name] = *value;
}

// Members that are known only once a model was loaded are absent until then.
api::Json model_json(const std::string& name, const ModelPool::Facts& facts) {
  api::Json model = {
      {"id", name}, {"object", "model"}, {"created", facts.created}, {"owned_by", "tenon"}};
  put_known(model, "max_model_len", facts.context_tokens);
  put_known(model, "has_chat", facts.has_chat);
  if (!facts.numerics.empty()) model["numerics"] = facts.numerics;
  if (!facts.pipeline.empty()) model["pipeline"] = facts.pipeline;
  model["status"] = status_json(facts);
  model["on_demand"] = !facts.keep;
  if (facts.memory_bytes > 0) model["memory_bytes"] = facts.memory_bytes;
  return model;
}

// As vLLM lists an adapter: a model whose parent is the one that it changes.
api::Json adapter_json(const std::string& name, const std::string& parent,
                       const ModelPool::Facts& facts) {
  api::Json adapter = {{"id", name},
                       {"object", "model"},
                       {"created", facts.created},
                       {"owned_by", "tenon"},
                       {"parent", parent}};
  put_known(adapter, "max_model_len", facts.context_tokens);
  put_known(adapter, "has_chat", facts.has_chat);
  return adapter;
}

ModelEntry entry_of(const std::string& name, const ModelPool::Facts& facts) {
  return {name, facts.created, facts.context_tokens.value_or(0)};
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

api::Outcome<std::vector<TokenId>> tokens_of(const ServedModel& model,
                                             const api::TokenizeCall& asked) {
  if (asked.prompt) {
    return encode_input(model, {.text = *asked.prompt, .tokens = {}}, asked.add_special);
  }
  auto encoded = encode_conversation(model, asked.chat, asked.chat_options);
  if (!encoded.ok()) return encoded.error();
  return std::move(encoded->tokens);
}

api::Outcome<std::string> text_of(const ServedModel& model, const api::DetokenizeCall& asked) {
  const Pipeline& pipeline = *model.pipeline;
  if (pipeline.tokenizer == nullptr) {
    return api::ApiError{.message = "the model has no tokenizer: " +
                                    message_of(pipeline.tokenizer_problem)};
  }
  const auto most = static_cast<TokenId>(pipeline.model->plan.vocabulary);
  const auto size = static_cast<TokenId>(pipeline.tokenizer->vocab_size());
  std::vector<TokenId> known;
  for (const TokenId token : asked.tokens) {
    if (token >= std::max(most, size)) {
      return api::ApiError{.message = "the token id " + std::to_string(token) +
                                      " is beyond the vocabulary of " + std::to_string(most),
                           .param = "tokens"};
    }
    // A padded vocabulary has ids that give no text.
    if (token < size) known.push_back(token);
  }
  Result<std::string> text = pipeline.tokenizer->decode(known, asked.skip_special);
  if (!text.ok()) return api::error_of(text.status());
  return *std::move(text);
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
  models_.write_metrics(text);
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
    for (size_t i = 0; i < models_.size(); ++i) {
      Entry& entry = models_.at(i);
      entries.push_back(entry_of(models_.name(entry), models_.facts(entry)));
      for (const std::string& adapter : models_.adapters(entry)) {
        entries.push_back(entry_of(adapter, models_.facts(entry)));
      }
    }
    const auto page = anthropic_model_list(entries, request.query);
    return page.ok() ? call->answer_json(api::to_text(*page)) : call->refuse(page.error());
  }
  api::Json list = api::Json::array();
  for (size_t i = 0; i < models_.size(); ++i) {
    Entry& entry = models_.at(i);
    const ModelPool::Facts facts = models_.facts(entry);
    list.push_back(model_json(models_.name(entry), facts));
    for (const std::string& adapter : models_.adapters(entry)) {
      list.push_back(adapter_json(adapter, models_.name(entry), facts));
    }
  }
  call->answer_json(api::to_text({{"object", "list"}, {"data", std::move(list)}}));
}

void Service::one_model(const Call& call, const http::Request& request) {
  std::string name;
  const std::string_view escaped = std::string_view(request.path).substr(kModelPath.size());
  if (!http::percent_decoded(escaped, name)) name = escaped;
  const auto found = model_of(name);
  if (!found.ok()) return call->refuse(found.error());
  const ModelPool::Facts facts = models_.facts(**found);
  const std::string& own = models_.name(**found);
  const bool is_adapter = adapted_by(name) != nullptr;
  const std::string& asked = is_adapter ? name : own;
  if (is_anthropics(request)) {
    return call->answer_json(api::to_text(anthropic_model_json(entry_of(asked, facts))));
  }
  call->answer_json(
      api::to_text(is_adapter ? adapter_json(name, own, facts) : model_json(own, facts)));
}

void Service::load_model(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto name = api::read_model_name(*body);
  if (!name.ok()) return call->refuse(name.error());
  with_model(call, *name, [call](const Lease&) {
    call->answer_json(api::to_text({{"success", true}}));
  });
}

void Service::unload_model(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto name = api::read_model_name(*body);
  if (!name.ok()) return call->refuse(name.error());
  if (const Entry* entry = adapted_by(*name)) {
    return call->refuse({.message = in_quotes(*name) + " is an adapter of the model " +
                                    in_quotes(models_.name(*entry)) + " – name that one",
                         .param = "model"});
  }
  const auto found = model_of(*name);
  if (!found.ok()) return call->refuse(found.error());
  models_.unload(**found, [call](const std::optional<api::ApiError>& fault) {
    fault ? call->refuse(*fault) : call->answer_json(api::to_text({{"success", true}}));
  });
}

void Service::steps(const Call& call, const http::Request& request) {
  auto query = read_step_query(request.query);
  if (!query.ok()) return call->refuse(query.error());
  const auto model = loaded_model(query->model);
  if (!model.ok()) return call->refuse(model.error());
  const auto engine = engine_of(**model, query->rank);
  if (!engine.ok()) return call->refuse(engine.error());
  call->note([&](LogEntry& entry) {
    entry.model = (*model)->name;
    entry.stream = true;
  });
  // Who watches does not use the model: the stream ends when it is unloaded.
  stream_steps(call, **model, *(*engine)->feed, query->since);
}

void Service::page(const Call& call, const http::Request& request) {
  call->answer(page_response(request));
}

void Service::generate(const Call& call, api::Outcome<api::GenerationCall> parsed) {
  if (!parsed.ok()) return call->refuse(parsed.error());
  const auto found = model_of(parsed->model, parsed->answer.adapter);
  if (!found.ok()) return call->refuse(found.error());
  Entry& entry = **found;
  call->note([&](LogEntry& noted) {
    noted.model = models_.name(entry);
    noted.stream = parsed->stream;
  });
  const auto asked = std::make_shared<api::GenerationCall>(*std::move(parsed));
  with_model(call, entry, [this, call, asked](const Lease& model) {
    if (const auto missing = not_built(*asked, *model, generation_)) return call->refuse(*missing);
    std::make_shared<Generation>(std::move(*asked), model, call, pool_, generation_)->start();
  });
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
  call->name_ignored(parsed->ignored);
  with_model(call, parsed->model, [call, asked = *parsed, answer](const Lease& model) {
    const auto encoded = encode_conversation(*model, asked);
    if (!encoded.ok()) return call->refuse(encoded.error());
    api::Json counted = answer;
    counted["input_tokens"] = encoded->tokens.size();
    call->answer_json(api::to_text(counted));
  });
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
  const auto found = model_of(parsed->model, parsed->adapter);
  if (!found.ok()) return call->refuse(found.error());
  Entry& entry = **found;
  call->note([&](LogEntry& noted) { noted.model = models_.name(entry); });
  with_model(call, entry, [this, call, asked = *parsed](const Lease& model) {
    std::make_shared<EmbeddingJob>(asked, model, call, pool_)->start();
  });
}

void Service::tokenize(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto parsed = api::read_tokenize(*body);
  if (!parsed.ok()) return call->refuse(parsed.error());
  call->name_ignored(parsed->ignored);
  with_model(call, parsed->model, [call, asked = *parsed](const Lease& model) {
    const auto tokens = tokens_of(*model, asked);
    if (!tokens.ok()) return call->refuse(tokens.error());
    call->answer_json(api::tokenize_json(asked, *tokens, model->host->sequence_limit_tokens(),
                                         token_text_of(*model)));
  });
}

void Service::detokenize(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto parsed = api::read_detokenize(*body);
  if (!parsed.ok()) return call->refuse(parsed.error());
  call->name_ignored(parsed->ignored);
  with_model(call, parsed->model, [call, asked = *parsed](const Lease& model) {
    const auto text = text_of(*model, asked);
    if (!text.ok()) return call->refuse(text.error());
    call->answer_json(api::to_text({{"prompt", *text}}));
  });
}

}  // namespace tenon::server
