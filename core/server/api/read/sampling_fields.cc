#include "core/server/api/read/sampling_fields.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/base/quote.h"
#include "core/server/api/parameters/answer_json.h"
#include "core/server/api/read/transfer_fields.h"

namespace tenon::api {
namespace {

struct Alias {
  std::string_view field;
  std::string_view parameter;
};
constexpr Alias kAliases[] = {
    {"n", "samples"},
    {"stop_token_ids", "stop_tokens"},
    {"include_stop_str_in_output", "include_stop"},
    {"allowed_token_ids", "allowed_tokens"},
};
// Read by each dialect in its own way, or not as other numbers are.
constexpr std::array<std::string_view, 5> kOwnWay = {"max_tokens", "logprobs", "prompt_logprobs",
                                                     "top_k", "seed"};

// A parameter that is called otherwise here is told by the name that the request has.
std::string told_as(std::string message, std::string_view parameter_name, std::string_view name) {
  const size_t at = name == parameter_name ? message.npos : message.find(parameter_name);
  const bool is_other = at != message.npos && at > 0 && message[at - 1] == '.';  // a plugin's fact
  if (at != message.npos && !is_other) message.replace(at, parameter_name.size(), name);
  return message;
}

void refuse_status(Fields& fields, std::string_view name, std::string_view parameter_name,
                   const Status& status) {
  if (status.ok()) return;
  fields.refuse(
      {.message = told_as(message_of(status), parameter_name, name), .param = fields.path(name)});
}

// -1 draws one.
void read_seed(Fields& fields, GenerationCall& call) {
  const Json* seed = fields.take("seed");
  call.draws_seed = seed != nullptr && *seed == Json(-1);
  if (!call.draws_seed) read_as(fields, "seed", "seed", call);
}

// vLLM says -1 for all.
void read_top_k(Fields& fields, GenerationCall& call) {
  const Json* top_k = fields.take("top_k");
  if (top_k == nullptr) return;
  const Json value = *top_k == Json(-1) ? Json(0) : *top_k;
  refuse_status(fields, "top_k", "top_k",
                read_parameter_json(parameter("top_k"), "top_k", value, call.answer));
}

// The same in fewer words: llama.cpp's {"type": …, "schema": …}, and TGI's, where "value" is a
// schema or a pattern. False: it is OpenAI's.
bool read_short_format(std::string_view type, Fields& format, GenerationCall& call) {
  const Json* given = nullptr;
  for (const char* name : {"schema", "value"}) {
    const Json* value = format.take(name);
    if (value == nullptr) continue;
    if (given != nullptr) format.refuse(name, "is a second form for one answer – keep one");
    given = value;
    const bool is_pattern = type == "regex";
    if (is_pattern ? !value->is_string() : !value->is_object() && !value->is_boolean()) {
      format.refuse(name, is_pattern ? "must be a text: the pattern of the answer"
                                     : "must be an object: the schema of the answer");
    }
  }
  if (given == nullptr) return false;
  call.form = AnswerForm{type == "regex" ? "regex" : "json_schema", *given, true};
  return true;
}

void read_json_schema(Fields& format, GenerationCall& call) {
  const Json* object = format.take("json_schema");
  if (object == nullptr || !object->is_object()) {
    return format.refuse("json_schema", "must be an object with a name and a schema");
  }
  Fields inner(*object, format.path("json_schema"));
  const Json* schema = inner.take("schema");
  if (schema == nullptr) inner.refuse("schema", "is missing – expected the schema of the answer");
  const bool strict = inner.flag("strict", false);
  for (const char* name : {"name", "description"}) (void)inner.text(name);
  inner.settle();
  format.absorb(inner);
  if (schema != nullptr) call.form = AnswerForm{"json_schema", *schema, strict};
}

void read_response_format(Fields& fields, GenerationCall& call) {
  const Json* format = fields.take("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) return fields.refuse("response_format", "must be an object");
  Fields inner(*format, "response_format");
  const std::string type = inner.text("type");
  const bool is_json = type == "json_schema" || type == "json_object" || type == "json";
  if ((is_json || type == "regex") && read_short_format(type, inner, call)) {
    // Nothing more of it is needed.
  } else if (type == "json_schema") {
    read_json_schema(inner, call);
  } else if (type == "json_object") {
    call.form = AnswerForm{type, Json(), true};
  } else if (type != "text") {
    inner.refuse("type", "must be \"text\", \"json_object\" or \"json_schema\"");
  }
  inner.settle();
  if (inner.fault()) fields.refuse(*inner.fault());
}

// SGLang's schema is JSON in a text, with the limits of a body.
void read_schema_text(Fields& fields, GenerationCall& call) {
  const Json* text = fields.take("json_schema");
  if (text == nullptr) return;
  auto schema =
      text->is_string() ? parse_body(text->get_ref<const std::string&>()) : Outcome<Json>(*text);
  if (!schema.ok()) {
    return fields.refuse("json_schema", "has a text of which " + schema.error().message);
  }
  if (!schema->is_object()) {
    return fields.refuse("json_schema", "must be a JSON schema, an object or a text of one");
  }
  if (call.form) {
    return fields.refuse("json_schema", "is a second form for one answer – keep one");
  }
  call.form = AnswerForm{"json_schema", *std::move(schema), true, "json_schema"};
}

void read_forms(std::span<const Alias> forms, Fields& fields, GenerationCall& call) {
  for (const Alias& form : forms) {
    const Json* definition = fields.take(form.field);
    if (definition == nullptr) continue;
    if (call.form) return fields.refuse(form.field, "is a second form for one answer – keep one");
    call.form = AnswerForm{std::string(form.parameter), *definition, true, std::string(form.field)};
  }
}

// llm-d's: a server that has less of the prompt says so, and computes nothing.
void read_cache_threshold(Fields& fields, GenerationCall& call) {
  if (call.dialect != Dialect::completions && call.dialect != Dialect::chat) return;
  const Json* share = fields.take("cache_hit_threshold");
  if (share == nullptr) return;
  const double value = share->is_number() ? share->get<double>() : -1.0;
  if (!(value >= 0.0 && value <= 1.0)) {
    return fields.refuse("cache_hit_threshold", "must be a number from 0 to 1");
  }
  call.cache_hit_threshold = static_cast<float>(value);
}

}  // namespace

void read_as(Fields& fields, std::string_view name, std::string_view parameter_name,
             GenerationCall& call) {
  const Json* value = fields.take(name);
  if (value == nullptr) return;
  if (name != parameter_name) call.renamed.emplace(parameter_name, name);
  refuse_status(fields, name, parameter_name,
                read_parameter_json(parameter(parameter_name), name, *value, call.answer));
}

Place place_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::completions:
      return Place::completions;
    case Dialect::chat:
      return Place::chat;
    case Dialect::messages:
      return Place::messages;
    case Dialect::responses:
      break;
  }
  return Place::responses;
}

