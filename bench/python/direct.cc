// What a program in C++ does with libtenon, for overhead.py, which loads this as a library and
// gives it an engine that is open. The calls are those that <tenon/llm.h> makes inline.
//
// Each work returns how many seconds it took, or -1 after a line that says why, and adds to
// `busy` the processor time of its own thread.
#include <tenon/llm_c.h>

#include <ctime>
#include <iostream>
#include <string>
#include <vector>

namespace {

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

bool failed(tenon_llm_error* error) {
  if (error == nullptr) return false;
  std::cerr << "direct: " << tenon_llm_error_message(error) << "\n";
  tenon_llm_error_free(error);
  return true;
}

// What a program keeps of an answer.
struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
};

class Request {
 public:
  Request(const std::string& prompt, int tokens) : tokens_(std::to_string(tokens)) {
    settings_ = {{"temperature", "0"}, {"ignore_eos", "true"}, {"max_tokens", tokens_.c_str()}};
    raw_.size = sizeof(raw_);
    raw_.want = TENON_LLM_ANSWER;
    raw_.text = prompt.c_str();
    raw_.text_bytes = prompt.size();
    raw_.settings = settings_.data();
    raw_.setting_count = settings_.size();
  }
  void stream_into(Answer* answer) {
    raw_.user = answer;
    raw_.on_delta = [](void* user, const tenon_llm_delta* delta) {
      auto* to = static_cast<Answer*>(user);
      to->text.append(delta->text, delta->text_bytes);
      to->tokens.insert(to->tokens.end(), delta->tokens, delta->tokens + delta->token_count);
      return int32_t{0};
    };
  }
  bool submit(tenon_llm* llm, tenon_call** call) {
    return !failed(tenon_llm_submit(llm, &raw_, call));
  }

 private:
  const std::string tokens_;
  std::vector<tenon_llm_setting> settings_;
  tenon_llm_request raw_{};
};

// Waits for the end, and gives the call back.
bool finish(tenon_call* call, Answer* answer) {
  tenon_llm_answer found{};
  found.size = sizeof(found);
  const bool ended =
      !failed(tenon_llm_call_wait(call)) && !failed(tenon_llm_call_answer(call, 0, &found));
  if (ended && answer->tokens.empty()) {
    answer->text.assign(found.text, found.text_bytes);
    answer->tokens.assign(found.tokens, found.tokens + found.token_count);
  }
  return !failed(tenon_llm_call_release(call)) && ended;
}

bool run_batch(tenon_llm* llm, int count, int tokens) {
  std::vector<tenon_call*> calls(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::string prompt = "The " + std::to_string(i) + ". king";
    if (!Request(prompt, tokens).submit(llm, &calls[static_cast<size_t>(i)])) return false;
  }
  size_t made = 0;
  for (tenon_call* call : calls) {
    Answer answer;
    if (!finish(call, &answer)) return false;
    made += answer.tokens.size();
  }
  return made == static_cast<size_t>(count) * static_cast<size_t>(tokens);
}

bool run_stream(tenon_llm* llm, int tokens) {
  const std::string prompt = "The king";
  Answer answer;
  Request request(prompt, tokens);
  request.stream_into(&answer);
  tenon_call* call = nullptr;
  return request.submit(llm, &call) && finish(call, &answer) &&
         answer.tokens.size() == static_cast<size_t>(tokens);
}

template <typename Work>
double timed(double* busy, const Work& work) {
  const double began = seconds(CLOCK_MONOTONIC), own = seconds(CLOCK_THREAD_CPUTIME_ID);
  const bool done = work();
  *busy += seconds(CLOCK_THREAD_CPUTIME_ID) - own;
  const double took = seconds(CLOCK_MONOTONIC) - began;
  return done ? took : -1;
}

}  // namespace

// `count` prompts at once, until all answers are there.
extern "C" double batch(tenon_llm* llm, int count, int tokens, double* busy) {
  return timed(busy, [&] { return run_batch(llm, count, tokens); });
}

// One prompt, whose answer comes in pieces.
extern "C" double stream(tenon_llm* llm, int tokens, double* busy) {
  return timed(busy, [&] { return run_stream(llm, tokens); });
}
