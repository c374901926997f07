// A pipeline and its calls, as Python holds them.
#pragma once

#include <tenon/llm_c.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sdk/python/src/inbox.h"

namespace tenon::python {

struct Opening {
  std::optional<std::string> config, config_text, model;
  std::vector<std::string> overrides, plugin_path;
  uint32_t threads = 0, max_calls = 0;
  bool digests = false;
};

// A prompt, of which exactly one form is there, and what is wanted of it.
struct Asked {
  std::optional<std::string> text;
  std::optional<std::vector<int64_t>> tokens;
  std::optional<std::string> conversation, tools, template_data;
  uint32_t chat = 0;
  std::vector<std::pair<std::string, std::string>> settings;
  int32_t want = TENON_LLM_ANSWER;
  bool streams = false;  // pieces are kept as they come
};

// An open tenon_llm. Every method may be called from any thread, without Python's lock; all throw
// Failure.
class Engine {
 public:
  explicit Engine(const Opening& opening);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Of one that is closed, nothing.
  void close();
  // Throws where it is closed, or was opened before a fork.
  tenon_llm* handle() const;
  tenon_llm_facts facts() const;
  std::vector<int32_t> encode(const Asked& asked) const;
  std::string decode(const std::vector<int64_t>& tokens, bool special) const;
  // Every one that is open: their threads must not outlive the interpreter.
  static void close_all();

 private:
  tenon_llm* handle_ = nullptr;
  std::atomic<bool> closed_ = false;
  const unsigned opened_after_forks_ = forks();
};

// One request. It is released with the object, and cancelled if it has not ended.
class Call {
 public:
  Call(const Engine& engine, const Asked& asked, std::shared_ptr<Bell> bell, uint64_t id);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Inbox& inbox();
  void cancel();
  // Throws what the request failed with, which has ended.
  void check_end();
  size_t answer_count();
  tenon_llm_answer answer(size_t index);
  tenon_llm_alternatives alternatives(size_t index);
  std::pair<const float*, size_t> values();

 private:
  tenon_call* handle() const;

  std::unique_ptr<Inbox> inbox_;
  tenon_call* handle_ = nullptr;
  const unsigned opened_after_forks_ = forks();
};

}  // namespace tenon::python
