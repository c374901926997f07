// <tenon/llm_c.h>: handles for sessions and calls, texts for errors, and nothing that throws.
#include <tenon/llm_c.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <new>

#include "core/base/log.h"
#include "core/llm/c_request.h"
#include "core/llm/handles.h"
#include "core/llm/session.h"
#include "core/llm/sized.h"

struct tenon_llm_error {
  int32_t code;
  std::string message;
};

namespace tenon::llm {
namespace {

struct OpenPipeline {
  std::unique_ptr<Session> session;
  std::string model, numerics, hash;
  uint32_t vocabulary, hidden;
};

// tenon_llm_alternatives, held.
struct Alternatives {
  uint32_t width = 0;
  std::vector<float> logprobs, candidates;
  std::vector<uint32_t> ranks;
  std::vector<int32_t> tokens;
};
Alternatives alternatives_of(const std::vector<ResultSink::Token>& positions) {
  Alternatives all;
  for (const ResultSink::Token& token : positions) {
    all.width = std::max(all.width, static_cast<uint32_t>(token.top.size()));
  }
  all.tokens.assign(positions.size() * all.width, kNoToken);
  all.candidates.assign(all.tokens.size(), -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < positions.size(); ++i) {
    all.logprobs.push_back(positions[i].logprob);
    all.ranks.push_back(positions[i].rank);
    for (size_t k = 0; k < positions[i].top.size(); ++k) {
      all.tokens[i * all.width + k] = positions[i].top[k].token;
      all.candidates[i * all.width + k] = positions[i].top[k].logprob;
    }
  }
  return all;
}

// A call, and what came of it in the form of C once somebody asks.
struct HeldCall {
  struct Answer {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    Alternatives alternatives;
  };
  std::shared_ptr<Call> call;
  std::once_flag once;
  std::vector<Answer> answers;
  std::vector<float> values;
  Alternatives prompt;
};

// Of the structs as they were in the first version: what they may have at least, for ever.
constexpr uint32_t kFirstOptions = offsetof(tenon_llm_options, plugin_path_count) + sizeof(size_t);
constexpr uint32_t kFirstFacts = offsetof(tenon_llm_facts, pipeline_hash) + sizeof(const char*);
constexpr uint32_t kFirstRequest = offsetof(tenon_llm_request, user) + sizeof(void*);
constexpr uint32_t kFirstAnswer = offsetof(tenon_llm_answer, reused_tokens) + sizeof(uint32_t);
constexpr uint32_t kFirstAlternatives =
    offsetof(tenon_llm_alternatives, candidates) + sizeof(const float*);

// Never destroyed: threads may be running when the program ends.
Handles<tenon_llm, OpenPipeline>& pipelines() {
  static auto* const kAll = new Handles<tenon_llm, OpenPipeline>;
  return *kAll;
}
Handles<tenon_call, HeldCall>& calls() {
  static auto* const kAll = new Handles<tenon_call, HeldCall>;
  return *kAll;
}

tenon_llm_error* no_memory() {
  static auto* const kError =
      new tenon_llm_error{TENON_LLM_OUT_OF_MEMORY, "there is not enough memory"};
  return kError;
}
// Made now, while there is memory.
[[maybe_unused]] const tenon_llm_error* const kNoMemoryMade = no_memory();

int32_t code_of(StatusCode code) {
  // Out of K/V is what a request waits for, and nothing that callers see.
  return code == StatusCode::out_of_kv ? TENON_LLM_FAILED : static_cast<int32_t>(code);
}

// Runs what may fail and turns its error into the caller's.
template <typename Body>
tenon_llm_error* guarded(const Body& body) noexcept {
  try {
    try {
      const Status status = body();
      if (status.ok()) return nullptr;
      return new tenon_llm_error{code_of(status.code()), message_of(status)};
    } catch (const std::bad_alloc&) {
      return no_memory();
    } catch (const std::exception& exception) {
      return new tenon_llm_error{TENON_LLM_INTERNAL,
                                 std::string("a defect, please report it: ") + exception.what()};
    }
  } catch (...) {
    return no_memory();
  }
}

Result<std::shared_ptr<OpenPipeline>> find(tenon_llm* llm) {
  std::shared_ptr<OpenPipeline> found = pipelines().find(llm);
  if (found == nullptr) {
    return invalid_argument("the tenon_llm is not open: it was closed, or never opened");
  }
  return found;
}

Status no_call() {
  return invalid_argument("the tenon_call is none: it was released, or never submitted");
}

Result<std::shared_ptr<HeldCall>> find(tenon_call* call) {
  std::shared_ptr<HeldCall> found = calls().find(call);
  if (found == nullptr) return no_call();
  return found;
}

// With its results in the form of C.
Result<std::shared_ptr<HeldCall>> find_ended(tenon_call* call) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<HeldCall> held, find(call));
  if (!held->call->ended()) return failed("the call has not ended – wait for it");
  std::call_once(held->once, [&held = *held] {
    const ResultSink& result = held.call->result();
    const CallKind& kind = held.call->kind();
    held.answers.resize(result.samples().size());
    for (size_t i = 0; i < held.answers.size() && kind.want == Want::answer; ++i) {
      for (const ResultSink::Token& token : result.samples()[i].tokens) {
        held.answers[i].tokens.push_back(token.token);
        if (kind.logprobs) held.answers[i].logprobs.push_back(token.logprob);
      }
      if (kind.logprobs) {
        held.answers[i].alternatives = alternatives_of(result.samples()[i].tokens);
      }
    }
    held.prompt = alternatives_of(result.prompt());
    held.values = result.embedding();
    for (const ResultSink::Token& token : result.prompt()) held.values.push_back(token.logprob);
  });
  return held;
}

