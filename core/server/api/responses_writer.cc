// /v1/responses
#include "core/server/api/dialects.h"

namespace tenon::api {
namespace {

using Kind = AnswerPart::Kind;

class ResponsesWriter final : public AnswerWriter {
 public:
  explicit ResponsesWriter(WriterContext context)
      : context_(std::move(context)), item_id_("msg_" + context_.id.substr(5)) {
    reader_ = reader_of(context_, 0);
  }

  void take(const AnswerEvent& event, std::string& out) override {
    if (event.kind == AnswerEvent::Kind::prompt) return;
    std::vector<AnswerPart> parts;
    reader_->push(event.text, event.ids, parts);
    const bool is_end = event.kind == AnswerEvent::Kind::end;
    if (is_end) {
      note_end(event);
      reader_->finish(parts);
      reason_ = event.reason;
    }
    if (problem()) return;
    begin(out);
    for (const AnswerPart& part : parts) {
      if (part.kind != Kind::content) continue;
      text_ += part.text;
      Json delta = place();
      delta["delta"] = part.text;
      delta["logprobs"] = Json::array();
      send("response.output_text.delta", std::move(delta), out);
    }
    if (is_end) close(out);
  }

  void finish(std::string& out) override {
    const bool is_whole = reason_ != FinishReason::length;
    if (!call().stream) {
      out = to_text(response(is_whole ? "completed" : "incomplete"));
    } else {
      send(is_whole ? "response.completed" : "response.incomplete",
           {{"response", response(is_whole ? "completed" : "incomplete")}}, out);
    }
  }

  void fail(const ApiError& error, std::string& out) override {
    send("error", {{"code", error.code}, {"message", error.message}, {"param", nullptr}}, out);
  }

 private:
  const GenerationCall& call() const { return *context_.call; }

  Json place() const { return {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}}; }
  Json part() const {
    return {{"type", "output_text"},
            {"text", text_},
            {"annotations", Json::array()},
            {"logprobs", Json::array()}};
  }
  Json item(std::string_view status, bool is_empty) const {
    return {{"id", item_id_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", is_empty ? Json::array() : Json::array({part()})}};
  }
  Json response(std::string_view status) const {
    const bool is_over = status != "in_progress";
    const AnswerSettings& answer = call().answer;
    const auto number = [&](std::string_view key) {
      const auto value = answer.sampling[*find_sampling_key(key)];
      return value ? Json(*value) : Json();
    };
    Json made = {{"id", context_.id},
                 {"object", "response"},
                 {"created_at", context_.created},
                 {"status", status},
                 {"error", nullptr},
                 {"incomplete_details",
                  status == "incomplete" ? Json{{"reason", "max_output_tokens"}} : Json()},
                 {"instructions", nullptr},
                 {"max_output_tokens", answer.max_tokens ? Json(*answer.max_tokens) : Json()},
                 {"model", context_.model},
                 {"output", is_over ? Json::array({item("completed", false)}) : Json::array()},
                 {"parallel_tool_calls", true},
                 {"previous_response_id", nullptr},
                 {"store", false},
                 {"temperature", number("temperature")},
                 {"text", {{"format", {{"type", "text"}}}}},
                 {"tool_choice", "auto"},
                 {"tools", Json::array()},
                 {"top_p", number("top_p")},
                 {"truncation", "disabled"},
                 {"usage", is_over ? usage_of(usage()) : Json()}};
    made["metadata"] = call().metadata.is_object() ? call().metadata : Json::object();
    return made;
  }
  static Json usage_of(const Usage& usage) {
    return {{"input_tokens", usage.prompt_tokens},
            {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
            {"output_tokens", usage.generated_tokens},
            {"output_tokens_details", {{"reasoning_tokens", 0}}},
            {"total_tokens", usage.prompt_tokens + usage.generated_tokens}};
  }

  void send(std::string_view type, Json data, std::string& out) {
    if (!call().stream) return;
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(data);
    append_event(event, out, type);
  }
  void begin(std::string& out) {
    if (has_begun_) return;
    has_begun_ = true;
    if (!call().stream) return;
    send("response.created", {{"response", response("in_progress")}}, out);
    send("response.in_progress", {{"response", response("in_progress")}}, out);
    send("response.output_item.added", {{"output_index", 0}, {"item", item("in_progress", true)}},
         out);
    Json added = place();
    added["part"] = part();
    send("response.content_part.added", std::move(added), out);
  }
  void close(std::string& out) {
    if (!call().stream) return;
    Json done = place();
    done["text"] = text_;
    done["logprobs"] = Json::array();
    send("response.output_text.done", std::move(done), out);
    Json whole = place();
    whole["part"] = part();
    send("response.content_part.done", std::move(whole), out);
    send("response.output_item.done", {{"output_index", 0}, {"item", item("completed", false)}},
         out);
  }

  const WriterContext context_;
  const std::string item_id_;
  std::unique_ptr<AnswerReader> reader_;
  std::string text_;
  FinishReason reason_ = FinishReason::length;
  bool has_begun_ = false;
  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(WriterContext context) {
  return std::make_unique<ResponsesWriter>(std::move(context));
}

}  // namespace tenon::api
