#include "core/server/models/served_model.h"

#include <chrono>
#include <optional>

#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/engine/requests/adapter_names.h"
#include "core/llm/open/prompt.h"
#include "core/pipeline/make_request.h"
#include "core/server/api/read/json.h"
#include "core/server/api/read/sampling_fields.h"
#include "core/server/generation/answer_reader.h"
#include "core/server/models/model_facts.h"

namespace tenon::server {
namespace {

// Newer clients say "developer" where most templates know "system" alone.
void name_roles(const ChatTemplate& chat, ChatInput& input) {
  if (input.messages.find("\"developer\"") == std::string::npos) return;
  for (const std::string& name : chat.names()) {
    if (chat.source(name).find("developer") != std::string_view::npos) return;
  }
  auto messages = api::from_text(input.messages);
  for (api::Json& message : messages) {
    if (message["role"] == api::Json("developer")) message["role"] = "system";
  }
  input.messages = api::to_text(messages);
}

// Agents add instructions in the middle of a conversation, which many templates refuse. What the
// first message does not say stands at the end of the user's turn before it, or is one. Absent:
// there is no such message.
std::optional<ChatInput> with_one_system_message(const ChatInput& input) {
  const api::Json messages = api::from_text(input.messages);
  api::Json kept = api::Json::array();
  bool is_users_own = true;  // the last one that was kept
  bool any = false;
  for (const api::Json& message : messages) {
    const bool is_system = message["role"] == api::Json("system");
    const std::string last = kept.empty() ? "" : kept.back().value("role", "");
    const bool is_later = is_system && !kept.empty();
    const bool joins = is_later ? last == "user" || last == "system"
                                : message["role"] == api::Json("user") && !is_users_own;
    const bool are_texts = !kept.empty() && kept.back().value("content", api::Json()).is_string() &&
                           message.value("content", api::Json()).is_string();
    any = any || is_later;
    if (joins && are_texts) {
      kept.back()["content"] = kept.back()["content"].get<std::string>() + "\n\n" +
                               message["content"].get<std::string>();
    } else {
      kept.push_back(message);
      if (is_later) kept.back()["role"] = "user";
      is_users_own = !is_later;
    }
  }
  if (!any) return std::nullopt;
  ChatInput other = input;
  other.messages = api::to_text(kept);
  return other;
}

void choose_pooling(ServedModel& model) {
  const Result<llm::EmbeddingWay> way = llm::embedding_way(model.pipeline->model->path);
  if (way.ok()) {
    model.pooling = way->pooling;
    model.normalise = way->normalise;
  } else {
    model.pooling = Pooling::none;
    model.pooling_problem = message_of(way.status());
  }
}

void read_answers_of(ServedModel& model) {
  const AnswerFormat format = answer_format_of(*model.chat);
  model.reader = make_answer_reader(format, model.pipeline->tokenizer.get());
  model.reads_calls = format.calls != ToolCallFormat::none;
  model.reasoning = format.reasoning;
}

Status open_template(ServedModel& model, const std::string& file) {
  if (!file.empty()) {
    TENON_ASSIGN_OR_RETURN(model.chat, read_chat_template(file));
    return Status();
  }
  Result<ChatTemplate> loaded = ChatTemplate::load(model.pipeline->model->path);
  if (loaded.ok()) {
    model.chat = *std::move(loaded);
  } else {
    // Other endpoints serve the model all the same.
    model.chat_problem = message_of(loaded.status());
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<ServedModel>> open_served_model(std::string name, Pipeline& pipeline,
                                                       const std::string& template_file) {
  auto model = std::make_unique<ServedModel>();
  model->name = std::move(name);
  model->pipeline = &pipeline;
  model->created = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  TENON_RETURN_IF_ERROR(open_template(*model, template_file));
  if (model->chat) {
    read_answers_of(*model);
    warn_of_unknown_names(*model->chat);
  }
  choose_pooling(*model);
  model->tokenizer_info = tokenizer_info_json(*model);
  return model;
}

Result<ChatTemplate> read_chat_template(const std::string& file) {
  TENON_ASSIGN_OR_RETURN(const std::string source, read_text_file(file));
  return ChatTemplate::parse(source, file);
}

bool has_chat_template(const Pipeline& pipeline) {
  return ChatTemplate::load(pipeline.model->path).ok();
}

std::vector<ServedModel*> ServedModel::engines() {
  std::vector<ServedModel*> all = {this};
  for (const auto& other : others) all.push_back(other.get());
  return all;
}

std::unique_ptr<ServedModel> another_replica(const ServedModel& first, Pipeline& pipeline,
                                             uint32_t rank) {
  auto model = std::make_unique<ServedModel>();
  model->name = first.name;
  model->pipeline = &pipeline;
  model->created = first.created;
  model->rank = rank;
  model->replicas = first.replicas;
  model->cores_apart = first.cores_apart;
  return model;
}

api::Outcome<std::vector<TokenId>> encode_input(const ServedModel& model,
                                                const api::PromptInput& input, bool add_special) {
  if (input.tokens) return *input.tokens;
  Result<std::vector<TokenId>> tokens = encode_text(*model.pipeline, input.text, add_special);
  if (!tokens.ok()) return api::ApiError{.message = message_of(tokens.status())};
  return *std::move(tokens);
}

api::Outcome<EncodedChat> encode_conversation(const ServedModel& model, const ChatInput& chat,
                                              const ChatOptions& options) {
  if (!model.chat) {
    return api::ApiError{.message = "the model " + in_quotes(model.name) +
                                    " has no chat template that can be used: " +
                                    model.chat_problem + " – use /v1/completions",
                         .code = "no_chat_template"};
  }
  const Pipeline& pipeline = *model.pipeline;
  if (pipeline.tokenizer == nullptr) {
    return api::ApiError{.message = "the model has no tokenizer: " +
                                    message_of(pipeline.tokenizer_problem)};
  }
  ChatInput input = chat;
  name_roles(*model.chat, input);
  Result<RenderedChat> rendered = model.chat->render(input, options);
  if (!rendered.ok()) {
    if (const std::optional<ChatInput> other = with_one_system_message(input)) {
      Result<RenderedChat> again = model.chat->render(*other, options);
      if (again.ok()) rendered = std::move(again);
    }
  }
  if (!rendered.ok()) {
    return api::ApiError{
        .message = "the chat template refuses this conversation: " + message_of(rendered.status()),
        .param = "messages"};
  }
  Result<std::vector<TokenId>> tokens = encode_chat(*pipeline.tokenizer, *rendered);
  if (!tokens.ok()) return api::ApiError{.message = message_of(tokens.status())};
  return EncodedChat{std::move(rendered->text), *std::move(tokens)};
}

api::Outcome<EncodedChat> encode_conversation(const ServedModel& model,
                                              const api::GenerationCall& call) {
  auto encoded = encode_conversation(model, call.chat, call.chat_options);
  if (encoded.ok()) return encoded;
  api::ApiError error = encoded.error();
  if (!error.param.empty()) error.param = api::prompt_field(call.dialect);
  return error;
}

uint64_t cache_salt_of(const ServedModel& model, const std::string& salt,
                       const AdapterIdentity* adapter) {
  const uint64_t epoch = model.cache_epoch;
  if (salt.empty() && epoch == 0 && adapter == nullptr) return 0;
  std::string text = epoch == 0 ? salt : std::to_string(epoch) + "\n" + salt;
  if (adapter != nullptr) text = "adapter " + adapter->content + "\n" + text;
  const auto hash = sha256(std::as_bytes(std::span(text.data(), text.size())));
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(value); ++i) value = value << 8 | hash[i];
  return value | 1;
}

uint64_t cache_salt_of(const ServedModel& model, const std::string& salt,
                       const AdapterPlaces::Held& adapter) {
  return cache_salt_of(model, salt, adapter == nullptr ? nullptr : &adapter->identity);
}

AdapterPlaces::Held loaded_adapter(const ServedModel& model, const std::string& name) {
  return model.adapters == nullptr ? nullptr : model.adapters->find(name);
}

std::optional<api::ApiError> use_adapter(const ServedModel& model,
                                         const AdapterPlaces::Held& adapter, Request& request) {
  if (adapter != nullptr) {
    request.adapter = adapter->place;
    return std::nullopt;
  }
  if (model.adapters == nullptr) return std::nullopt;
  std::vector<std::string> known;
  for (const NamedAdapter& fixed : model.pipeline->config.adapters) known.push_back(fixed.name);
  for (const auto& loaded : model.adapters->list()) known.push_back(loaded->name());
  const Result<uint64_t> found = find_adapter(request.adapter, known);
  if (found.ok()) return std::nullopt;
  return api::ApiError{.message = message_of(found.status()), .param = "adapter"};
}

api::TokenText token_text_of(const ServedModel& model) {
  const Tokenizer* tokenizer = model.pipeline->tokenizer.get();
  if (tokenizer == nullptr) {
    return [](TokenId token) { return "token_id:" + std::to_string(token); };
  }
  return [tokenizer](TokenId token) {
    std::string bytes = tokenizer->token_bytes(token);
    return bytes.empty() ? std::string(tokenizer->piece(token)) : bytes;
  };
}

}  // namespace tenon::server
