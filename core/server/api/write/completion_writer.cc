// /v1/completions
#include "core/server/api/write/writer.h"

namespace tenon::api {
namespace {

class CompletionWriter final : public AnswerWriter {
 public:
  explicit CompletionWriter(WriterContext context) : context_(std::move(context)) {
    samples_ = context_.call->answer.samples.value_or(1);
    const size_t prompts = std::max<size_t>(context_.call->prompts.size(), 1);
    choices_.resize(prompts * samples_);
  }

  void take(const AnswerEvent& event, std::string& out) override {
    if (event.kind == AnswerEvent::Kind::prompt) return take_prompt(event);
    if (call().prompt_only) return take_answer(without_answer(event), out);
    take_answer(event, out);
  }

  void finish(std::string& out) override {
    if (call().stream) return end_stream(context_, head(), usage_json(usage()), out);
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) choices.push_back(whole(choices_[i], i));
    out = whole_answer(context_, head(), std::move(choices), usage_json(usage()));
  }

  void fail(const ApiError& error, std::string& out) override {
    out.append("data: ").append(error_json(error)).append("\n\ndata: [DONE]\n\n");
  }

 private:
  struct Choice {
    std::string text;
    std::vector<AnswerToken> tokens;
    AnswerEvent end;
    size_t offset = 0;  // in the text, for logprobs
    bool has_spoken = false;
  };

  const GenerationCall& call() const { return *context_.call; }
  size_t index_of(const AnswerEvent& event) const {
    return size_t{event.prompt} * samples_ + event.sample;
  }

  static AnswerEvent without_answer(AnswerEvent event) {
    event.text.clear();
    event.ids.clear();
    event.tokens.clear();
    event.stop.clear();
    event.generated_tokens = 0;
    const bool stopped = event.reason == FinishReason::stop || event.reason == FinishReason::eos;
    if (stopped) event.reason = FinishReason::length;
    return event;
  }

  void take_answer(const AnswerEvent& event, std::string& out) {
    Choice& choice = choices_.at(index_of(event));
    note(event);
    if (event.kind == AnswerEvent::Kind::end) choice.end = event;
    if (!call().stream) {
      choice.text += event.text;
      choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
      return;
    }
    if (problem()) return;
    const bool is_end = event.kind == AnswerEvent::Kind::end;
    if (!is_end && event.text.empty() && event.tokens.empty()) return;
    Json shown = begin(choice, index_of(event));
    shown["text"] = echo_text(event, choice) + event.text;
    const std::vector<AnswerToken> tokens = with_prompt(event, choice, event.tokens);
    put_tokens(tokens, choice, shown);
    shown["finish_reason"] = is_end ? Json(openai_finish_reason(event.reason)) : Json();
    shown["stop_reason"] = is_end ? stop_reason(event) : Json();
    choice.has_spoken = true;
    std::optional<Json> used;
    if (call().include_usage) used = call().continuous_usage ? usage_json(usage()) : Json();
    chunk_.append(shown, used, out);
  }

  // The prompt's tokens belong to each of its samples.
  void take_prompt(const AnswerEvent& event) {
    if (event.prompt >= prompt_tokens_.size()) prompt_tokens_.resize(event.prompt + 1);
    auto& tokens = prompt_tokens_[event.prompt];
    tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  }

  std::string echo_text(const AnswerEvent& event, const Choice& choice) const {
    const bool wanted = call().echo && !choice.has_spoken;
    return wanted && event.prompt < context_.prompt_texts.size()
               ? context_.prompt_texts[event.prompt]
               : std::string();
  }
  std::vector<AnswerToken> with_prompt(const AnswerEvent& event, const Choice& choice,
                                       const std::vector<AnswerToken>& own) const {
    std::vector<AnswerToken> tokens;
    if (call().echo && !choice.has_spoken && event.prompt < prompt_tokens_.size()) {
      tokens = prompt_tokens_[event.prompt];
    }
    tokens.insert(tokens.end(), own.begin(), own.end());
    return tokens;
  }

  Json head() const {
    return {{"id", context_.id},
            {"object", "text_completion"},
            {"created", context_.created},
            {"model", context_.model},
            {"system_fingerprint", context_.fingerprint}};
  }
  static Json begin(const Choice&, size_t index) {
    return {{"index", index}, {"text", ""}, {"logprobs", nullptr}};
  }
  void put_tokens(const std::vector<AnswerToken>& tokens, Choice& choice, Json& shown) const {
    if (call().logprobs) {
      shown["logprobs"] = completion_logprobs(tokens, call().top_logprobs, context_.token_text,
                                              choice.offset, call().tokens_as_ids);
    }
    if (!call().token_ids) return;
    Json ids = Json::array();
    for (const AnswerToken& token : tokens) ids.push_back(token.id);
    shown["token_ids"] = std::move(ids);
  }
  Json whole(Choice& choice, size_t index) const {
    Json shown = begin(choice, index);
    AnswerEvent of;
    of.prompt = static_cast<uint32_t>(index / samples_);
    shown["text"] = echo_text(of, choice) + choice.text;
    put_tokens(with_prompt(of, choice, choice.tokens), choice, shown);
    shown["finish_reason"] = openai_finish_reason(choice.end.reason);
    shown["stop_reason"] = stop_reason(choice.end);
    return shown;
  }

  const WriterContext context_;
  const ChunkHead chunk_{head()};
  uint32_t samples_ = 1;
  std::vector<Choice> choices_;
  std::vector<std::vector<AnswerToken>> prompt_tokens_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completion_writer(WriterContext context) {
  return std::make_unique<CompletionWriter>(std::move(context));
}

}  // namespace tenon::api