Status check_index(const HeldCall& held, size_t index) {
  if (index < held.answers.size()) return {};
  return invalid_argument("there is no answer " + std::to_string(index) + ": there are " +
                          std::to_string(held.answers.size()));
}

Status read_texts(const char* const* given, size_t count, const char* name,
                  std::vector<std::string>& out) {
  if (count > 0 && given == nullptr) return null_argument(name);
  for (size_t i = 0; i < count; ++i) {
    if (given[i] == nullptr) return invalid_argument(std::string("a text of ") + name + " is NULL");
    out.emplace_back(given[i]);
  }
  return {};
}

Result<std::shared_ptr<OpenPipeline>> open(const tenon_llm_options& given) {
  PipelineSource source;
  if (given.reserved != 0 || given.reserved_too != 0) {
    return invalid_argument("reserved is not 0");
  }
  if (given.digests > 1) {
    return invalid_argument("digests is " + std::to_string(given.digests) + " – it must be 0 or 1");
  }
  if (given.config != nullptr && given.config_text != nullptr) {
    return invalid_argument("both config and config_text are given – give one of them");
  }
  if (given.config != nullptr) source.file = given.config;
  if (given.config_text != nullptr) source.text = given.config_text;
  TENON_RETURN_IF_ERROR(
      read_texts(given.overrides, given.override_count, "overrides", source.overrides));
  TENON_RETURN_IF_ERROR(
      read_texts(given.plugin_path, given.plugin_path_count, "plugin_path", source.plugin_path));
  if (given.model != nullptr) {
    source.settings.push_back({"model.path", std::string(given.model), {"model", 0, 0}});
  }
  if (given.threads != 0) {
    source.settings.push_back({"executor.threads", int64_t{given.threads}, {"threads", 0, 0}});
  }
  const uint32_t calls = given.max_calls == 0 ? HostOptions().requests : given.max_calls;
  auto opened = std::make_shared<OpenPipeline>();
  TENON_ASSIGN_OR_RETURN(opened->session, Session::open(source, calls, given.digests == 1));
  const Pipeline& pipeline = opened->session->pipeline();
  opened->model = pipeline.model->path;
  opened->numerics = pipeline.numerics;
  opened->hash = pipeline.hash;
  opened->vocabulary = pipeline.model->plan.vocabulary;
  opened->hidden = pipeline.model->plan.hidden;
  return opened;
}

int32_t finish_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return TENON_LLM_LENGTH;
    case FinishReason::stop:
      return TENON_LLM_STOP;
    case FinishReason::eos:
      return TENON_LLM_EOS;
    case FinishReason::pooled:
      return TENON_LLM_POOLED;
    case FinishReason::cancelled:
      return TENON_LLM_CANCELLED;
    case FinishReason::error:
    case FinishReason::uncached:  // not asked for here
      return TENON_LLM_ERROR;
  }
  return TENON_LLM_ERROR;
}

}  // namespace
}  // namespace tenon::llm

using namespace tenon;       // NOLINT(google-build-using-namespace): this file is their other side
using namespace tenon::llm;  // NOLINT(google-build-using-namespace)

