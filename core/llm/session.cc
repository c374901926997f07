#include "core/llm/session.h"

#include <charconv>
#include <system_error>
#include <utility>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/llm/open/prompt.h"
#include "core/llm/open/written_answer.h"
#include "core/pipeline/make_request.h"

namespace tenon::llm {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

// Forms of answers by the names that requests of servers and prompt files have for them.
std::optional<grammar::GrammarKind> form_named(const std::string& name) {
  if (name == "grammar") return grammar::GrammarKind::gbnf;
  if (name == "gbnf") return std::nullopt;
  return grammar::grammar_kind_of(name);
}

Status unknown_setting(const std::string& name, const std::vector<std::string>& known) {
  return invalid_argument("there is no setting " + in_quotes(name) + " here" +
                          did_you_mean(name, known));
}

Result<std::optional<grammar::GrammarSpec>> form_of(const Settings& settings) {
  std::optional<grammar::GrammarSpec> form;
  for (const auto& [name, value] : settings) {
    const auto kind = form_named(name);
    if (!kind) continue;
    if (form) return invalid_argument("an answer has two forms – give one of them");
    const bool object = *kind == grammar::GrammarKind::json_object;
    if (object && value != "true") {
      return invalid_argument("json_object is " + in_quotes(value) +
                              " – it must be true – leave it out otherwise");
    }
    form = grammar::GrammarSpec{*kind, object ? "" : value};
  }
  return form;
}

// When its turn comes is no part of an answer: 0 unless it is said.
Result<int32_t> priority_of(const Settings& settings) {
  int32_t priority = 0;
  for (const auto& [name, value] : settings) {
    if (name != "priority") continue;
    const char* const end = value.data() + value.size();
    const auto [stop, fault] = std::from_chars(value.data(), end, priority);
    if (fault != std::errc() || stop != end) {
      return invalid_argument("priority is " + in_quotes(value) +
                              " – it must be a whole number from -2147483648 to 2147483647");
    }
  }
  return priority;
}

Result<AnswerSettings> answer_of(const Settings& settings) {
  AnswerSettings answer;
  for (const auto& [name, value] : settings) {
    if (form_named(name) || name == "priority") continue;
    const Parameter* known = find_parameter(name);
    if (known == nullptr) {
      std::vector<std::string> names{"json_schema", "json_object", "regex", "grammar", "priority"};
      for (const Parameter& one : parameters()) names.emplace_back(one.name);
      return unknown_setting(name, names);
    }
    const std::string fault = add_written(answer, *known, value);
    if (!fault.empty()) return invalid_argument(fault);
  }
  return answer;
}

Status read_embedding(const Pipeline& pipeline, const Settings& settings, Request& request) {
  std::optional<Pooling> pooling;
  std::optional<bool> normalise;
  for (const auto& [name, value] : settings) {
    if (name == "pooling") {
      pooling = pooling_of(value);
      if (!pooling) {
        return invalid_argument("pooling is " + in_quotes(value) +
                                " – it must be last, mean or first");
      }
    } else if (name == "normalise") {
      TENON_ASSIGN_OR_RETURN(normalise, written_truth(name, value));
    } else if (name == "adapter") {
      request.adapter = value;
    } else {
      return unknown_setting(name, {"pooling", "normalise", "adapter"});
    }
  }
  TENON_ASSIGN_OR_RETURN(const EmbeddingWay way,
                         embedding_way(pipeline.model->path, pooling, normalise));
  request.pooling = way.pooling;
  request.normalise = way.normalise;
  return {};
}

Status read_score(const Settings& settings, Request& request) {
  for (const auto& [name, value] : settings) {
    if (name != "adapter") return unknown_setting(name, {"adapter"});
    request.adapter = value;
  }
  request.prompt_logprobs = true;
  request.max_tokens = 1;  // the least that an engine makes
  return {};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const PipelineSource& source, uint32_t calls,
                                               bool digests) {
  TENON_ASSIGN_OR_RETURN(PipelineConfig config, read_config(source));
  TENON_ASSIGN_OR_RETURN(OpenedPipeline opened,
                         open_pipeline(std::move(config), source.plugin_path));
  try {
    return std::unique_ptr<Session>(new Session(std::move(opened), calls, digests));
  } catch (const std::system_error& error) {  // its thread
    return failed(error.what());
  }
}

Session::Session(OpenedPipeline opened, uint32_t calls, bool digests) : opened_(std::move(opened)) {
  Result<ChatTemplate> chat = ChatTemplate::load(opened_.pipeline->model->path);
  if (chat.ok()) {
    chat_ = *std::move(chat);
  } else {
    chat_problem_ = chat.take_status();
  }
  host_ = std::make_unique<EngineHost>(
      *opened_.pipeline,
      HostOptions{.requests = calls,
                  .digests = digests,
                  .on_end = [this](const std::string& problem) { stop(problem); }});
  stepping_ = host_.get();
  context_tokens_ = host_->sequence_limit_tokens();
}

Session::~Session() {
  (void)close();
}

Result<std::vector<TokenId>> Session::encode_prompt(const Question& question) const {
  const int given = (question.text ? 1 : 0) + (question.tokens ? 1 : 0) +
                    (question.messages.empty() ? 0 : 1) + (question.conversation ? 1 : 0);
  if (given != 1) {
    return invalid_argument(
        given == 0 ? "there is no prompt – give a text, tokens or messages"
                   : "there is more than one prompt – give a text, tokens or messages");
  }
  const Pipeline& pipeline = *opened_.pipeline;
  if (question.tokens) return *question.tokens;
  if (question.text) return encode_text(pipeline, *question.text);
  if (!chat_) {
    return unsupported("the model has no chat template that can be used: " +
                       message_of(chat_problem_) + " – give a text or tokens");
  }
  const Conversation* const conversation =
      question.conversation ? &*question.conversation : nullptr;
  ChatOptions options;
  options.add_generation_prompt = conversation == nullptr || conversation->begins_turn;
  options.continue_final_message = conversation != nullptr && conversation->goes_on;
  TENON_ASSIGN_OR_RETURN(const RenderedChat rendered,
                         conversation == nullptr ? chat_->render(question.messages, options)
                                                 : chat_->render(conversation->input, options));
  if (pipeline.tokenizer == nullptr) return encode_text(pipeline, rendered.text);  // the error
  return encode_chat(*pipeline.tokenizer, rendered);
}

Result<std::vector<TokenId>> Session::encode(const Question& question) {
  const std::shared_lock open(open_);
  if (closed_) return failed("the pipeline is closed");
  return encode_prompt(question);
}

Result<std::string> Session::decode(std::span<const TokenId> tokens, bool special) {
  const std::shared_lock open(open_);
  if (closed_) return failed("the pipeline is closed");
  const Pipeline& pipeline = *opened_.pipeline;
  if (pipeline.tokenizer == nullptr) {
    return unsupported("the model has no tokenizer, so tokens have no text: " +
                       message_of(pipeline.tokenizer_problem));
  }
  return pipeline.tokenizer->decode(tokens, !special);
}

Result<Request> Session::make(const Question& question) {
  TENON_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, encode_prompt(question));
  const Pipeline& pipeline = *opened_.pipeline;
  if (question.want != Want::answer) {
    Request request;
    request.prompt = std::move(prompt);
    TENON_RETURN_IF_ERROR(question.want == Want::score
                              ? read_score(question.settings, request)
                              : read_embedding(pipeline, question.settings, request));
    return request;
  }
  TENON_ASSIGN_OR_RETURN(const AnswerSettings answer, answer_of(question.settings));
  TENON_ASSIGN_OR_RETURN(const auto form, form_of(question.settings));
  TENON_ASSIGN_OR_RETURN(Request request, make_request(pipeline, answer, std::move(prompt)));
  bound_answer(pipeline, request);
  TENON_ASSIGN_OR_RETURN(request.priority, priority_of(question.settings));
  if (form) {
    TENON_ASSIGN_OR_RETURN(request.grammar, grammars_.get(*form));
  }
  return request;
}

