// /v1/completions. Which fields it takes and refuses is a table (field_table.cc); here is refused
// only what depends on several of them.
#include <algorithm>
#include <limits>

#include "core/server/api/call.h"
#include "core/server/api/parameters/answer_json.h"
#include "core/server/api/read/sampling_fields.h"

namespace tenon::api {
namespace {

// OpenAI's own default, where a request says nothing.
constexpr uint32_t kMaxTokens = 16;
constexpr size_t kMostPrompts = 1024;

std::optional<std::vector<TokenId>> ids_of(const Json& list) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    const WrittenNumber written = written_json(id);
    if (!id_fault("prompt", written).empty()) return std::nullopt;
    ids.push_back(static_cast<TokenId>(std::get<int64_t>(written)));
  }
  return ids;
}

std::optional<PromptInput> one_input(const Json& value) {
  PromptInput input;
  if (value.is_string()) {
    input.text = value.get<std::string>();
    return input;
  }
  if (!value.is_array()) return std::nullopt;
  input.tokens = ids_of(value);
  if (!input.tokens) return std::nullopt;
  return input;
}

bool is_ids(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_number();
}

// "logprobs": as many alternatives at each place; 0 = of the chosen tokens alone.
void read_logprobs(Fields& fields, GenerationCall& call) {
  const int64_t most = parameter("logprobs").number.most;
  const Json* asked = fields.take("logprobs");
  if (asked != nullptr && *asked == Json(false)) return;  // as SGLang's clients say none
  const auto count = fields.whole("logprobs", 0, most);
  if (!count) return;
  call.logprobs = true;
  call.top_logprobs = static_cast<uint32_t>(*count);
  call.answer.logprobs = std::max(call.top_logprobs, 1u);
}

// "max_tokens"; 0 with "echo" asks for the prompt alone. The engine makes a token all the same,
// which nobody is shown.
void read_length(Fields& fields, GenerationCall& call) {
  call.echo = fields.flag("echo", false);
  const Json* length = fields.take("max_tokens");
  call.prompt_only = length != nullptr && *length == Json(0);
  if (!call.prompt_only) return read_as(fields, "max_tokens", "max_tokens", call);
  call.answer.max_tokens = 1;
  if (call.echo) return;
  fields.refuse("max_tokens", "is 0, which asks for nothing – with \"echo\" the prompt is shown");
}

}  // namespace

Outcome<std::vector<PromptInput>> read_inputs(const Json& value, const std::string& name) {
  const ApiError fault{.message = "\"" + name +
                                  "\" must be a text, a list of texts, a list of token ids, or a "
                                  "list of such lists",
                       .param = name};
  std::vector<PromptInput> inputs;
  if (value.is_string() || is_ids(value)) {
    auto input = one_input(value);
    if (!input) return fault;
    inputs.push_back(*std::move(input));
    return inputs;
  }
  if (!value.is_array()) return fault;
  if (value.empty()) return ApiError{.message = "\"" + name + "\" is empty", .param = name};
  if (value.size() > kMostPrompts) {
    return ApiError{.message = "\"" + name + "\" has " + std::to_string(value.size()) +
                               " entries – at most 1024 go into one request",
                    .param = name};
  }
  for (const Json& entry : value) {
    auto input = one_input(entry);
    if (!input) return fault;
    inputs.push_back(*std::move(input));
  }
  return inputs;
}

Outcome<GenerationCall> read_completion(const Json& body) {
  GenerationCall call;
  call.dialect = Dialect::completions;
  Fields fields(body);
  call.model = fields.text("model");
  if (const Json* prompt = fields.take("prompt")) {
    auto prompts = read_inputs(*prompt, "prompt");
    if (prompts.ok()) {
      call.prompts = *std::move(prompts);
    } else {
      fields.refuse(prompts.error());
    }
  } else {
    fields.refuse("prompt", "is missing – expected a text or token ids");
  }
  read_length(fields, call);
  read_sampling(fields, call);
  read_logprobs(fields, call);
  if (call.echo && call.logprobs) call.answer.prompt_logprobs = true;
  call.renamed.emplace("prompt_logprobs", "echo");
  call.add_special = fields.flag("add_special_tokens", true);
  read_streaming(fields, call);
  read_form(fields, call);
  read_extras(fields, call);
  read_token_ids(fields, call);
  if (!call.answer.max_tokens) call.answer.max_tokens = kMaxTokens;
  return finish_call(fields, std::move(call));
}

}  // namespace tenon::api
