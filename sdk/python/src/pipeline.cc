#include "sdk/python/src/pipeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "sdk/python/src/failure.h"

namespace tenon::python {
namespace {

// All that are open, and after how many forks they were opened. Never destroyed: threads may be
// running at the end of the process.
std::mutex& open_mutex() {
  static auto* const kMutex = new std::mutex;
  return *kMutex;
}
std::map<tenon_llm*, unsigned>& open_handles() {
  static auto* const kOpen = new std::map<tenon_llm*, unsigned>;
  return *kOpen;
}

[[noreturn]] void refuse(std::string message) {
  throw Failure(TENON_LLM_INVALID_ARGUMENT, std::move(message));
}

void check_forks(unsigned opened_after) {
  if (opened_after == forks()) return;
  throw Failure(
      TENON_LLM_FAILED,
      "the pipeline was opened before this process was forked, and its engine runs in the "
      "parent alone – open one here");
}

// C's texts end in 0.
const char* whole(const std::string& text, const char* name) {
  if (text.find('\0') != text.npos) refuse(std::string(name) + " has a character 0 in it");
  return text.c_str();
}
const char* whole(const std::optional<std::string>& text, const char* name) {
  return text ? whole(*text, name) : nullptr;
}

std::vector<const char*> pointers(const std::vector<std::string>& texts, const char* name) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(whole(text, name));
  return all;
}

std::vector<int32_t> ids(const std::vector<int64_t>& given) {
  std::vector<int32_t> all;
  all.reserve(given.size());
  for (const int64_t id : given) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      refuse(std::to_string(id) + " is no token id");
    }
    all.push_back(static_cast<int32_t>(id));
  }
  return all;
}

// A request in C, with the room that it points into.
struct Written {
  tenon_llm_request request{};
  std::vector<int32_t> tokens;
  std::vector<tenon_llm_setting> settings;

  explicit Written(const Asked& asked) {
    request.size = sizeof(request);
    request.want = asked.want;
    if (asked.text) {
      request.text = asked.text->c_str();
      request.text_bytes = asked.text->size();
    }
    if (asked.tokens) {
      tokens = ids(*asked.tokens);
      tokens.reserve(1);  // no tokens are a prompt, too, and refused as one
      request.tokens = tokens.data();
      request.token_count = tokens.size();
    }
    request.conversation = whole(asked.conversation, "the conversation");
    request.tools = whole(asked.tools, "tools");
    request.template_data = whole(asked.template_data, "chat_template_kwargs");
    request.chat = asked.chat;
    for (const auto& [name, value] : asked.settings) {
      settings.push_back({whole(name, "a name of a setting"), whole(value, name.c_str())});
    }
    request.settings = settings.data();
    request.setting_count = settings.size();
  }
};

int32_t keep_piece(void* user, const tenon_llm_delta* delta) {
  static_cast<Inbox*>(user)->add({delta->sample,
                                  {delta->text, delta->text_bytes},
                                  {delta->tokens, delta->tokens + delta->token_count}});
  return 0;
}

void note_end(void* user) {
  static_cast<Inbox*>(user)->end();
}

}  // namespace

Engine::Engine(const Opening& opening) {
  const auto overrides = pointers(opening.overrides, "a setting");
  const auto plugin_path = pointers(opening.plugin_path, "plugin_path");
  tenon_llm_options options{};
  options.size = sizeof(options);
  options.threads = opening.threads;
  options.max_calls = opening.max_calls;
  options.digests = opening.digests ? 1 : 0;
  options.config = whole(opening.config, "pipeline");
  options.config_text = whole(opening.config_text, "pipeline");
  options.model = whole(opening.model, "model");
  options.overrides = overrides.data();
  options.override_count = overrides.size();
  options.plugin_path = plugin_path.data();
  options.plugin_path_count = plugin_path.size();
  check(tenon_llm_open(&options, &handle_));
  const std::lock_guard lock(open_mutex());
  open_handles().emplace(handle_, opened_after_forks_);
}

