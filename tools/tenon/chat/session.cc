#include "tools/tenon/chat/session.h"

#include <algorithm>
#include <chrono>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/chat/template_files.h"
#include "core/llm/open/written_answer.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

// Of the context, what must be left for an answer before a turn is dropped for it.
constexpr uint32_t kLeastAnswerTokens = 256;

Result<ChatTemplate> open_template(const ChatFlags& flags, const Pipeline& pipeline) {
  const std::string& model = pipeline.config.model_path.value;
  if (!flags.template_file.empty()) {
    TENON_ASSIGN_OR_RETURN(const std::string source, read_text_file(flags.template_file));
    TENON_ASSIGN_OR_RETURN(auto special_tokens, chat::read_special_tokens(model));
    return ChatTemplate::parse(source, flags.template_file, std::move(special_tokens));
  }
  Result<ChatTemplate> own = ChatTemplate::load(model);
  if (own.ok() || own.status().code() != StatusCode::not_found) return own;
  return not_found(path_in_quotes(model) +
                   " has no chat template, so it was hardly trained for conversations – give one "
                   "with --chat-template FILE, or have a text continued with 'tenon run'");
}

Result<std::string> optional_file(const std::string& path) {
  return path.empty() ? Result<std::string>(std::string()) : read_text_file(path);
}

}  // namespace

// Parses and shows an answer as it comes.
class ChatSession::Sink final : public RequestSink {
 public:
  Sink(AnswerParser parser, ChatScreen& screen) : parser_(std::move(parser)), screen_(screen) {}

  void on_delta(const RequestDelta& delta) override {
    if (delta.sample != 0) return;
    ids_.clear();
    for (const GeneratedToken& token : delta.tokens) ids_.push_back(token.token);
    parser_.push(delta.text, ids_, deltas_);
    take();
  }
  void on_end(const RequestEnd& end) override {
    if (end.sample != 0) return;
    parser_.finish(deltas_);
    take();
    figures.reason = end.reason;
    figures.message = end.message;
    if (end.record != nullptr) figures.record = *end.record;
  }

  Answer answer;
  AnswerFigures figures;

 private:
  void take() {
    for (const AnswerDelta& delta : deltas_) answer.add(delta);
    screen_.show(deltas_);
    deltas_.clear();
  }

  AnswerParser parser_;
  ChatScreen& screen_;
  std::vector<TokenId> ids_;
  std::vector<AnswerDelta> deltas_;
};

ChatSession::ChatSession(const ChatFlags& flags, OpenedPipeline opened, ChatTemplate chat)
    : flags_(flags), opened_(std::move(opened)), template_(std::move(chat)) {}

Result<std::unique_ptr<ChatSession>> ChatSession::open(const ChatFlags& flags) {
  PipelineFlags pipeline_flags = flags.pipeline;
  if (pipeline_flags.config.empty()) {
    TENON_ASSIGN_OR_RETURN(pipeline_flags.config, chat_pipeline());
  }
  TENON_ASSIGN_OR_RETURN(OpenedPipeline opened, open_pipeline(pipeline_flags));
  TENON_ASSIGN_OR_RETURN(ChatTemplate chat, open_template(flags, *opened.pipeline));
  warn_of_unknown_names(chat);
  if (opened.pipeline->tokenizer == nullptr) {
    return invalid_argument("the model has no tokenizer, so it cannot be talked to: " +
                            message_of(opened.pipeline->tokenizer_problem));
  }
  std::unique_ptr<ChatSession> session(new ChatSession(flags, std::move(opened), std::move(chat)));
  TENON_RETURN_IF_ERROR(session->read_inputs());
  Pipeline& pipeline = *session->opened_.pipeline;
  session->engine_ = std::make_unique<Engine>(pipeline.parts(), pipeline.engine_options());
  return session;
}

Status ChatSession::read_inputs() {
  format_ = answer_format_of(template_);
  if (!flags_.tool_format.empty()) {
    TENON_ASSIGN_OR_RETURN(format_.calls, tool_call_format_by_name(flags_.tool_format));
  }
  if (!flags_.reasoning_format.empty()) {
    TENON_ASSIGN_OR_RETURN(format_.reasoning, reasoning_format_by_name(flags_.reasoning_format));
  }
  TENON_ASSIGN_OR_RETURN(input_.tools, optional_file(flags_.tools));
  TENON_ASSIGN_OR_RETURN(input_.documents, optional_file(flags_.documents));
  input_.variables = flags_.variables;
  if (!flags_.load.empty()) TENON_RETURN_IF_ERROR(history_.load(flags_.load));
  if (!flags_.system.empty()) history_.set_system(flags_.system);
  return {};
}