std::string prompt_field(Dialect dialect) {
  if (dialect == Dialect::completions) return "prompt";
  return dialect == Dialect::responses ? "input" : "messages";
}

ApiError error_about(const GenerationCall& call, std::string_view setting, std::string message) {
  if (setting == "prompt") {
    return {.message = std::move(message), .param = prompt_field(call.dialect)};
  }
  if (setting == "grammar") {
    return {.message = std::move(message), .param = call.form ? call.form->field : ""};
  }
  const auto known = call.renamed.find(setting);
  const std::string name(known == call.renamed.end() ? setting : std::string_view(known->second));
  return {.message = told_as(std::move(message), setting, name), .param = name};
}

void read_sampling(Fields& fields, GenerationCall& call) {
  // Where there is one answer, nobody asks for several; Anthropic has another name for stops.
  const bool has_one_answer =
      call.dialect == Dialect::responses || call.dialect == Dialect::messages;
  const auto is_read = [&](std::string_view parameter) {
    if (parameter == "stop" && call.dialect == Dialect::messages) return false;
    return parameter != "samples" || !has_one_answer;
  };
  for (const Parameter& known : parameters()) {
    if (std::ranges::find(kOwnWay, known.name) != kOwnWay.end() || !is_read(known.name)) continue;
    read_as(fields, known.name, known.name, call);
  }
  for (const Alias& alias : kAliases) {
    if (is_read(alias.parameter)) read_as(fields, alias.field, alias.parameter, call);
  }
  read_seed(fields, call);
  read_top_k(fields, call);
}

// As SGLang has it, the older name last.
void read_engine_rank(Fields& fields, GenerationCall& call) {
  for (const char* name : {"routed_dp_rank", "data_parallel_rank"}) {
    const auto rank = fields.whole(name, 0, INT32_MAX);
    if (!rank || call.engine_rank) continue;
    call.engine_rank = static_cast<uint32_t>(*rank);
    call.engine_rank_name = name;
  }
}

void read_extras(Fields& fields, GenerationCall& call) {
  read_cache_threshold(fields, call);
  read_transfer(fields, call);
  call.cache_salt = fields.text("cache_salt");
  call.priority = static_cast<int32_t>(fields.whole("priority", INT32_MIN, INT32_MAX).value_or(0));
  read_engine_rank(fields, call);
  if (fields.take("watermarking") == nullptr) return;
  if (fields.flag("watermarking", false)) {
    return fields.refuse("watermarking", "can only be false: \"watermark_delta\" marks an answer");
  }
  auto& delta = call.answer.sampling[*find_sampling_key("watermark_delta")];
  if (!delta) delta = 0.0;
}

void read_token_ids(Fields& fields, GenerationCall& call) {
  call.token_ids = fields.flag("return_token_ids", false);
  call.tokens_as_ids = fields.flag("return_tokens_as_token_ids", false);
}

void read_streaming(Fields& fields, GenerationCall& call) {
  call.stream = fields.flag("stream", false);
  const Json* options = fields.take("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.refuse("stream_options", "must be an object");
  if (!call.stream) return fields.refuse("stream_options", "goes with \"stream\": true alone");
  Fields inner(*options, "stream_options");
  call.include_usage = inner.flag("include_usage", false);
  call.continuous_usage = inner.flag("continuous_usage_stats", false);
  inner.settle(Place::stream_options);
  fields.absorb(inner);
}

void read_form(Fields& fields, GenerationCall& call) {
  read_response_format(fields, call);
  read_vllm_forms(fields, call);
  constexpr Alias kForms[] = {{"regex", "regex"}, {"ebnf", "grammar"}};
  read_forms(kForms, fields, call);
  if (call.dialect == Dialect::completions) read_schema_text(fields, call);
}

void read_vllm_forms(Fields& fields, GenerationCall& call) {
  constexpr Alias kForms[] = {{"guided_json", "json_schema"},
                              {"guided_regex", "regex"},
                              {"guided_grammar", "grammar"},
                              {"guided_choice", "choice"},
                              {"structured_outputs", "structured_outputs"}};
  read_forms(kForms, fields, call);
}

Outcome<GenerationCall> finish_call(Fields& fields, GenerationCall call) {
  fields.settle(place_of(call.dialect));
  if (fields.fault()) return *fields.fault();
  call.ignored = fields.ignored();
  return call;
}

}  // namespace tenon::api
