// /v1/messages
#include <algorithm>

#include "core/server/api/dialects.h"

namespace tenon::api {
namespace {

using Kind = AnswerPart::Kind;

class MessagesWriter final : public AnswerWriter {
 public:
  explicit MessagesWriter(WriterContext context) : context_(std::move(context)) {
    reader_ = reader_of(context_, 0);
  }

  void take(const AnswerEvent& event, std::string& out) override {
    if (event.kind == AnswerEvent::Kind::prompt) return;
    std::vector<AnswerPart> parts;
    note(event);
    reader_->push(event.text, event.ids, parts);
    const bool is_end = event.kind == AnswerEvent::Kind::end;
    if (is_end) {
      reader_->finish(parts);
      end_ = event;
    }
    if (problem()) return;
    begin(out);
    for (const AnswerPart& part : parts) put(part, out);
    if (is_end) {
      close_block(out);
      send("message_delta",
           {{"delta", {{"stop_reason", stop()}, {"stop_sequence", stop_reason(event)}}},
            {"usage", usage_of(usage())}},
           out);
    }
  }

  void finish(std::string& out) override {
    if (call().stream) return send("message_stop", Json::object(), out);
    Json message = head();
    message["content"] = content_;
    message["stop_reason"] = stop();
    message["stop_sequence"] = stop_reason(end_);
    message["usage"] = usage_of(usage());
    out = to_text(message);
  }

  void fail(const ApiError& error, std::string& out) override {
    out.append("event: error\ndata: ").append(messages_error_json(error)).append("\n\n");
  }

 private:
  const GenerationCall& call() const { return *context_.call; }

  Json head() const {
    return {{"id", context_.id},       {"type", "message"},        {"role", "assistant"},
            {"model", context_.model}, {"content", Json::array()}, {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }
  // What was found in the cache is not part of the input's count.
  static Json usage_of(const Usage& usage) {
    return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
            {"cache_read_input_tokens", usage.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"output_tokens", usage.generated_tokens}};
  }
  std::string_view stop() const {
    if (call_count_ > 0 && end_.reason != FinishReason::length) return "tool_use";
    if (end_.reason == FinishReason::length) return "max_tokens";
    return end_.stop.empty() ? "end_turn" : "stop_sequence";
  }

  void send(std::string_view type, Json data, std::string& out) const {
    if (!call().stream) return;
    Json event = {{"type", type}};
    event.update(data);
    append_event(event, out, type);
  }
  void begin(std::string& out) {
    if (has_begun_) return;
    has_begun_ = true;
    Json message = head();
    // An answer that ended before it began has counted no prompt.
    Usage begun = usage();
    begun.prompt_tokens = std::max<uint64_t>(begun.prompt_tokens, context_.prompt_ids.size());
    message["usage"] = usage_of(begun);
    send("message_start", {{"message", std::move(message)}}, out);
    send("ping", Json::object(), out);
  }

  void open_block(Kind kind, Json block, std::string& out) {
    close_block(out);
    open_ = kind;
    is_open_ = true;
    send("content_block_start", {{"index", content_.size()}, {"content_block", block}}, out);
    content_.push_back(std::move(block));
  }
  void close_block(std::string& out) {
    if (!is_open_) return;
    is_open_ = false;
    send("content_block_stop", {{"index", content_.size() - 1}}, out);
    Json& block = content_.back();
    if (open_ != Kind::tool_call) return;
    Json input = from_text(arguments_);
    block["input"] = input.is_null() ? Json::object() : std::move(input);
    arguments_.clear();
  }
  void send_delta(const char* type, const char* field, const std::string& text, std::string& out) {
    send("content_block_delta",
         {{"index", content_.size() - 1}, {"delta", {{"type", type}, {field, text}}}}, out);
  }

  void put(const AnswerPart& part, std::string& out) {
    if (part.kind == Kind::tool_call) {
      ++call_count_;
      const std::string id =
          part.id.empty() ? "toolu_" + context_.id.substr(4) + "_" + std::to_string(call_count_ - 1)
                          : part.id;
      return open_block(
          Kind::tool_call,
          {{"type", "tool_use"}, {"id", id}, {"name", part.text}, {"input", Json::object()}}, out);
    }
    if (part.kind == Kind::arguments) {
      arguments_ += part.text;
      return send_delta("input_json_delta", "partial_json", part.text, out);
    }
    const bool is_thought = part.kind == Kind::reasoning;
    if (!is_open_ || open_ != part.kind) {
      const Json block = is_thought
                             ? Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}
                             : Json{{"type", "text"}, {"text", ""}};
      open_block(part.kind, block, out);
    }
    const char* field = is_thought ? "thinking" : "text";
    send_delta(is_thought ? "thinking_delta" : "text_delta", field, part.text, out);
    Json& text = content_.back()[field];
    text = text.get<std::string>() + part.text;
  }

  const WriterContext context_;
  std::unique_ptr<AnswerReader> reader_;
  Json content_ = Json::array();
  Kind open_ = Kind::content;
  bool is_open_ = false;
  bool has_begun_ = false;
  std::string arguments_;
  uint32_t call_count_ = 0;
  AnswerEvent end_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_messages_writer(WriterContext context) {
  return std::make_unique<MessagesWriter>(std::move(context));
}

}  // namespace tenon::api
