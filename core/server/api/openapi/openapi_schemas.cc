#include "core/server/api/openapi/openapi_schemas.h"

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/request/parameters.h"
#include "core/server/api/read/field_table.h"

namespace tenon::api {
namespace {

Json text() {
  return {{"type", "string"}};
}
// One of these values, of whatever type.
Json words(const std::vector<Json>& values) {
  Json list = Json::array();
  for (const Json& value : values) list.push_back(value);
  return {{"enum", std::move(list)}};
}
Json flag() {
  return {{"type", "boolean"}};
}
Json any_object() {
  return {{"type", "object"}};
}
Json anything() {
  return Json::object();
}
Json list_of(Json items, size_t least = 0) {
  Json list = {{"type", "array"}, {"items", std::move(items)}};
  if (least > 0) list["minItems"] = least;
  return list;
}
Json one_of(Json several) {
  return {{"anyOf", std::move(several)}};
}
Json token_id() {
  return {{"type", "integer"}, {"minimum", 0}, {"maximum", kMostTokenId}};
}
// Null is what is not there.
Json or_absent(Json schema) {
  return one_of(Json::array({std::move(schema), Json{{"type", "null"}}}));
}

// Numbers are kept as floats: what lies between a bound and its neighbour there is the bound.
double inside(double bound, double towards, bool is_out) {
  const auto kept = static_cast<float>(bound);
  return is_out ? std::nextafter(kept, static_cast<float>(towards)) : bound;
}

Json number_schema(const NumberSpec& spec) {
  if (spec.whole) {
    return {{"type", "integer"}, {"minimum", spec.least}, {"maximum", spec.most}};
  }
  return {{"type", "number"},
          {"minimum", inside(spec.min, spec.max, spec.above_min)},
          {"maximum", inside(spec.max, spec.min, spec.below_max)}};
}

// One of the parameter's words; where they are the two of JSON's own, these too.
Json words_of(const Parameter& known) {
  Json values = Json::array();
  std::istringstream all{std::string(known.words)};
  for (std::string word; all >> word;) {
    if (word == "true" || word == "false") values.push_back(word == "true");
    values.push_back(word);
  }
  return {{"enum", std::move(values)}};
}

Json parameter_schema(const Parameter& known) {
  switch (known.kind) {
    case ParameterKind::number:
      return number_schema(known.number);
    case ParameterKind::flag:
      return flag();
    case ParameterKind::word:
      return words_of(known);
    case ParameterKind::stages:
    case ParameterKind::name:
      return text();
    case ParameterKind::texts: {
      const Json one = {{"type", "string"}, {"minLength", 1}};
      return one_of(Json::array({one, list_of(one)}));
    }
    case ParameterKind::ids:
      return list_of(token_id());
    case ParameterKind::biases:
      return {{"type", "object"},
              {"propertyNames", {{"pattern", "^[0-9]{1,9}$"}}},
              {"additionalProperties", {{"type", "number"}}}};
    case ParameterKind::settings:
      return any_object();
  }
  return anything();
}

// Members that may be left out.
void add(Json& properties, std::initializer_list<std::pair<const char*, Json>> members) {
  for (const auto& [name, schema] : members) properties[name] = or_absent(schema);
}

Json object_of(std::initializer_list<std::pair<const char*, Json>> needed,
               std::initializer_list<std::pair<const char*, Json>> members = {}) {
  Json properties = Json::object(), required = Json::array();
  for (const auto& [name, schema] : needed) {
    properties[name] = schema;
    required.push_back(name);
  }
  add(properties, members);
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json described(const Parameter& known) {
  Json schema = or_absent(parameter_schema(known));
  schema["description"] =
      std::string(known.sentence) + " (absent: " + std::string(known.otherwise) + ")";
  return schema;
}

Json some_text() {
  return {{"type", "string"}, {"minLength", 1}};
}
// An object of which some members are known, and others may be there.
Json open_object(std::initializer_list<std::pair<const char*, Json>> needed,
                 std::initializer_list<std::pair<const char*, Json>> members = {}) {
  Json schema = object_of(needed, members);
  schema.erase("additionalProperties");
  return schema;
}
Json typed(const char* type, std::initializer_list<std::pair<const char*, Json>> needed,
           std::initializer_list<std::pair<const char*, Json>> members = {}) {
  Json schema = open_object(needed, members);
  schema["properties"]["type"] = {{"const", type}};
  schema["required"].push_back("type");
  return schema;
}

// What the requests of OpenAI's older dialects have in common.
void add_sampling(Json& properties) {
  for (const Parameter& known : parameters()) {
    if (known.name == "logprobs" || known.name == "prompt_logprobs") continue;
    properties[std::string(known.name)] = described(known);
  }
  constexpr std::pair<const char*, const char*> kAlso[] = {
      {"n", "samples"},
      {"stop_token_ids", "stop_tokens"},
      {"allowed_token_ids", "allowed_tokens"},
      {"include_stop_str_in_output", "include_stop"}};
  // Where none were allowed, nothing could be said.
  properties["allowed_tokens"]["anyOf"][0]["minItems"] = 1;
  for (const auto& [name, known] : kAlso) properties[name] = properties[known];
  add(properties,
      {{"model", text()},
       {"stream", flag()},
       {"guided_json", anything()},
       {"guided_regex", text()},
       {"guided_grammar", text()},
       {"guided_choice", list_of(text())},
       {"structured_outputs", any_object()},
       {"priority", {{"type", "integer"}}},
       {"routed_dp_rank", {{"type", "integer"}, {"minimum", 0}, {"maximum", INT32_MAX}}},
       {"data_parallel_rank", {{"type", "integer"}, {"minimum", 0}, {"maximum", INT32_MAX}}},
       {"cache_salt", text()},
       {"kv_transfer_params",
        {{"type", "object"}, {"description", "where K/V is, or goes, as vLLM's workers say it"}}},
       {"watermarking", words({false})}});
}

// What only chats and completions have of it.
void add_older(Json& properties) {
  add_sampling(properties);
  const Json stream = object_of({}, {{"include_usage", flag()},
                                     {"continuous_usage_stats", flag()},
                                     {"include_obfuscation", anything()}});
  const Json form =
      object_of({{"type", words({"text", "json_object", "json_schema", "json", "regex"})}},
                {{"json_schema", any_object()}, {"schema", any_object()}, {"value", anything()}});
  add(properties, {{"stream_options", stream},
                   {"response_format", form},
                   {"regex", text()},
                   {"ebnf", text()},
                   {"cache_hit_threshold", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}},
                   {"bootstrap_host", anything()},
                   {"bootstrap_port", anything()},
                   {"bootstrap_room", anything()},
                   {"return_token_ids", flag()},
                   {"return_tokens_as_token_ids", flag()}});
}

// Fields that the table settles: without an effect, or with one value that is taken.
void add_settled(Json& properties, Place place) {
  for (const FieldRule& rule : field_rules()) {
    const std::string name(rule.name);
    const bool is_here = find_rule(place, rule.name) == &rule && !properties.contains(name);
    if (!is_here) continue;
    if (rule.use == FieldUse::ignored) properties[name] = {{"description", "has no effect here"}};
    const Json values = Json::parse(rule.neutral);
    if (rule.use == FieldUse::refused && !values.empty()) {
      properties[name] = or_absent({{"enum", values}});
    }
  }
}

Json prompt_schema() {
  const Json one = {{"type", "string"}, {"minLength", 1}};
  const Json ids = list_of(token_id(), 1);
  return one_of(Json::array({one, list_of(one, 1), ids, list_of(ids, 1)}));
}

Json content() {
  const Json part = {
      {"type", "object"},
      {"properties", {{"type", words({"text", "input_text", "output_text"})}, {"text", text()}}},
      {"required", Json::array({"type", "text"})}};
  return one_of(Json::array({text(), list_of(part, 1)}));
}

Json message() {
  const std::vector<Json> roles = {"system", "developer", "user", "assistant", "tool", "function"};
  Json schema = object_of({{"role", words(roles)}, {"content", content()}},
                          {{"name", text()},
                           {"tool_call_id", text()},
                           {"reasoning_content", text()},
                           {"reasoning", text()},
                           {"thinking", text()},
                           {"tool_calls", list_of(any_object())}});
  add_settled(schema["properties"], Place::chat_message);
  return schema;
}

// Settings that are objects, in more than one dialect.
Json reasoning() {
  Json schema = object_of({}, {{"effort", text()}, {"enabled", flag()}});
  add_settled(schema["properties"], Place::reasoning);
  return schema;
}
Json thinking() {
  Json schema = object_of({{"type", words({"disabled", "adaptive", "enabled"})}});
  add_settled(schema["properties"], Place::thinking);
  return schema;
}

Json completion() {
  Json schema = object_of({{"prompt", prompt_schema()}});
  Json& properties = schema["properties"];
  add_older(properties);
  add(properties, {{"logprobs", number_schema(parameter("logprobs").number)},
                   {"echo", flag()},
                   {"json_schema", one_of(Json::array({text(), any_object()}))},
                   {"add_special_tokens", flag()}});
  properties["max_tokens"]["minimum"] = 0;  // with "echo"
  add_settled(properties, Place::completions);
  return schema;
}

Json chat() {
  Json schema = object_of({{"messages", list_of(schema_ref("Message"), 1)}});
  Json& properties = schema["properties"];
  add_older(properties);
  properties["max_completion_tokens"] = properties["max_tokens"];
  const Json function = open_object({{"name", some_text()}}, {{"parameters", any_object()}});
  const Json tool = typed("function", {{"function", function}});
  const Json named = typed("function", {{"function", open_object({{"name", some_text()}})}});
  const Json allowed =
      typed("allowed_tools", {{"allowed_tools", open_object({{"mode", words({"auto", "required"})},
                                                             {"tools", list_of(named, 1)}})}});
  const Json choice = one_of(Json::array({words({"none", "auto", "required"}), named, allowed}));
  add(properties, {{"logprobs", flag()},
                   {"top_logprobs", number_schema(parameter("logprobs").number)},
                   {"tools", list_of(tool)},
                   {"tool_choice", choice},
                   {"parallel_tool_calls", flag()},
                   {"reasoning_effort", text()},
                   {"reasoning", reasoning()},
                   {"thinking", thinking()},
                   {"enable_thinking", flag()},
                   {"documents", list_of(any_object())},
                   {"chat_template_kwargs", any_object()},
                   {"add_generation_prompt", flag()},
                   {"continue_final_message", flag()}});
  add_settled(properties, Place::chat);
  return schema;
}

Json messages(bool counts_only) {
  const auto turn_of = [](const char* role, Json blocks) {
    const Json list = list_of(one_of(std::move(blocks)), 1);
    return object_of({{"role", words({role})}, {"content", one_of(Json::array({text(), list}))}});
  };
  const Json said = typed("text", {{"text", text()}});
  Json result = typed("tool_result", {{"tool_use_id", some_text()}});
  result["properties"]["content"] = content();
  Json use = typed("tool_use", {{"id", some_text()}, {"name", some_text()}});
  use["properties"]["input"] = any_object();
  const Json thought = typed("thinking", {{"thinking", text()}});
  const Json turns = one_of(Json::array({turn_of("user", Json::array({said, result})),
                                         turn_of("assistant", Json::array({said, thought, use}))}));
  Json schema = object_of({{"messages", list_of(turns, 1)}});
  Json& properties = schema["properties"];
  add_sampling(properties);
  for (const char* name : {"n", "samples", "stop"}) properties.erase(name);
  properties["max_tokens"] = parameter_schema(parameter("max_tokens"));
  if (!counts_only) schema["required"].push_back("max_tokens");
  Json tool = object_of({{"name", some_text()}}, {{"type", words({"custom"})},
                                                  {"description", text()},
                                                  {"input_schema", any_object()},
                                                  {"strict", flag()}});
  add_settled(tool["properties"], Place::messages_tool);
  const auto choice_of = [](const char* type) {
    return object_of({{"type", words({type})}}, {{"disable_parallel_tool_use", flag()}});
  };
  Json named = choice_of("tool");
  named["properties"]["name"] = some_text();
  named["required"].push_back("name");
  const Json choice =
      one_of(Json::array({choice_of("auto"), choice_of("any"), choice_of("none"), named}));
  const Json format = object_of({{"type", words({"json_schema"})}, {"schema", any_object()}});
  Json config = object_of({}, {{"effort", text()}, {"format", format}});
  add_settled(config["properties"], Place::output_config);
  add(properties, {{"system", content()},
                   {"stop_sequences", parameter_schema(parameter("stop"))},
                   {"tools", list_of(tool)},
                   {"tool_choice", choice},
                   {"thinking", thinking()},
                   {"output_config", config},
                   {"chat_template_kwargs", any_object()}});
  add_settled(properties, Place::messages);
  return schema;
}

// An item of a response's input.
Json response_item() {
  const auto kept = [](Json item) {
    for (const char* name : {"id", "status", "phase"}) item["properties"][name] = anything();
    add_settled(item["properties"], Place::item);
    item["additionalProperties"] = {{"type", "null"}};
    return item;
  };
  const std::vector<Json> roles = {"system", "developer", "user", "assistant", "tool", "function"};
  const Json said =
      object_of({{"role", words(roles)}, {"content", content()}}, {{"type", words({"message"})}});
  Json call =
      typed("function_call", {{"name", some_text()}}, {{"arguments", text()}, {"call_id", text()}});
  Json result = typed("function_call_output", {{"call_id", some_text()}}, {{"output", content()}});
  const Json part = open_object({{"text", text()}});
  Json thought = typed("reasoning", {}, {{"content", list_of(part)}, {"summary", list_of(part)}});
  return one_of(Json::array({kept(said), kept(call), kept(result), kept(thought)}));
}

Json responses() {
  const Json tool = typed("function", {{"name", some_text()}}, {{"parameters", any_object()}});
  const Json named = typed("function", {{"name", some_text()}});
  const Json allowed =
      typed("allowed_tools", {{"mode", words({"auto", "required"})}, {"tools", list_of(named, 1)}});
  const Json choice = one_of(Json::array({words({"none", "auto", "required"}), named, allowed}));
  const Json form = one_of(Json::array(
      {object_of({{"type", words({"text", "json_object"})}}),
       object_of({{"type", words({"json_schema"})}, {"schema", any_object()}},
                 {{"name", anything()}, {"description", anything()}, {"strict", anything()}})}));
  const Json input = one_of(Json::array({text(), list_of(response_item(), 1)}));
  Json schema = object_of({{"input", input}});
  Json& properties = schema["properties"];
  add_sampling(properties);
  for (const char* name : {"max_tokens", "samples", "n"}) properties.erase(name);
  properties["max_output_tokens"] = described(parameter("max_tokens"));
  add(properties,
      {{"instructions", text()},
       {"text", object_of({}, {{"format", form}, {"verbosity", anything()}})},
       {"reasoning", reasoning()},
       {"chat_template_kwargs", any_object()},
       {"metadata", any_object()},
       {"tools", list_of(tool)},
       {"tool_choice", choice},
       {"parallel_tool_calls", flag()},
       {"include", list_of(words({"message.output_text.logprobs", "reasoning.encrypted_content"}))},
       {"top_logprobs", number_schema(parameter("logprobs").number)}});
  add_settled(properties, Place::responses);
  return schema;
}

Json embedding() {
  Json schema = object_of({{"input", prompt_schema()}},
                          {{"model", text()},
                           {"encoding_format", words({"float", "base64"})},
                           {"dimensions", {{"type", "integer"}, {"minimum", 1}}}});
  add_settled(schema["properties"], Place::embeddings);
  return schema;
}
Json tokenize() {
  Json schema =
      object_of({{"prompt", text()}},
                {{"model", text()}, {"add_special_tokens", flag()}, {"return_token_strs", flag()}});
  add_settled(schema["properties"], Place::tokenize);
  return schema;
}
Json detokenize() {
  Json schema = object_of({{"tokens", list_of(token_id())}},
                          {{"model", text()}, {"skip_special_tokens", flag()}});
  add_settled(schema["properties"], Place::detokenize);
  return schema;
}

Json model_name() {
  return object_of({{"model", text()}}, {});
}

// OpenAI's errors have an object with all four; Anthropic's say what they are outside it.
Json error_schema() {
  const Json inner = {{"type", "object"},
                      {"required", Json::array({"message", "type", "param", "code"})},
                      {"properties",
                       {{"message", text()},
                        {"type", text()},
                        {"param", or_absent(text())},
                        {"code", or_absent(text())}}}};
  return {
      {"type", "object"}, {"required", Json::array({"error"})}, {"properties", {{"error", inner}}}};
}

Json anthropic_error_schema() {
  const Json inner = {
      {"type", "object"},
      {"required", Json::array({"type", "message"})},
      {"properties",
       {{"type", text()},
        {"message", text()},
        {"details", {{"type", "object"}, {"properties", {{"error_code", text()}}}}}}}};
  return {{"type", "object"},
          {"required", Json::array({"type", "error"})},
          {"properties", {{"type", words({"error"})}, {"error", inner}}}};
}

}  // namespace

Json schema_ref(const char* name) {
  return {{"$ref", std::string("#/components/schemas/") + name}};
}

Json request_schemas() {
  return {
      {"Message", message()},
      {"Completion", completion()},
      {"Chat", chat()},
      {"Messages", messages(false)},
      {"CountTokens", messages(true)},
      {"Responses", responses()},
      {"Embedding", embedding()},
      {"Tokenize", tokenize()},
      {"Detokenize", detokenize()},
      {"Role", object_of({{"role", words({"prefill", "decode", "both"})}}, {{"model", text()}})},
      {"ModelName", model_name()},
      {"LoadAdapter", object_of({{"lora_name", text()}, {"lora_path", text()}},
                                {{"model", text()}, {"load_inplace", flag()}})},
      {"UnloadAdapter", object_of({{"lora_name", text()}}, {{"model", text()}})},
      {"Error", error_schema()},
      {"AnthropicError", anthropic_error_schema()}};
}

}  // namespace tenon::api
