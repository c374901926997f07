// What a server is asked, in OpenAI's words, and vLLM's where those have none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/answer_settings.h"

namespace tenon::client {

struct Question {
  std::string model = {};
  bool chat = false;      // of /v1/chat/completions; else of /v1/completions
  std::string text = {};  // the prompt; in chats the one message of the user
  std::optional<std::vector<TokenId>> tokens = {};  // instead of the text; not in chats
  AnswerSettings answer = {};                       // what is absent is not sent
  bool stream = true;
  bool usage = true;  // asks a stream for its count of tokens
  int32_t priority = 0;
  std::string cache_salt = {};  // requests with others share no K/V; empty = not sent
};

std::string path_of(const Question& question);  // "/v1/completions"
// The body of the request. Errors: invalid_argument, for what no server can be asked so (tokens in
// a chat, log probabilities of the prompt).
Result<std::string> body_of(const Question& question);

}  // namespace tenon::client
