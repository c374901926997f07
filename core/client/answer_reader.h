// A response of OpenAI's API, as it comes, into an Answer. No sockets, no clocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/client/answer.h"
#include "core/http/client.h"

namespace tenon::client {

class AnswerReader {
 public:
  // Of a question that asked for so many samples.
  AnswerReader(bool chat, uint32_t samples);
  ~AnswerReader();

  void head(unsigned status, const std::vector<http::Field>& fields, int64_t now_ns);
  // False where nothing more is wanted.
  bool body(std::string_view piece, int64_t now_ns);
  Answer end(const http::Ending& ending, int64_t now_ns);

 private:
  class State;
  std::unique_ptr<State> state_;
};

// "rate limit reached" of {"error": {"message": "rate limit reached"}}, and of what other servers
// write in its place; the beginning of the body where it is none of these. One line.
std::string error_message(std::string_view body);

}  // namespace tenon::client
