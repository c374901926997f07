// A conversation with a pipeline: what was said, what is asked of the next answer, and the engine
// that gives it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/chat/answers/answer_format.h"
#include "core/chat/chat_template.h"
#include "core/engine/engine.h"
#include "tools/tenon/chat/history.h"
#include "tools/tenon/chat/screen.h"
#include "tools/tenon/shell/generation_flags.h"
#include "tools/tenon/shell/pipeline_flags.h"

namespace tenon {

struct ChatFlags {
  PipelineFlags pipeline;
  GenerationFlags generation;
  std::string template_file;  // a template by itself
  std::string template_name;
  std::string system, load;
  std::string tools, documents, variables;  // two files, and JSON
  std::string tool_format, reasoning_format;
  bool drop_oldest = false;
};

// What an answer took.
struct AnswerFigures {
  FinishReason reason = FinishReason::length;
  RequestRecord record;
  std::string message;  // of an error
};

class ChatSession {
 public:
  // Errors: those of the pipeline; not_found or invalid_argument (no template, or no tokenizer).
  static Result<std::unique_ptr<ChatSession>> open(const ChatFlags& flags);

  ChatHistory& history() { return history_; }
  // Answers what was said, shows it, and adds it to the history: also what Ctrl-C stopped. Errors:
  // the conversation cannot be rendered, or does not fit; the request failed.
  Status answer(ChatScreen& screen);
  // The next answer draws other random numbers.
  void draw_anew() { ++draws_; }

  // A parameter by its name of docs/formats/generation.md; an empty value takes back what was set.
  // Error: invalid_argument.
  Status set(const std::string& name, const std::string& value);
  const std::map<std::string, std::string>& settings() const { return settings_; }

  // Of the latest answer, if there was one.
  const std::optional<AnswerFigures>& figures() const { return figures_; }
  // Tokens of the conversation as the latest answer left it, and how many there may be.
  uint32_t context_used() const;
  uint32_t context_limit() const { return engine_->sequence_limit_tokens(); }
  // Messages that were dropped since the last call, to make room.
  size_t take_dropped() { return std::exchange(dropped_, 0); }
  std::string_view tool_format() const { return name_of(format_.calls); }

 private:
  class Sink;
  struct Prompted {
    RenderedChat chat;
    std::vector<TokenId> ids;
  };

  ChatSession(const ChatFlags& flags, OpenedPipeline opened, ChatTemplate chat);
  Status read_inputs();
  Result<Prompted> render();
  Result<Prompted> fitting_prompt();
  Result<Request> make_answer_request(const Prompted& prompt) const;
  Result<AnswerSettings> asked() const;

  ChatFlags flags_;
  OpenedPipeline opened_;
  ChatTemplate template_;
  AnswerFormat format_;
  ChatInput input_;  // all but the messages
  ChatHistory history_;
  std::map<std::string, std::string> settings_;
  uint64_t draws_ = 0, answers_ = 0;
  size_t dropped_ = 0;
  std::optional<AnswerFigures> figures_;
  std::unique_ptr<Engine> engine_;  // uses the pipeline
};

}  // namespace tenon
