// A checkpoint's own chat template: a conversation into the text that the model was trained on.
//
// Templates are Jinja, rendered as transformers renders them (apply_chat_template); what is
// supported and what is refused stands in docs/chat-templates.md. A template is parsed once; what
// every rendering uses and we do not know is refused then, with line and column.
#pragma once

#include <tenon/types.h>

#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/jinja/budget.h"
#include "core/tokenizer/text_span.h"

namespace tenon {

class Tokenizer;

struct ChatMessage {
  std::string role;
  std::string content;
};

struct ChatOptions {
  // Which template, where there are several; empty: "tool_use" when there are tools and it exists,
  // else "default".
  std::string name;
  bool add_generation_prompt = false;
  // Leaves the last message open; not together with add_generation_prompt. `continued_field` is
  // what of it goes on.
  bool continue_final_message = false;
  std::string continued_field = "content";
  std::optional<std::time_t> now;  // what strftime_now shows; absent: the clock
  chat::RenderLimits limits;
};

// Data that a template sees in addition to the options. JSON texts; an empty one is absent.
struct ChatInput {
  std::string messages = {};   // a list of objects
  std::string tools = {};      // a list of objects, as OpenAI has them
  std::string documents = {};  // a list of objects
  std::string variables = {};  // an object: more names, such as {"enable_thinking": false}
};

struct RenderedChat {
  std::string text;
  // The parts of the text that the template wrote itself, in order. Only there may a special
  // token's spelling become that token.
  std::vector<TextSpan> trusted;
  // What {% generation %} marked: the assistant's turns, for training.
  std::vector<TextSpan> generations;
};

// The tokens of a rendered conversation, with special tokens only where the template wrote them.
// Nothing is put in front: templates write what begins a sequence themselves. Errors as
// Tokenizer::encode_trusted.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat);

// Immutable: any number of threads may use one at the same time.
class ChatTemplate {
 public:
  // A model's folder: chat_template.jinja and additional_chat_templates/*.jinja, else what
  // tokenizer_config.json or chat_template.json say. Or a GGUF file: tokenizer.chat_template and
  // tokenizer.chat_template.<name>.
  // Errors: not_found (no template), invalid_argument (it is not the language), unsupported (it
  // uses what we do not know); the message has file, line and column.
  static Result<ChatTemplate> load(const std::string& path);
  // One template. error messages begin with `name`; `special_tokens` are names that it
  // sees, such as {"bos_token", "<s>"}.
  static Result<ChatTemplate> parse(std::string_view source, std::string_view name,
                                    std::map<std::string, std::string> special_tokens = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Errors: invalid_argument (the input is not what it must be, or the template refuses it or
  // cannot do what it does with it), failed (more steps, text or memory than options.limits allow).
  Result<RenderedChat> render(const ChatInput& input, const ChatOptions& options) const;
  Result<RenderedChat> render(const std::vector<ChatMessage>& messages,
                              const ChatOptions& options) const;

  // "default" and others, in order.
  std::vector<std::string> names() const;
  // Filters, tests, functions and methods that are not known, where only some conversations reach
  // them: "chat_template.jinja:1:23: there is no filter …". Those conversations are refused.
  std::vector<std::string> unknown_names() const;
  // The text of one of them; empty when there is none of that name.
  std::string_view source(std::string_view name) const;

 private:
  struct Variant;
  ChatTemplate();
  Status add(std::string name, std::string source, std::string_view where);
  const Variant* choose(const ChatOptions& options, bool has_tools) const;
  Result<RenderedChat> render_parsed(nlohmann::ordered_json& conversation,
                                     const ChatOptions& options) const;
  Result<RenderedChat> render_variant(const Variant& variant,
                                      const nlohmann::ordered_json& conversation,
                                      const ChatOptions& options) const;

  std::string where_;  // for messages: a path
  std::map<std::string, std::unique_ptr<Variant>, std::less<>> variants_;
  std::map<std::string, std::string> special_tokens_;
};

// One line of the log for each.
void warn_of_unknown_names(const ChatTemplate& chat);

}  // namespace tenon