Result<ChatSession::Prompted> ChatSession::render() {
  ChatInput input = input_;
  input.messages = history_.text();
  ChatOptions options;
  options.name = flags_.template_name;
  options.add_generation_prompt = true;
  Prompted prompt;
  TENON_ASSIGN_OR_RETURN(prompt.chat, template_.render(input, options));
  TENON_ASSIGN_OR_RETURN(prompt.ids, encode_chat(*opened_.pipeline->tokenizer, prompt.chat));
  if (prompt.ids.empty()) {
    return invalid_argument("the chat template makes no token of the conversation");
  }
  return prompt;
}

// Drops what is oldest where that is wanted and needed.
Result<ChatSession::Prompted> ChatSession::fitting_prompt() {
  const uint32_t limit = context_limit();
  const uint32_t room = flags_.drop_oldest ? std::min(kLeastAnswerTokens, limit / 4) : 1;
  for (;;) {
    TENON_ASSIGN_OR_RETURN(Prompted prompt, render());
    if (prompt.ids.size() + room <= limit) return prompt;
    const size_t before = history_.spoken();
    if (!flags_.drop_oldest || !history_.drop_oldest()) {
      if (prompt.ids.size() < limit) return prompt;
      return invalid_argument("the conversation has " + std::to_string(prompt.ids.size()) +
                              " tokens – the context " + "has room for " + std::to_string(limit) +
                              ", the answer included – /undo, /reset, or start with --drop-oldest");
    }
    dropped_ += before - history_.spoken();
  }
}

Result<AnswerSettings> ChatSession::asked() const {
  AnswerSettings answer;
  for (const auto& [name, value] : settings_) {
    const std::string fault = llm::add_written(answer, parameter(name), value);
    if (!fault.empty()) return invalid_argument(fault);
  }
  return overlaid(std::move(answer), flags_.generation.answer);
}

Result<Request> ChatSession::make_answer_request(const Prompted& prompt) const {
  Prompt tokens;
  tokens.tokens = prompt.ids;
  TENON_ASSIGN_OR_RETURN(tokens.answer, asked());
  TENON_ASSIGN_OR_RETURN(Request request, make_request(*opened_.pipeline, {}, tokens));
  // A conversation has more than one answer: where nobody says, none takes all that is left.
  if (request.max_tokens == 0) request.max_tokens = std::max(context_limit() / 4, 1u);
  const auto room = static_cast<uint32_t>(context_limit() - prompt.ids.size());
  request.max_tokens = std::min(request.max_tokens, room);
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
  request.sampling.seed += draws_;
  return request;
}

Status ChatSession::answer(ChatScreen& screen) {
  TENON_ASSIGN_OR_RETURN(const Prompted prompt, fitting_prompt());
  TENON_ASSIGN_OR_RETURN(Request request, make_answer_request(prompt));
  AnswerOptions options;
  options.format = format_;
  options.tools = input_.tools;
  options.prompt = prompt.chat.text;
  options.whole_calls = true;
  options.id_seed = answers_++;
  TENON_ASSIGN_OR_RETURN(
      AnswerParser parser,
      AnswerParser::make(options, opened_.pipeline->tokenizer.get(), prompt.ids));
  const auto sink = std::make_shared<Sink>(std::move(parser), screen);
  request.sink = sink;
  TENON_ASSIGN_OR_RETURN(const RequestId id, engine_->submit(std::move(request)));
  while (!engine_->idle()) {
    if (KeptInterrupts::take() || output_lost()) engine_->cancel(id);
    if (!engine_->wait_for_work(std::chrono::milliseconds(1))) continue;
    TENON_RETURN_IF_ERROR(engine_->step());
  }
  screen.end_answer();
  figures_ = sink->figures;
  if (figures_->reason == FinishReason::error) return failed(figures_->message);
  history_.add_answer(sink->answer);
  return {};
}

Status ChatSession::set(const std::string& name, const std::string& value) {
  const Parameter* known = find_parameter(name);
  if (known == nullptr) {
    std::vector<std::string> names;
    for (const Parameter& one : parameters()) names.emplace_back(one.name);
    return invalid_argument(in_quotes(name) + " is no parameter – expected one of " + join(names) +
                            did_you_mean(name, names));
  }
  // More than one answer, and what only --json of `tenon run` shows, has no place here.
  for (const char* const other : {"samples", "logprobs", "prompt_logprobs"}) {
    if (name == other) {
      return invalid_argument(name + " has no place in a conversation – use 'tenon run'");
    }
  }
  const auto before = settings_;
  settings_.erase(name);
  if (!value.empty()) settings_[name] = value;
  Result<AnswerSettings> answer = asked();
  if (answer.ok()) return {};
  settings_ = before;
  return answer.take_status();
}

uint32_t ChatSession::context_used() const {
  return figures_ ? figures_->record.prompt_tokens + figures_->record.generated_tokens : 0;
}

}  // namespace tenon
