#include "core/server/api/openapi.h"

#include "core/base/parameters.h"
#include "core/server/api/json.h"

namespace tenon::api {
namespace {

Json ref(const char* name) {
  return {{"$ref", std::string("#/components/schemas/") + name}};
}
Json text() {
  return {{"type", "string"}};
}
Json flag() {
  return {{"type", "boolean"}};
}
Json list_of(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}
Json token_id() {
  return {{"type", "integer"}, {"minimum", 0}, {"maximum", kMostTokenId}};
}
Json or_absent(Json schema) {
  return {{"anyOf", Json::array({std::move(schema), Json{{"type", "null"}}})}};
}

Json number_schema(const NumberSpec& spec) {
  if (spec.whole) {
    return {{"type", "integer"}, {"minimum", spec.least}, {"maximum", spec.most}};
  }
  return {{"type", "number"},
          {spec.above_min ? "exclusiveMinimum" : "minimum", spec.min},
          {spec.below_max ? "exclusiveMaximum" : "maximum", spec.max}};
}

Json parameter_schema(const Parameter& known) {
  switch (known.kind) {
    case ParameterKind::number:
      return number_schema(known.number);
    case ParameterKind::flag:
      return flag();
    case ParameterKind::word:
    case ParameterKind::stages:
    case ParameterKind::name:
      return text();
    case ParameterKind::texts: {
      const Json one = {{"type", "string"}, {"minLength", 1}};
      return {{"anyOf", Json::array({one, list_of(one)})}};
    }
    case ParameterKind::ids:
      return list_of(token_id());
    case ParameterKind::biases:
      return {{"type", "object"},
              {"propertyNames", {{"pattern", "^[0-9]{1,9}$"}}},
              {"additionalProperties", {{"type", "number"}}}};
    case ParameterKind::settings:
      return {{"type", "object"}};
  }
  return Json::object();
}

// What all generating requests have in common.
Json sampling_properties() {
  Json properties = Json::object();
  for (const Parameter& known : parameters()) {
    if (known.name == "logprobs" || known.name == "prompt_logprobs") continue;
    Json schema = or_absent(parameter_schema(known));
    schema["description"] =
        std::string(known.sentence) + " (absent: " + std::string(known.otherwise) + ")";
    properties[std::string(known.name)] = std::move(schema);
  }
  const auto same_as = [&](const char* name, const char* known) {
    properties[name] = properties[known];
  };
  same_as("n", "samples");
  same_as("stop_token_ids", "stop_tokens");
  same_as("allowed_token_ids", "allowed_tokens");
  same_as("include_stop_str_in_output", "include_stop");
  properties["model"] = or_absent(text());
  properties["stream"] = or_absent(flag());
  properties["priority"] = or_absent({{"type", "integer"}});
  properties["cache_salt"] = or_absent(text());
  properties["return_token_ids"] = or_absent(flag());
  properties["user"] = or_absent(text());
  return properties;
}

Json prompt_schema() {
  const Json ids = list_of(token_id());
  return {{"anyOf", Json::array({text(), list_of(text()), ids, list_of(ids)})}};
}

Json object_schema(Json properties, Json required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json message_schema() {
  const Json roles = {"system", "developer", "user", "assistant", "tool", "function"};
  return object_schema({{"role", {{"enum", roles}}},
                        {"content", text()},
                        {"name", text()},
                        {"tool_call_id", text()},
                        {"reasoning_content", text()},
                        {"tool_calls", list_of({{"type", "object"}})}},
                       {"role", "content"});
}

Json schemas() {
  const Json logprob_count = number_schema(parameter("logprobs").number);
  Json completion = sampling_properties();
  completion["prompt"] = prompt_schema();
  completion["logprobs"] = or_absent(logprob_count);
  completion["echo"] = or_absent(flag());
  completion["add_special_tokens"] = or_absent(flag());
  Json chat = sampling_properties();
  chat["messages"] = list_of(ref("Message"));
  chat["messages"]["minItems"] = 1;
  chat["max_completion_tokens"] = chat["max_tokens"];
  chat["logprobs"] = or_absent(flag());
  chat["top_logprobs"] = or_absent(logprob_count);
  chat["chat_template_kwargs"] = or_absent({{"type", "object"}});
  const Json error = {{"type", "object"},
                      {"required", Json::array({"message", "type", "param", "code"})},
                      {"properties",
                       {{"message", text()},
                        {"type", text()},
                        {"param", or_absent(text())},
                        {"code", or_absent(text())}}}};
  return {{"Message", message_schema()},
          {"Completion", object_schema(std::move(completion), Json::array({"prompt"}))},
          {"Chat", object_schema(std::move(chat), Json::array({"messages"}))},
          {"Embedding", object_schema({{"model", text()},
                                       {"input", prompt_schema()},
                                       {"encoding_format", {{"enum", {"float", "base64"}}}},
                                       {"user", text()}},
                                      Json::array({"input"}))},
          {"Tokenize", object_schema({{"model", text()},
                                      {"prompt", text()},
                                      {"add_special_tokens", flag()},
                                      {"return_token_strs", flag()}},
                                     Json::array({"prompt"}))},
          {"Detokenize", object_schema({{"model", text()}, {"tokens", list_of(token_id())}},
                                       Json::array({"tokens"}))},
          // Their own documents say more about these two.
          {"Messages", {{"type", "object"}}},
          {"Responses", {{"type", "object"}}},
          {"Error",
           {{"type", "object"},
            {"required", Json::array({"error"})},
            {"properties", {{"error", error}}}}}};
}

Json answers(const char* type) {
  Json content = Json::object();
  content[type] = Json::object();
  const Json error = {{"description", "what is wrong with the request"},
                      {"content", {{"application/json", {{"schema", ref("Error")}}}}}};
  Json all = {{"200", {{"description", "the answer"}, {"content", std::move(content)}}}};
  for (const char* status : {"400", "401", "404", "413", "415", "429", "431", "500", "503"}) {
    all[status] = error;
  }
  return all;
}

Json get(const char* summary, const char* type = "application/json") {
  return {{"get", {{"summary", summary}, {"responses", answers(type)}}}};
}
Json post(const char* summary, const char* schema) {
  return {{"post",
           {{"summary", summary},
            {"requestBody",
             {{"required", true}, {"content", {{"application/json", {{"schema", ref(schema)}}}}}}},
            {"responses", answers("application/json")}}}};
}

Json paths() {
  Json one_model = get("One of them");
  one_model["get"]["parameters"] =
      Json::array({{{"name", "model"}, {"in", "path"}, {"required", true}, {"schema", text()}}});
  return {{"/v1/completions", post("Goes on with a text", "Completion")},
          {"/v1/chat/completions", post("Answers a conversation", "Chat")},
          {"/v1/responses", post("Answers, in the shape of Responses", "Responses")},
          {"/v1/messages", post("Answers, in the shape of Anthropic's Messages", "Messages")},
          {"/v1/messages/count_tokens", post("Tokens of a conversation", "Messages")},
          {"/v1/embeddings", post("Vectors of texts", "Embedding")},
          {"/v1/models", get("What is served")},
          {"/v1/models/{model}", std::move(one_model)},
          {"/tokenize", post("Token ids of a text", "Tokenize")},
          {"/detokenize", post("The text of token ids", "Detokenize")},
          {"/health", get("200 while the engines work", "text/plain")},
          {"/ready", get("200 while requests are taken", "text/plain")},
          {"/version", get("The version")},
          {"/metrics", get("Figures for Prometheus", "text/plain")}};
}

}  // namespace

std::string openapi_json(const std::string& version) {
  const Json key = {{"type", "http"}, {"scheme", "bearer"}};
  return to_text({{"openapi", "3.1.0"},
                  {"info", {{"title", "Tenon"}, {"version", version}}},
                  {"paths", paths()},
                  {"components", {{"schemas", schemas()}, {"securitySchemes", {{"key", key}}}}}});
}

}  // namespace tenon::api
