// Tenon as a library, in C++17 and later:
//
//   auto pipeline = tenon::llm::Pipeline::open({});
//   if (!pipeline) return tell(pipeline.error().message);
//   auto answer = pipeline->generate("Once upon a time", {{"max_tokens", "24"}});
//
// Everything here is inline code over <tenon/llm_c.h>, so that nothing of the standard library
// crosses the border: the program may be built with another compiler, another standard library or
// other flags than libtenon. What that header says of threads, ownership and versions holds here.
//
// Errors are values: nothing throws but what std::string and std::vector do when memory runs out. A
// callback that throws ends the program.
#pragma once

#include <tenon/llm_c.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::llm {
// Parts of one program may have been compiled with different versions of this header.
inline namespace v1 {

enum class ErrorCode : int32_t {
  invalid_argument = TENON_LLM_INVALID_ARGUMENT,  // the message says what is wrong, and why
  unsupported = TENON_LLM_UNSUPPORTED,            // valid, but this pipeline cannot do it
  out_of_memory = TENON_LLM_OUT_OF_MEMORY,
  not_found = TENON_LLM_NOT_FOUND,  // a file, a name or an id does not exist
  failed = TENON_LLM_FAILED,        // it was tried and did not succeed
  internal = TENON_LLM_INTERNAL,    // a defect, please report it
  busy = TENON_LLM_BUSY,            // too many calls have not ended: try again later
};

struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;  // for people, UTF-8
};

// A T, or the error that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: meant
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: meant

  explicit operator bool() const { return held_.index() == 0; }
  // Only where there is a value.
  T& operator*() { return *std::get_if<0>(&held_); }
  const T& operator*() const { return *std::get_if<0>(&held_); }
  T* operator->() { return std::get_if<0>(&held_); }
  const T* operator->() const { return std::get_if<0>(&held_); }
  // Only where there is none.
  const Error& error() const { return *std::get_if<1>(&held_); }

 private:
  std::variant<T, Error> held_;
};

// Names and values as texts, as in docs/formats/generation.md: {{"temperature", "0.7"}}. Also
// "json_schema", "json_object", "regex" and "grammar" (docs/structured-output.md), and "priority":
// a whole number, of which the lowest runs first where the scheduler looks at it.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Empty members, and 0, leave it to the pipeline.
struct Options {
  std::string config;                    // a pipeline's TOML file; empty = the bundled one
  std::string config_text;               // TOML instead of a file
  std::string model;                     // folder or GGUF file, instead of the pipeline's
  std::vector<std::string> overrides;    // "scheduler.plugin=static"
  std::vector<std::string> plugin_path;  // folders to look for plugins in first
  uint32_t threads = 0;                  // workers of the executor
  uint32_t max_calls = 0;                // not ended at the same time; 0 = 1024
  bool digests = false;                  // answers have a digest; hashing their logits takes time
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// A text, its tokens, or a conversation, which goes through the model's own chat template.
class Prompt {
 public:
  Prompt(std::string text) : held_(std::move(text)) {}                           // NOLINT: meant
  Prompt(const char* text) : held_(std::string(text)) {}                         // NOLINT: meant
  Prompt(std::vector<int32_t> tokens) : held_(std::move(tokens)) {}              // NOLINT: meant
  Prompt(std::vector<Message> conversation) : held_(std::move(conversation)) {}  // NOLINT: meant

 private:
  friend class Pipeline;
  std::variant<std::string, std::vector<int32_t>, std::vector<Message>> held_;
};

enum class Finish : int32_t {
  length = TENON_LLM_LENGTH,  // max_tokens, or the context is full
  stop = TENON_LLM_STOP,      // a stop string or a stop token
  eos = TENON_LLM_EOS,        // the model's end of text
  cancelled = TENON_LLM_CANCELLED,
};

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // of the tokens, where the setting "logprobs" asks for them
  Finish finish = Finish::length;
  std::string stop;            // the stop string that matched; empty = none
  uint32_t prompt_tokens = 0;  // that the prompt has
  uint32_t reused_tokens = 0;  // of them, whose K and V were there already
  uint64_t digest = 0;         // of the logits, as `tenon run --json` has it, with Options::digests
};