uint32_t tenon_llm_abi(void) {
  return TENON_LLM_ABI;
}
const char* tenon_llm_version(void) {
  return TENON_VERSION;
}

int32_t tenon_llm_error_code(const tenon_llm_error* error) {
  return error == nullptr ? TENON_LLM_OK : error->code;
}
const char* tenon_llm_error_message(const tenon_llm_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
void tenon_llm_error_free(tenon_llm_error* error) {
  if (error != no_memory()) delete error;
}

void tenon_llm_set_log(int32_t least,
                       void (*on_line)(void* user, int32_t level, const char* component,
                                       const char* text),
                       void* user) {
  set_log_level(static_cast<LogLevel>(std::clamp(least, 0, 3)));
  if (on_line == nullptr) return set_log_sink({});
  set_log_sink([=](LogLevel level, std::string_view component, std::string_view text) {
    on_line(user, static_cast<int32_t>(level), std::string(component).c_str(),
            std::string(text).c_str());
  });
}

tenon_llm_error* tenon_llm_open(const tenon_llm_options* options, tenon_llm** llm) {
  return guarded([&]() -> Status {
    if (llm == nullptr) return null_argument("llm");
    tenon_llm_options read{};
    if (options != nullptr) {
      TENON_ASSIGN_OR_RETURN(read, read_sized(options, kFirstOptions, "tenon_llm_options"));
    }
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<OpenPipeline> opened, open(read));
    *llm = pipelines().add(std::move(opened));
    return {};
  });
}

tenon_llm_error* tenon_llm_close(tenon_llm* llm) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const auto opened, find(llm));
    TENON_RETURN_IF_ERROR(opened->session->close());
    pipelines().take(llm);
    return {};
  });
}

tenon_llm_error* tenon_llm_get_facts(tenon_llm* llm, tenon_llm_facts* facts) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const auto opened, find(llm));
    tenon_llm_facts all{};
    all.context_tokens = opened->session->context_tokens();
    all.vocabulary = opened->vocabulary;
    all.embedding_values = opened->hidden;
    all.model = opened->model.c_str();
    all.numerics = opened->numerics.c_str();
    all.pipeline_hash = opened->hash.c_str();
    return write_sized(all, facts, kFirstFacts, "tenon_llm_facts");
  });
}

tenon_llm_error* tenon_llm_submit(tenon_llm* llm, const tenon_llm_request* request,
                                  tenon_call** call) {
  bool busy = false;
  tenon_llm_error* const error = guarded([&]() -> Status {
    if (call == nullptr) return null_argument("call");
    TENON_ASSIGN_OR_RETURN(const auto opened, find(llm));
    TENON_ASSIGN_OR_RETURN(const tenon_llm_request read,
                           read_sized(request, kFirstRequest, "tenon_llm_request"));
    TENON_ASSIGN_OR_RETURN(const Question question, question_of(read));
    auto held = std::make_shared<HeldCall>();
    TENON_ASSIGN_OR_RETURN(held->call, opened->session->submit(question, listener_of(read)));
    busy = held->call == nullptr;
    if (busy) return failed("as many calls as max_calls have not ended – try again later");
    *call = calls().add(std::move(held));
    return {};
  });
  if (busy && error != nullptr && error != no_memory()) error->code = TENON_LLM_BUSY;
  return error;
}

tenon_llm_error* tenon_llm_encode(tenon_llm* llm, const tenon_llm_request* request, int32_t* tokens,
                                  size_t room, size_t* count) {
  return guarded([&]() -> Status {
    if (count == nullptr) return null_argument("count");
    if (tokens == nullptr && room != 0) return null_argument("tokens");
    TENON_ASSIGN_OR_RETURN(const auto opened, find(llm));
    TENON_ASSIGN_OR_RETURN(const tenon_llm_request read,
                           read_sized(request, kFirstRequest, "tenon_llm_request"));
    TENON_ASSIGN_OR_RETURN(const Question question, question_of(read));
    TENON_ASSIGN_OR_RETURN(const auto encoded, opened->session->encode(question));
    std::copy_n(encoded.begin(), std::min(room, encoded.size()), tokens);
    *count = encoded.size();
    return {};
  });
}