Engine::~Engine() {
  // After a fork the engine's thread, which would be waited for, is not in this process.
  if (opened_after_forks_ == forks()) close();
}

void Engine::close() {
  check_forks(opened_after_forks_);
  {
    const std::lock_guard lock(open_mutex());
    if (open_handles().erase(handle_) == 0) return;
  }
  closed_ = true;
  tenon_llm_error_free(tenon_llm_close(handle_));
}

tenon_llm* Engine::handle() const {
  check_forks(opened_after_forks_);
  if (closed_) refuse("the model was closed – open it again");
  return handle_;
}

tenon_llm_facts Engine::facts() const {
  tenon_llm_facts facts{};
  facts.size = sizeof(facts);
  check(tenon_llm_get_facts(handle(), &facts));
  return facts;
}

std::vector<int32_t> Engine::encode(const Asked& asked) const {
  const Written written(asked);
  // A token has a byte at least; what a template adds is seldom more than this.
  size_t count = asked.text ? asked.text->size() + 8 : 4096;
  std::vector<int32_t> tokens;
  do {
    tokens.resize(count);
    check(tenon_llm_encode(handle(), &written.request, tokens.data(), tokens.size(), &count));
  } while (count > tokens.size());
  tokens.resize(count);
  return tokens;
}

std::string Engine::decode(const std::vector<int64_t>& tokens, bool special) const {
  const std::vector<int32_t> given = ids(tokens);
  std::string text;
  size_t bytes = given.size() * 8;
  do {
    text.resize(bytes);
    check(tenon_llm_decode(handle(), given.data(), given.size(), special ? 1 : 0, text.data(),
                           text.size(), &bytes));
  } while (bytes > text.size());
  text.resize(bytes);
  return text;
}

void Engine::close_all() {
  std::map<tenon_llm*, unsigned> open;
  {
    const std::lock_guard lock(open_mutex());
    open.swap(open_handles());
  }
  for (const auto& [handle, opened_after] : open) {
    if (opened_after == forks()) tenon_llm_error_free(tenon_llm_close(handle));
  }
}

Call::Call(const Engine& engine, const Asked& asked, std::shared_ptr<Bell> bell, uint64_t id)
    : inbox_(std::make_unique<Inbox>(std::move(bell), id)) {
  Written written(asked);
  written.request.on_delta = asked.streams ? keep_piece : nullptr;
  written.request.on_end = note_end;
  written.request.user = inbox_.get();
  check(tenon_llm_submit(engine.handle(), &written.request, &handle_));
}

Call::~Call() {
  if (opened_after_forks_ == forks()) {
    tenon_llm_error_free(tenon_llm_call_release(handle_));
  } else {
    (void)inbox_.release();  // its lock may have been held when the process was forked
  }
}

Inbox& Call::inbox() {
  check_forks(opened_after_forks_);
  return *inbox_;
}

tenon_call* Call::handle() const {
  check_forks(opened_after_forks_);
  return handle_;
}

void Call::cancel() {
  check(tenon_llm_call_cancel(handle()));
}

void Call::check_end() {
  check(tenon_llm_call_wait(handle()));
}

size_t Call::answer_count() {
  size_t count = 0;
  check(tenon_llm_call_answer_count(handle(), &count));
  return count;
}

tenon_llm_answer Call::answer(size_t index) {
  tenon_llm_answer answer{};
  answer.size = sizeof(answer);
  check(tenon_llm_call_answer(handle(), index, &answer));
  return answer;
}

tenon_llm_alternatives Call::alternatives(size_t index) {
  tenon_llm_alternatives found{};
  found.size = sizeof(found);
  check(tenon_llm_call_alternatives(handle(), index, &found));
  return found;
}

std::pair<const float*, size_t> Call::values() {
  const float* values = nullptr;
  size_t count = 0;
  check(tenon_llm_call_values(handle(), &values, &count));
  return {values, count};
}

}  // namespace tenon::python