Result<std::shared_ptr<Call>> Session::submit(const Question& question, CallListener listener) {
  const std::shared_lock open(open_);
  if (closed_) return failed("the pipeline is closed");
  TENON_ASSIGN_OR_RETURN(Request request, make(question));
  std::shared_ptr<void> slot = host_->reserve(1);
  if (slot == nullptr) return std::shared_ptr<Call>();
  const auto call = std::make_shared<Call>(
      CallKind{question.want, request.samples, request.sampling.logprobs > 0,
               request.prompt_logprobs},
      std::move(listener), std::move(slot), [this](Call& gone) { forget(gone); });
  request.sink = call;
  {
    const std::lock_guard lock(mutex_);
    if (!problem_.empty()) return failed("the engine has stopped: " + problem_);
    calls_.emplace(call.get(), call);
  }
  const Result<RequestId> id = host_->submit(std::move(request));
  if (!id.ok()) {
    const std::lock_guard lock(mutex_);
    calls_.erase(call.get());
    return copy(id.status());
  }
  call->attach(*host_, *id);
  return call;
}

void Session::forget(Call& call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(&call);
  if (calls_.empty()) none_left_.notify_all();
}

void Session::stop(const std::string& problem) {
  std::map<Call*, std::shared_ptr<Call>> left;
  {
    const std::lock_guard lock(mutex_);
    problem_ = problem;
    left = calls_;
  }
  for (const auto& [key, call] : left) call->fail("the engine has stopped: " + problem);
}

Status Session::close() {
  if (stepping_ != nullptr && EngineHost::on_this_thread() == stepping_) {
    return failed("a callback closes its own pipeline, which would wait for the callback");
  }
  {
    const std::unique_lock open(open_);
    if (closed_) return failed("the pipeline is closed");
    closed_ = true;
    const std::lock_guard lock(mutex_);
    for (const auto& [key, call] : calls_) call->cancel();
  }
  {
    std::unique_lock lock(mutex_);
    none_left_.wait(lock, [this] { return calls_.empty(); });
  }
  host_.reset();
  opened_.pipeline.reset();
  opened_.registry.reset();
  return {};
}

}  // namespace tenon::llm
