// /v1/chat/completions
#include "core/server/api/write/writer.h"

namespace tenon::api {
namespace {

using Kind = AnswerPart::Kind;

class ChatWriter final : public AnswerWriter {
 public:
  explicit ChatWriter(WriterContext context) : context_(std::move(context)) {
    choices_.resize(call().answer.samples.value_or(1));
    for (Choice& choice : choices_) {
      choice.reader = reader_of(context_, static_cast<uint32_t>(index_of(choice)));
    }
  }

  void take(const AnswerEvent& event, std::string& out) override {
    if (event.kind == AnswerEvent::Kind::prompt) return;
    Choice& choice = choices_.at(event.sample);
    const bool is_end = event.kind == AnswerEvent::Kind::end;
    std::vector<AnswerPart> parts;
    note(event);
    choice.reader->push(event.text, event.ids, parts);
    if (is_end) {
      choice.reader->finish(parts);
      choice.end = event;
    }
    if (!call().stream) {
      gather(parts, choice);
      choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
      return;
    }
    if (!problem()) stream(event, parts, choice, out);
  }

  void finish(std::string& out) override {
    if (call().stream)
      return end_stream(context_, head("chat.completion.chunk"), chat_usage_json(usage()), out);
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) choices.push_back(whole(choices_[i], i));
    out = whole_answer(context_, head("chat.completion"), std::move(choices),
                       chat_usage_json(usage()));
  }

  void fail(const ApiError& error, std::string& out) override {
    out.append("data: ").append(error_json(error)).append("\n\ndata: [DONE]\n\n");
  }

 private:
  struct Choice {
    std::unique_ptr<AnswerReader> reader;
    std::string content, reasoning;
    Json calls = Json::array();
    uint32_t call_count = 0;
    std::vector<AnswerToken> tokens;
    AnswerEvent end;
    bool has_spoken = false;
  };

  const GenerationCall& call() const { return *context_.call; }
  uint64_t reasoning_tokens() const override {
    uint64_t sum = 0;
    for (const Choice& choice : choices_) sum += choice.reader->reasoning_tokens();
    return sum;
  }

  Json head(std::string_view object) const {
    return {{"id", context_.id},
            {"object", object},
            {"created", context_.created},
            {"model", context_.model},
            {"system_fingerprint", context_.fingerprint}};
  }
  std::string call_id(const AnswerPart& part, const Choice& choice, size_t sample) const {
    if (!part.id.empty()) return part.id;
    return "call_" + context_.id.substr(context_.id.find('-') + 1) + "_" + std::to_string(sample) +
           "_" + std::to_string(choice.call_count - 1);
  }
  static std::string_view finish_of(const Choice& choice) {
    const std::string_view reason = openai_finish_reason(choice.end.reason);
    return choice.call_count > 0 && reason == "stop" ? "tool_calls" : reason;
  }
  size_t index_of(const Choice& choice) const {
    return static_cast<size_t>(&choice - choices_.data());
  }

  void put_reasoning(const std::string& text, Json& message) const {
    const ReasoningField field = context_.reasoning_field;
    if (field != ReasoningField::reasoning) message["reasoning_content"] = text;
    if (field != ReasoningField::reasoning_content) message["reasoning"] = text;
  }

  // What one part adds to a message in a stream.
  Json delta_of(const AnswerPart& part, Choice& choice) const {
    if (part.kind == Kind::content) return {{"content", part.text}};
    if (part.kind == Kind::reasoning) {
      Json thought = Json::object();
      put_reasoning(part.text, thought);
      return thought;
    }
    Json entry = {{"index", choice.call_count}};
    if (part.kind == Kind::tool_call) {
      ++choice.call_count;
      entry["id"] = call_id(part, choice, index_of(choice));
      entry["type"] = "function";
      entry["function"] = {{"name", part.text}, {"arguments", ""}};
    } else {
      entry["index"] = choice.call_count - 1;
      entry["function"] = {{"arguments", part.text}};
    }
    return {{"tool_calls", Json::array({std::move(entry)})}};
  }

