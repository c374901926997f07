// /v1/responses
#include <algorithm>
#include <utility>

#include "core/server/api/dialects.h"

namespace tenon::api {
namespace {

using Kind = AnswerPart::Kind;

// An answer is a list of items, one open at a time: what was thought, what is said, each call.
class ResponsesWriter final : public AnswerWriter {
 public:
  explicit ResponsesWriter(WriterContext context)
      : context_(std::move(context)), base_id_(context_.id.substr(5)) {
    reader_ = reader_of(context_, 0);
  }

  void take(const AnswerEvent& event, std::string& out) override {
    if (event.kind == AnswerEvent::Kind::prompt) return;
    std::vector<AnswerPart> parts;
    note(event);
    reader_->push(event.text, event.ids, parts);
    waiting_tokens_.insert(waiting_tokens_.end(), event.tokens.begin(), event.tokens.end());
    const bool is_end = event.kind == AnswerEvent::Kind::end;
    if (is_end) {
      reader_->finish(parts);
      reason_ = event.reason;
    }
    if (problem()) return;
    begin(out);
    for (const AnswerPart& part : parts) put(part, out);
    if (!is_end) return;
    if (output_.empty()) open(Kind::content, {}, out);
    // Text may lag behind tokens, and the last ones have none.
    if (is_open_ && open_ == Kind::content) (void)take_logprobs();
    close(is_whole() ? "completed" : "incomplete", out);
  }

  void finish(std::string& out) override {
    const char* status = is_whole() ? "completed" : "incomplete";
    if (!call().stream) {
      out = to_text(response(status));
    } else {
      send(std::string("response.") + status, {{"response", response(status)}}, out);
    }
  }

  void fail(const ApiError& error, std::string& out) override {
    send("error", {{"code", error.code}, {"message", error.message}, {"param", nullptr}}, out);
  }

 private:
  const GenerationCall& call() const { return *context_.call; }
  bool is_whole() const { return reason_ != FinishReason::length; }
  uint64_t reasoning_tokens() const override { return reader_->reasoning_tokens(); }

  // The tokens after the last ones that were taken, without what was thought.
  std::vector<AnswerToken> take_tokens() {
    std::vector<AnswerToken> tokens = std::exchange(waiting_tokens_, {});
    const uint64_t thought = reader_->reasoning_tokens();
    const uint64_t first = std::exchange(tokens_taken_, tokens_taken_ + tokens.size());
    if (thought <= first) return tokens;
    const auto more = std::min<uint64_t>(thought - first, tokens.size());
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(more));
    return tokens;
  }
  // Of a piece of the message.
  Json take_logprobs() {
    const std::vector<AnswerToken> tokens = take_tokens();
    if (!call().logprobs || tokens.empty()) return Json::array();
    Json logprobs =
        std::move(chat_logprobs(tokens, call().top_logprobs, context_.token_text)["content"]);
    logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
    return logprobs;
  }