tenon_llm_error* tenon_llm_decode(tenon_llm* llm, const int32_t* tokens, size_t count,
                                  int32_t special, char* text, size_t room, size_t* bytes) {
  return guarded([&]() -> Status {
    if (bytes == nullptr) return null_argument("bytes");
    if (tokens == nullptr && count != 0) return null_argument("tokens");
    if (text == nullptr && room != 0) return null_argument("text");
    TENON_ASSIGN_OR_RETURN(const auto opened, find(llm));
    TENON_ASSIGN_OR_RETURN(const std::string decoded,
                           opened->session->decode({tokens, count}, special != 0));
    std::copy_n(decoded.begin(), std::min(room, decoded.size()), text);
    *bytes = decoded.size();
    return {};
  });
}

tenon_llm_error* tenon_llm_call_cancel(tenon_call* call) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const auto held, find(call));
    held->call->cancel();
    return {};
  });
}

tenon_llm_error* tenon_llm_call_wait(tenon_call* call) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const auto held, find(call));
    return held->call->wait();
  });
}

tenon_llm_error* tenon_llm_call_answer_count(tenon_call* call, size_t* count) {
  return guarded([&]() -> Status {
    if (count == nullptr) return null_argument("count");
    TENON_ASSIGN_OR_RETURN(const auto held, find_ended(call));
    *count = held->answers.size();
    return {};
  });
}

tenon_llm_error* tenon_llm_call_answer(tenon_call* call, size_t index, tenon_llm_answer* answer) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const auto held, find_ended(call));
    TENON_RETURN_IF_ERROR(check_index(*held, index));
    const ResultSink::Sample& sample = held->call->result().samples()[index];
    const HeldCall::Answer& flat = held->answers[index];
    const bool shown = held->call->kind().want == Want::answer;
    tenon_llm_answer all{};
    all.finish = finish_of(sample.reason);
    all.text = shown ? sample.text.c_str() : "";
    all.text_bytes = shown ? sample.text.size() : 0;
    all.tokens = flat.tokens.data();
    all.token_count = flat.tokens.size();
    all.logprobs = flat.logprobs.empty() ? nullptr : flat.logprobs.data();
    all.stop = sample.stop.empty() ? nullptr : sample.stop.c_str();
    all.prompt_tokens = static_cast<uint32_t>(sample.record.prompt_tokens);
    all.reused_tokens = static_cast<uint32_t>(sample.record.reused_tokens);
    all.digest = sample.record.logits_digest;
    return write_sized(all, answer, kFirstAnswer, "tenon_llm_answer");
  });
}

tenon_llm_error* tenon_llm_call_values(tenon_call* call, const float** values, size_t* count) {
  return guarded([&]() -> Status {
    if (values == nullptr || count == nullptr) return null_argument("values or count");
    TENON_ASSIGN_OR_RETURN(const auto held, find_ended(call));
    if (held->call->kind().want == Want::answer) {
      return invalid_argument("the call is for an answer, which has no values");
    }
    if (held->values.empty() && held->call->cancelled()) return failed("the call was cancelled");
    *values = held->values.data();
    *count = held->values.size();
    return {};
  });
}

tenon_llm_error* tenon_llm_call_alternatives(tenon_call* call, size_t index,
                                             tenon_llm_alternatives* out) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const auto held, find_ended(call));
    const bool of_prompt = index == TENON_LLM_PROMPT;
    if (!of_prompt) TENON_RETURN_IF_ERROR(check_index(*held, index));
    const CallKind& kind = held->call->kind();
    if (of_prompt ? !kind.prompt_logprobs : !kind.logprobs) {
      return invalid_argument(of_prompt ? "the setting prompt_logprobs did not ask for them"
                                        : "the setting logprobs did not ask for them");
    }
    const Alternatives& flat = of_prompt ? held->prompt : held->answers[index].alternatives;
    tenon_llm_alternatives all{};
    all.width = flat.width;
    all.positions = flat.logprobs.size();
    all.logprobs = flat.logprobs.data();
    all.ranks = flat.ranks.data();
    all.tokens = flat.tokens.data();
    all.candidates = flat.candidates.data();
    return write_sized(all, out, kFirstAlternatives, "tenon_llm_alternatives");
  });
}

tenon_llm_error* tenon_llm_call_release(tenon_call* call) {
  return guarded([&]() -> Status {
    if (call == nullptr) return {};
    const std::shared_ptr<HeldCall> held = calls().take(call);
    if (held == nullptr) return no_call();
    if (!held->call->ended()) held->call->cancel();
    held->call->mute();
    return {};
  });
}
