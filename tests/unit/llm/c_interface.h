// What the tests of <tenon/llm_c.h> have in common.
#pragma once

#include <gtest/gtest.h>
#include <tenon/llm_c.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

namespace tenon {

// What is wrong, and which of the codes; empty and 0 where nothing is.
struct Told {
  int32_t code;
  std::string message;
};
inline Told told(tenon_llm_error* error) {
  Told told{tenon_llm_error_code(error), tenon_llm_error_message(error)};
  tenon_llm_error_free(error);
  return told;
}
inline std::string message(tenon_llm_error* error) {
  return told(error).message;
}

// Zero but for its size.
template <typename T>
T sized() {
  T made{};
  made.size = sizeof(T);
  return made;
}

using Settings = std::vector<tenon_llm_setting>;
inline const Settings kShort = {{"max_tokens", "12"}, {"temperature", "0"}};
// As long as it likes, until somebody ends it.
inline const Settings kLong = {{"max_tokens", "200"}, {"temperature", "0"}, {"ignore_eos", "true"}};

struct Listener {
  std::function<int32_t(const tenon_llm_delta&)> on_delta = [](const auto&) { return 0; };
  std::function<void()> on_end = [] {};
};

struct Given {
  tenon_llm_request request = sized<tenon_llm_request>();
  Given(const char* text, const Settings& settings, Listener* listener = nullptr) {
    request.text = text;
    request.settings = settings.data();
    request.setting_count = settings.size();
    if (listener == nullptr) return;
    request.user = listener;
    request.on_delta = [](void* user, const tenon_llm_delta* delta) {
      return static_cast<Listener*>(user)->on_delta(*delta);
    };
    request.on_end = [](void* user) { static_cast<Listener*>(user)->on_end(); };
  }
};

inline tenon_llm* opened(uint32_t max_calls = 0, uint32_t digests = 0) {
  tenon_llm_options options = sized<tenon_llm_options>();
  options.threads = 2;
  options.max_calls = max_calls;
  options.digests = digests;
  tenon_llm* llm = nullptr;
  EXPECT_EQ(message(tenon_llm_open(&options, &llm)), "");
  return llm;
}

class CInterface : public testing::Test {
 protected:
  ~CInterface() override { (void)told(tenon_llm_close(llm_)); }

  tenon_call* submitted(const Given& given) {
    tenon_call* call = nullptr;
    EXPECT_EQ(message(tenon_llm_submit(llm_, &given.request, &call)), "");
    return call;
  }
  Told refused(const Given& given) {
    tenon_call* call = nullptr;
    return told(tenon_llm_submit(llm_, &given.request, &call));
  }
  static tenon_llm_answer answer(tenon_call* call) {
    EXPECT_EQ(message(tenon_llm_call_wait(call)), "");
    tenon_llm_answer answer = sized<tenon_llm_answer>();
    EXPECT_EQ(message(tenon_llm_call_answer(call, 0, &answer)), "");
    return answer;
  }
  std::vector<int32_t> tokens(const Given& given) {
    tenon_call* const call = submitted(given);
    const tenon_llm_answer made = answer(call);
    std::vector<int32_t> all(made.tokens, made.tokens + made.token_count);
    EXPECT_EQ(message(tenon_llm_call_release(call)), "");
    return all;
  }

  tenon_llm* llm_ = opened();
};

constexpr const char* kPrompt = "Once upon a time";

// A call whose first piece arrived, and that goes on once `let_go` is called.
struct Held {
  std::promise<void> arrived, free;
  std::shared_future<void> freed = free.get_future().share();
  bool first = true;
  std::atomic<int> pieces = 0;
  Listener listener{[this](const tenon_llm_delta&) {
                      ++pieces;
                      if (first) {
                        first = false;
                        arrived.set_value();
                        freed.wait();
                      }
                      return 0;
                    },
                    [] {}};
  void await() { arrived.get_future().wait(); }
  void let_go() { free.set_value(); }
};

}  // namespace tenon