  Json repeated(const char* name, const Json& otherwise) const {
    const Json& all = call().handed_back;
    return all.contains(name) ? all[name] : otherwise;
  }
  Json response(std::string_view status) const {
    const bool is_over = status != "in_progress";
    const AnswerSettings& answer = call().answer;
    const auto number = [&](std::string_view key) {
      const auto value = answer.sampling[*find_sampling_key(key)];
      return value ? Json(*value) : Json();
    };
    Json text = repeated("text", Json::object());
    if (!text.contains("format")) text["format"] = {{"type", "text"}};
    return {{"id", context_.id},
            {"object", "response"},
            {"created_at", context_.created},
            {"status", status},
            {"error", nullptr},
            {"incomplete_details",
             status == "incomplete" ? Json{{"reason", "max_output_tokens"}} : Json()},
            {"instructions", repeated("instructions", nullptr)},
            {"max_output_tokens", answer.max_tokens ? Json(*answer.max_tokens) : Json()},
            {"model", context_.model},
            {"output", is_over ? output_ : Json::array()},
            {"parallel_tool_calls", repeated("parallel_tool_calls", true)},
            {"previous_response_id", nullptr},
            {"reasoning", repeated("reasoning", nullptr)},
            {"store", false},
            {"temperature", number("temperature")},
            {"text", std::move(text)},
            {"tool_choice", repeated("tool_choice", "auto")},
            {"tools", repeated("tools", Json::array())},
            {"top_logprobs", call().top_logprobs},
            {"top_p", number("top_p")},
            {"truncation", "disabled"},
            {"usage", is_over ? usage_of(usage()) : Json()},
            {"metadata", repeated("metadata", Json::object())}};
  }
  static Json usage_of(const Usage& usage) {
    return {{"input_tokens", usage.prompt_tokens},
            {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
            {"output_tokens", usage.generated_tokens},
            {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
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
    send("response.created", {{"response", response("in_progress")}}, out);
    send("response.in_progress", {{"response", response("in_progress")}}, out);
  }

  // Of the item that is open, `more` being what its event adds.
  Json place(Json more = Json::object()) const {
    Json data = {{"item_id", output_.back()["id"]}, {"output_index", output_.size() - 1}};
    if (open_ != Kind::tool_call) data["content_index"] = 0;
    data.update(more);
    return data;
  }
  // The names of what happens to the item that is open.
  std::string event_of(const char* what) const {
    const char* of = open_ == Kind::content     ? "output_text"
                     : open_ == Kind::reasoning ? "reasoning_text"
                                                : "function_call_arguments";
    return std::string("response.") + of + what;
  }
  Json text_part() const {
    if (open_ == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text_}};
    return {{"type", "output_text"},
            {"text", text_},
            {"annotations", Json::array()},
            {"logprobs", logprobs_}};
  }
  Json new_item(const AnswerPart& call_part) {
    const std::string id = base_id_ + "_" + std::to_string(output_.size());
    if (open_ == Kind::content) {
      return {{"id", "msg_" + id},
              {"type", "message"},
              {"status", "in_progress"},
              {"role", "assistant"},
              {"content", Json::array()}};
    }
    if (open_ == Kind::reasoning) {
      return {{"id", "rs_" + id},
              {"type", "reasoning"},
              {"status", "in_progress"},
              {"summary", Json::array()},
              {"content", Json::array()}};
    }
    return {
        {"id", "fc_" + id},        {"type", "function_call"},
        {"status", "in_progress"}, {"call_id", call_part.id.empty() ? "call_" + id : call_part.id},
        {"name", call_part.text},  {"arguments", ""}};
  }

  void put(const AnswerPart& part, std::string& out) {
    if (part.kind == Kind::tool_call || part.kind == Kind::arguments) (void)take_tokens();
    if (part.kind == Kind::tool_call) return open(part.kind, part, out);
    if (part.kind != Kind::arguments && (!is_open_ || open_ != part.kind)) {
      open(part.kind, part, out);
    }
    text_ += part.text;
    Json delta = {{"delta", part.text}};
    if (open_ == Kind::content) delta["logprobs"] = take_logprobs();
    send(event_of(".delta"), place(std::move(delta)), out);
  }
  void open(Kind kind, const AnswerPart& part, std::string& out) {
    close("completed", out);
    open_ = kind;
    is_open_ = true;
    text_.clear();
    logprobs_ = Json::array();
    output_.push_back(new_item(part));
    send("response.output_item.added",
         {{"output_index", output_.size() - 1}, {"item", output_.back()}}, out);
    if (kind == Kind::tool_call) return;
    send("response.content_part.added", place({{"part", text_part()}}), out);
  }
  void close(const char* status, std::string& out) {
    if (!is_open_) return;
    is_open_ = false;
    Json& item = output_.back();
    item["status"] = status;
    if (open_ == Kind::tool_call) {
      item["arguments"] = text_;
      send(event_of(".done"), place({{"name", item["name"]}, {"arguments", text_}}), out);
    } else {
      item["content"] = Json::array({text_part()});
      Json done = {{"text", text_}};
      if (open_ == Kind::content) done["logprobs"] = logprobs_;
      send(event_of(".done"), place(std::move(done)), out);
      send("response.content_part.done", place({{"part", text_part()}}), out);
    }
    send("response.output_item.done", {{"output_index", output_.size() - 1}, {"item", item}}, out);
  }

  const WriterContext context_;
  const std::string base_id_;
  std::unique_ptr<AnswerReader> reader_;
  Json output_ = Json::array();
  Kind open_ = Kind::content;  // of the last item
  bool is_open_ = false;
  std::string text_;                         // of the item that is open
  Json logprobs_ = Json::array();            // likewise
  std::vector<AnswerToken> waiting_tokens_;  // whose text is still to come
  uint64_t tokens_taken_ = 0;
  FinishReason reason_ = FinishReason::length;
  bool has_begun_ = false;
  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(WriterContext context) {
  return std::make_unique<ResponsesWriter>(std::move(context));
}

}  // namespace tenon::api