// New output of a call, borrowed for the callback. A text may lag behind its tokens.
struct Delta {
  uint32_t sample = 0;  // which of the answers, from 0
  std::string_view text;
  const int32_t* tokens = nullptr;
  size_t token_count = 0;
};
// Called on the pipeline's own thread, for which all calls wait. False cancels the call.
using OnDelta = std::function<bool(const Delta& delta)>;

namespace internal {

inline Error error_from(tenon_llm_error* raw) {
  Error error{static_cast<ErrorCode>(tenon_llm_error_code(raw)), tenon_llm_error_message(raw)};
  tenon_llm_error_free(raw);
  return error;
}
inline void drop(tenon_llm_error* raw) {
  tenon_llm_error_free(raw);
}
inline std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}

}  // namespace internal

// A request that runs. Its destructor cancels it and waits for a callback that runs right now.
class Call {
 public:
  Call(Call&& other) noexcept
      : raw_(std::exchange(other.raw_, nullptr)), on_delta_(std::move(other.on_delta_)) {}
  Call& operator=(Call&& other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(on_delta_, other.on_delta_);
    return *this;
  }
  ~Call() { internal::drop(tenon_llm_call_release(raw_)); }

  // Ends it soon, with what it has by then. [any thread]
  void cancel() { internal::drop(tenon_llm_call_cancel(raw_)); }
  // Waits for the end. Errors: the request failed; called from a callback. [any thread]
  Result<std::vector<Answer>> wait() {
    if (tenon_llm_error* error = tenon_llm_call_wait(raw_)) return internal::error_from(error);
    size_t count = 0;
    if (tenon_llm_error* error = tenon_llm_call_answer_count(raw_, &count)) {
      return internal::error_from(error);
    }
    std::vector<Answer> answers;
    for (size_t i = 0; i < count; ++i) {
      tenon_llm_answer raw{};
      raw.size = sizeof(raw);
      if (tenon_llm_error* error = tenon_llm_call_answer(raw_, i, &raw)) {
        return internal::error_from(error);
      }
      Answer& answer = answers.emplace_back();
      answer.text.assign(raw.text, raw.text_bytes);
      answer.tokens.assign(raw.tokens, raw.tokens + raw.token_count);
      if (raw.logprobs != nullptr) {
        answer.logprobs.assign(raw.logprobs, raw.logprobs + raw.token_count);
      }
      answer.finish = static_cast<Finish>(raw.finish);
      if (raw.stop != nullptr) answer.stop = raw.stop;
      answer.prompt_tokens = raw.prompt_tokens;
      answer.reused_tokens = raw.reused_tokens;
      answer.digest = raw.digest;
    }
    return answers;
  }

 private:
  friend class Pipeline;
  Call() = default;
  Result<std::vector<float>> values() {
    if (tenon_llm_error* error = tenon_llm_call_wait(raw_)) return internal::error_from(error);
    const float* values = nullptr;
    size_t count = 0;
    if (tenon_llm_error* error = tenon_llm_call_values(raw_, &values, &count)) {
      return internal::error_from(error);
    }
    return std::vector<float>(values, values + count);
  }
  static int32_t pass_on(void* user, const tenon_llm_delta* raw) noexcept {
    const Delta delta{raw->sample, {raw->text, raw->text_bytes}, raw->tokens, raw->token_count};
    return (*static_cast<const OnDelta*>(user))(delta) ? 0 : 1;
  }

  tenon_call* raw_ = nullptr;
  std::unique_ptr<OnDelta> on_delta_;  // where the library finds it
};

