#include "core/server/api/openapi/openapi.h"

#include "core/server/api/openapi/openapi_schemas.h"
#include "core/server/api/read/json.h"

namespace tenon::api {
namespace {

Json answers(std::initializer_list<const char*> types, const char* error_schema = "Error") {
  Json content = Json::object();
  for (const char* type : types) content[type] = Json::object();
  const Json error = {{"description", "what is wrong with the request"},
                      {"content", {{"application/json", {{"schema", schema_ref(error_schema)}}}}}};
  Json all = {{"200", {{"description", "the answer"}, {"content", std::move(content)}}}};
  for (const char* status : {"400", "401", "404", "413", "415", "429", "431", "500", "503"}) {
    all[status] = error;
  }
  return all;
}

Json get(const char* summary, const char* type = "application/json") {
  return {{"get", {{"summary", summary}, {"responses", answers({type})}}}};
}
Json post(const char* summary, const char* schema, const char* error_schema = "Error") {
  return {{"post",
           {{"summary", summary},
            {"requestBody",
             {{"required", true},
              {"content", {{"application/json", {{"schema", schema_ref(schema)}}}}}}},
            {"responses", answers({"application/json", "text/event-stream"}, error_schema)}}}};
}

Json model_in_query() {
  return {{"name", "model"}, {"in", "query"}, {"schema", {{"type", "string"}}}};
}
Json of_model(const char* summary) {
  Json path = get(summary);
  path["get"]["parameters"] = Json::array({model_in_query()});
  return path;
}

Json paths() {
  Json one_model = get("One of them");
  const Json text = {{"type", "string"}};
  one_model["get"]["parameters"] =
      Json::array({{{"name", "model"}, {"in", "path"}, {"required", true}, {"schema", text}}});
  Json steps = get("The steps of an engine as they are made", "text/event-stream");
  steps["get"]["parameters"] =
      Json::array({model_in_query(),
                   {{"name", "since"},
                    {"in", "query"},
                    {"description", "a step's id: begins with those after it that are kept"},
                    {"schema", {{"type", "integer"}, {"minimum", 0}}}}});
  Json flush = {
      {"post", get("What is in the prefix cache is not found any more", "text/plain")["get"]}};
  flush["post"]["parameters"] = Json::array({model_in_query()});
  Json role = of_model("Which part of requests is done here");
  role["post"] = post("Changes it", "Role")["post"];
  return {{"/", get("A page to try the models, and to watch the engines work", "text/html")},
          {"/v1/completions", post("Goes on with a text", "Completion")},
          {"/v1/chat/completions", post("Answers a conversation", "Chat")},
          {"/v1/responses", post("Answers, in the shape of Responses", "Responses")},
          {"/v1/responses/input_tokens", post("Tokens of such a request", "Responses")},
          {"/v1/messages",
           post("Answers, in the shape of Anthropic's Messages", "Messages", "AnthropicError")},
          {"/v1/messages/count_tokens",
           post("Tokens of a conversation", "CountTokens", "AnthropicError")},
          {"/v1/embeddings", post("Vectors of texts", "Embedding")},
          {"/v1/models", get("What is served")},
          {"/v1/models/{model}", std::move(one_model)},
          {"/models", get("The same, by llama.cpp's path")},
          {"/models/load", post("Loads a model that is loaded on demand", "ModelName")},
          {"/models/unload", post("Unloads one that nobody uses", "ModelName")},
          {"/v1/load_lora_adapter",
           post("Loads an adapter from the folder that the operator allows", "LoadAdapter")},
          {"/v1/unload_lora_adapter", post("Unloads one that was loaded so", "UnloadAdapter")},
          {"/v1/engine/steps", std::move(steps)},
          {"/v1/engine/role", std::move(role)},
          {"/tokenize", post("Token ids of a text", "Tokenize")},
          {"/detokenize", post("The text of token ids", "Detokenize")},
          {"/health", get("200 while the engines work", "text/plain")},
          {"/ping", get("The same", "text/plain")},
          {"/ready", get("200 while requests are taken", "text/plain")},
          {"/version", get("The version")},
          {"/metrics", get("Figures for Prometheus", "text/plain")},
          {"/tokenizer_info", of_model("What the tokenizer's configuration says")},
          {"/model_info", of_model("What the model is")},
          {"/get_model_info", of_model("The same, by SGLang's older name")},
          {"/server_info", of_model("What the server was given, and holds")},
          {"/get_server_info", of_model("The same, by SGLang's older name")},
          {"/load", get("How many requests run and wait")},
          {"/get_load", get("The same of each model, and how many tokens they hold")},
          {"/kv_event_sources", get("Where changes of the prefix cache are published")},
          {"/is_sleeping", get("Whether the engine sleeps: never")},
          {"/flush_cache", std::move(flush)}};
}

}  // namespace

std::string openapi_json(const std::string& version) {
  const Json key = {{"type", "http"}, {"scheme", "bearer"}};
  return to_text(
      {{"openapi", "3.1.0"},
       {"info", {{"title", "Tenon"}, {"version", version}}},
       {"paths", paths()},
       {"components", {{"schemas", request_schemas()}, {"securitySchemes", {{"key", key}}}}}});
}

}  // namespace tenon::api
