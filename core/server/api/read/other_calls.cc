#include "core/server/api/read/other_calls.h"

#include <bit>
#include <cstring>

#include "core/server/api/read/chat_messages.h"
#include "core/server/api/read/fields.h"
#include "core/server/api/read/template_fields.h"

namespace tenon::api {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors go out as they lie in memory");

std::string bytes_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void read_conversation(Fields& fields, TokenizeCall& call) {
  const Json* messages = fields.take("messages");
  if (messages == nullptr) return fields.refuse("prompt", "is missing, and so is \"messages\"");
  Notes notes;
  auto checked = read_messages(*messages, notes);
  note_ignored(fields, notes);
  if (!checked.ok()) return fields.refuse(checked.error());
  call.chat.messages = to_text(*checked);
  if (const Json* tools = fields.take("tools")) call.chat.tools = to_text(*tools);
  Json variables = Json::object();
  read_template_kwargs(fields, variables);
  read_effort(fields, variables);
  give_variables(variables, call.chat);
  call.chat_options.continue_final_message = fields.flag("continue_final_message", false);
  call.chat_options.add_generation_prompt =
      fields.flag("add_generation_prompt", !call.chat_options.continue_final_message);
}

}  // namespace

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

Outcome<EmbeddingCall> read_embedding(const Json& body) {
  EmbeddingCall call;
  Fields fields(body);
  call.model = fields.text("model");
  if (const Json* input = fields.take("input")) {
    auto inputs = read_inputs(*input, "input");
    if (inputs.ok()) {
      call.inputs = *std::move(inputs);
    } else {
      fields.refuse(inputs.error());
    }
  } else {
    fields.refuse("input", "is missing – expected a text, texts, or token ids");
  }
  const std::string encoding = fields.text("encoding_format", "float");
  call.base64 = encoding == "base64";
  if (!call.base64 && encoding != "float") {
    fields.refuse("encoding_format", "must be \"float\" or \"base64\"");
  }
  if (const auto count = fields.whole("dimensions", 1, 1 << 24)) {
    call.dimensions = static_cast<uint32_t>(*count);
  }
  fields.settle(Place::embeddings);
  if (fields.fault()) return *fields.fault();
  call.ignored = fields.ignored();
  return call;
}

std::string embedding_json(const EmbeddingCall& call, const std::string& model,
                           const std::vector<std::vector<float>>& vectors, uint64_t prompt_tokens) {
  Json data = Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    data.push_back(
        {{"object", "embedding"},
         {"index", i},
         {"embedding", call.base64 ? Json(base64(bytes_of(vectors[i]))) : Json(vectors[i])}});
  }
  return to_text({{"object", "list"},
                  {"data", std::move(data)},
                  {"model", model},
                  {"usage", {{"prompt_tokens", prompt_tokens}, {"total_tokens", prompt_tokens}}}});
}

Outcome<TokenizeCall> read_tokenize(const Json& body) {
  TokenizeCall call;
  Fields fields(body);
  call.model = fields.text("model");
  const Json* prompt = fields.take("prompt");
  if (prompt == nullptr) {
    read_conversation(fields, call);
  } else if (prompt->is_string()) {
    call.prompt = prompt->get<std::string>();
  } else {
    fields.refuse("prompt", "must be a text");
  }
  call.add_special = fields.flag("add_special_tokens", call.prompt.has_value());
  if (call.add_special && !call.prompt) {
    fields.refuse("add_special_tokens",
                  "can only be false with \"messages\": templates write such "
                  "tokens themselves");
  }
  call.pieces = fields.flag("return_token_strs", false);
  fields.settle(Place::tokenize);
  if (fields.fault()) return *fields.fault();
  call.ignored = fields.ignored();
  return call;
}

std::string tokenize_json(const TokenizeCall& call, const std::vector<TokenId>& tokens,
                          uint32_t max_model_tokens, const TokenText& text) {
  Json texts;
  if (call.pieces) {
    texts = Json::array();
    for (const TokenId token : tokens) texts.push_back(text(token));
  }
  return to_text({{"count", tokens.size()},
                  {"max_model_len", max_model_tokens},
                  {"tokens", tokens},
                  {"token_strs", std::move(texts)}});
}

Outcome<DetokenizeCall> read_detokenize(const Json& body) {
  DetokenizeCall call;
  Fields fields(body);
  call.model = fields.text("model");
  const Json* tokens = fields.take("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    fields.refuse("tokens", "must be a list of token ids");
  } else if (!tokens->empty()) {
    auto inputs = read_inputs(*tokens, "tokens");
    if (!inputs.ok() || inputs->size() != 1 || !inputs->front().tokens) {
      fields.refuse("tokens", "must be a list of token ids");
    } else {
      call.tokens = *std::move(inputs->front().tokens);
    }
  }
  call.skip_special = fields.flag("skip_special_tokens", false);
  fields.settle(Place::detokenize);
  if (fields.fault()) return *fields.fault();
  call.ignored = fields.ignored();
  return call;
}

Outcome<AdapterCall> read_adapter_call(const Json& body, bool loads) {
  AdapterCall call;
  Fields fields(body);
  call.model = fields.text("model");
  call.name = fields.text("lora_name");
  if (fields.ok() && call.name.empty()) {
    fields.refuse("lora_name", "is missing – it is what requests call the adapter");
  }
  if (loads) {
    call.path = fields.text("lora_path");
    if (fields.ok() && call.path.empty()) {
      fields.refuse("lora_path", "is missing – it is the adapter's folder");
    }
    call.replace = fields.flag("load_inplace", false);
    if (fields.flag("is_3d_lora_weight", false)) {
      fields.refuse("is_3d_lora_weight", "is true – adapters of experts are not built");
    }
  } else if (fields.whole("lora_int_id", INT64_MIN, INT64_MAX)) {
    fields.note_ignored("lora_int_id");
  }
  fields.settle();
  if (fields.fault()) return *fields.fault();
  call.ignored = fields.ignored();
  return call;
}

Outcome<std::string> read_model_name(const Json& body) {
  const auto name = body.is_object() ? body.find("model") : body.end();
  if (body.is_object() && body.size() == 1 && name != body.end() && name->is_string()) {
    return name->get<std::string>();
  }
  return ApiError{.message = "expected {\"model\": NAME} and nothing else", .param = "model"};
}

}  // namespace tenon::api