// An open pipeline, and its engine on a thread of its own. Any number of threads may use one.
class Pipeline {
 public:
  // Reads its files, loads its plugins and the model's weights. Errors: everything that is wrong,
  // each fault a line.
  static Result<Pipeline> open(const Options& options) {
    const auto overrides = internal::pointers(options.overrides);
    const auto plugin_path = internal::pointers(options.plugin_path);
    const auto text = [](const std::string& one) { return one.empty() ? nullptr : one.c_str(); };
    tenon_llm_options raw{};
    raw.size = sizeof(raw);
    raw.threads = options.threads;
    raw.max_calls = options.max_calls;
    raw.digests = options.digests ? 1 : 0;
    raw.config = text(options.config);
    raw.config_text = text(options.config_text);
    raw.model = text(options.model);
    raw.overrides = overrides.data();
    raw.override_count = overrides.size();
    raw.plugin_path = plugin_path.data();
    raw.plugin_path_count = plugin_path.size();
    Pipeline pipeline;
    if (tenon_llm_error* error = tenon_llm_open(&raw, &pipeline.raw_)) {
      return internal::error_from(error);
    }
    return pipeline;
  }
  Pipeline(Pipeline&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Pipeline& operator=(Pipeline&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  // Cancels what has not ended and waits for it. Not in a callback: the pipeline stays open then.
  ~Pipeline() {
    if (raw_ != nullptr) internal::drop(tenon_llm_close(raw_));
  }

  // Hands a request over and returns at once; with `on_delta`, pieces come as they are made.
  Result<Call> submit(const Prompt& prompt, const Settings& settings = {}, OnDelta on_delta = {}) {
    return submit(TENON_LLM_ANSWER, prompt, settings, std::move(on_delta));
  }
  // The first answer; it may have been cancelled by `on_delta`.
  Result<Answer> generate(const Prompt& prompt, const Settings& settings = {},
                          OnDelta on_delta = {}) {
    auto call = submit(prompt, settings, std::move(on_delta));
    if (!call) return call.error();
    auto answers = call->wait();
    if (!answers) return answers.error();
    return std::move(answers->front());
  }
  // The prompt as a vector; settings "pooling", "normalise" and "adapter".
  Result<std::vector<float>> embed(const Prompt& prompt, const Settings& settings = {}) {
    auto call = submit(TENON_LLM_EMBEDDING, prompt, settings, {});
    if (!call) return call.error();
    return call->values();
  }
  // The log probability of each token of the prompt after the first; setting "adapter".
  Result<std::vector<float>> score(const Prompt& prompt, const Settings& settings = {}) {
    auto call = submit(TENON_LLM_SCORE, prompt, settings, {});
    if (!call) return call.error();
    return call->values();
  }

 private:
  Pipeline() = default;
  Result<Call> submit(int32_t want, const Prompt& prompt, const Settings& settings,
                      OnDelta on_delta) {
    std::vector<tenon_llm_setting> raw_settings;
    for (const auto& [name, value] : settings)
      raw_settings.push_back({name.c_str(), value.c_str()});
    std::vector<tenon_llm_message> raw_messages;
    tenon_llm_request raw{};
    raw.size = sizeof(raw);
    raw.want = want;
    if (const auto* text = std::get_if<std::string>(&prompt.held_)) {
      raw.text = text->c_str();
      raw.text_bytes = text->size();
    } else if (const auto* tokens = std::get_if<std::vector<int32_t>>(&prompt.held_)) {
      raw.tokens = tokens->data();
      raw.token_count = tokens->size();
    } else {
      for (const Message& one : *std::get_if<std::vector<Message>>(&prompt.held_)) {
        raw_messages.push_back({one.role.c_str(), one.content.c_str()});
      }
      raw.messages = raw_messages.data();
      raw.message_count = raw_messages.size();
    }
    raw.settings = raw_settings.data();
    raw.setting_count = raw_settings.size();
    Call call;
    if (on_delta) {
      call.on_delta_ = std::make_unique<OnDelta>(std::move(on_delta));
      raw.on_delta = Call::pass_on;
      raw.user = call.on_delta_.get();
    }
    if (tenon_llm_error* error = tenon_llm_submit(raw_, &raw, &call.raw_)) {
      return internal::error_from(error);
    }
    return call;
  }

  tenon_llm* raw_ = nullptr;
};

}  // namespace v1
}  // namespace tenon::llm