  void gather(const std::vector<AnswerPart>& parts, Choice& choice) const {
    for (const AnswerPart& part : parts) {
      if (part.kind == Kind::content) {
        choice.content += part.text;
      } else if (part.kind == Kind::reasoning) {
        choice.reasoning += part.text;
      } else if (part.kind == Kind::tool_call) {
        ++choice.call_count;
        choice.calls.push_back({{"id", call_id(part, choice, index_of(choice))},
                                {"type", "function"},
                                {"function", {{"name", part.text}, {"arguments", ""}}}});
      } else if (!choice.calls.empty()) {
        choice.calls.back()["function"]["arguments"].get_ref<std::string&>() += part.text;
      }
    }
  }

  void stream(const AnswerEvent& event, const std::vector<AnswerPart>& parts, Choice& choice,
              std::string& out) {
    if (!choice.has_spoken) {
      choice.has_spoken = true;
      append_chunk(event, {{"role", "assistant"}, {"content", ""}}, {}, false, out);
    }
    std::vector<AnswerToken> tokens = event.tokens;
    for (const AnswerPart& part : parts) {
      append_chunk(event, delta_of(part, choice), std::exchange(tokens, {}), false, out);
    }
    // Text may lag behind tokens.
    if (!tokens.empty()) append_chunk(event, {{"content", ""}}, tokens, false, out);
    if (event.kind == AnswerEvent::Kind::end) {
      append_chunk(event, Json::object(), {}, true, out);
    }
  }

  void append_chunk(const AnswerEvent& event, Json delta, const std::vector<AnswerToken>& tokens,
                    bool is_end, std::string& out) const {
    const Choice& choice = choices_[event.sample];
    Json shown = {{"index", event.sample}, {"delta", std::move(delta)}, {"logprobs", nullptr}};
    put_tokens(tokens, shown);
    shown["finish_reason"] = is_end ? Json(finish_of(choice)) : Json();
    if (is_end) shown["stop_reason"] = stop_reason(event);
    std::optional<Json> used;
    if (call().include_usage) used = call().continuous_usage ? chat_usage_json(usage()) : Json();
    chunk_.append(shown, used, out);
  }

  void put_tokens(const std::vector<AnswerToken>& tokens, Json& shown) const {
    if (tokens.empty()) return;
    if (call().logprobs) {
      shown["logprobs"] =
          chat_logprobs(tokens, call().top_logprobs, context_.token_text, call().tokens_as_ids);
    }
    if (!call().token_ids) return;
    Json ids = Json::array();
    for (const AnswerToken& token : tokens) ids.push_back(token.id);
    shown["token_ids"] = std::move(ids);
  }

  Json whole(const Choice& choice, size_t index) const {
    Json message = {{"role", "assistant"}};
    const bool only_calls = choice.content.empty() && choice.call_count > 0;
    message["content"] = only_calls ? Json() : Json(choice.content);
    message["refusal"] = nullptr;
    if (!choice.reasoning.empty()) put_reasoning(choice.reasoning, message);
    if (choice.call_count > 0) message["tool_calls"] = choice.calls;
    Json shown = {{"index", index}, {"message", std::move(message)}, {"logprobs", nullptr}};
    put_tokens(choice.tokens, shown);
    shown["finish_reason"] = finish_of(choice);
    shown["stop_reason"] = stop_reason(choice.end);
    return shown;
  }

  const WriterContext context_;
  const ChunkHead chunk_{head("chat.completion.chunk")};
  std::vector<Choice> choices_;
};

}  // namespace

std::optional<ReasoningField> parse_reasoning_field(std::string_view name) {
  if (name == "both") return ReasoningField::both;
  if (name == "reasoning") return ReasoningField::reasoning;
  if (name == "reasoning_content") return ReasoningField::reasoning_content;
  return std::nullopt;
}

std::unique_ptr<AnswerWriter> make_chat_writer(WriterContext context) {
  return std::make_unique<ChatWriter>(std::move(context));
}

}  // namespace tenon::api
