// An opened pipeline whose engine runs: what libtenon's handles stand for.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/chat/chat_template.h"
#include "core/grammar/grammar_cache.h"
#include "core/llm/call.h"
#include "core/llm/engine_host.h"
#include "core/llm/open/open_pipeline.h"

namespace tenon::llm {

// A conversation in JSON, and what else its template sees.
struct Conversation {
  ChatInput input;
  bool begins_turn = true;  // what begins the model's turn is added
  bool goes_on = false;     // the last message stays open; not together with begins_turn
};

// What is wanted of one prompt: of `text`, `tokens`, `messages` and `conversation` exactly one is
// there.
struct Question {
  Want want = Want::answer;
  std::optional<std::string> text;
  std::optional<std::vector<TokenId>> tokens;
  std::vector<ChatMessage> messages;
  std::optional<Conversation> conversation;
  std::vector<std::pair<std::string, std::string>> settings;  // names and values as texts
};

// Everything may be called from any thread.
class Session {
 public:
  // At most `calls` that have not ended at a time; with `digests`, records of answers have one of
  // their logits. Errors: those of open_pipeline.
  static Result<std::unique_ptr<Session>> open(const PipelineSource& source, uint32_t calls,
                                               bool digests);
  // Closes it; not on the step thread.
  ~Session();

  // Null where there is no room for one more. Errors: the question cannot be asked here
  // (invalid_argument, unsupported), the session is closed, or its engine has stopped (failed).
  Result<std::shared_ptr<Call>> submit(const Question& question, CallListener listener);
  // The prompt's tokens. Errors: there is none, or more than one; it cannot be encoded here; the
  // session is closed.
  Result<std::vector<TokenId>> encode(const Question& question);
  // Errors: unsupported (no tokenizer), invalid_argument (an id that is none), closed.
  Result<std::string> decode(std::span<const TokenId> tokens, bool special);
  // Cancels every call and waits until it has ended; afterwards the model is no longer in memory.
  // Errors: closed already; called on the step thread, and then nothing happens.
  Status close();

  // Borrowed; until it is closed.
  const Pipeline& pipeline() const { return *opened_.pipeline; }
  uint32_t context_tokens() const { return context_tokens_; }

 private:
  Session(OpenedPipeline opened, uint32_t calls, bool digests);
  Result<Request> make(const Question& question);
  Result<std::vector<TokenId>> encode_prompt(const Question& question) const;
  void forget(Call& call);
  void stop(const std::string& problem);

  OpenedPipeline opened_;
  std::optional<ChatTemplate> chat_;
  Status chat_problem_;
  grammar::GrammarCache grammars_;
  uint32_t context_tokens_ = 0;

  std::shared_mutex open_;  // shared while a request is made: its parts stay where they are
  bool closed_ = false;
  const EngineHost* stepping_ = nullptr;  // `host_`, also once it is gone
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::map<Call*, std::shared_ptr<Call>> calls_;  // those that have not ended
  std::string problem_;                           // why the engine stopped
  std::unique_ptr<EngineHost> host_;
};

}  // namespace tenon::llm
