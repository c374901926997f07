// What a server answered, and when each token came.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::client {

// Why there is no whole answer.
enum class Trouble : uint8_t {
  none = 0,
  connect = 1,   // no connection
  timeout = 2,   // one of the times was over
  closed = 3,    // the connection ended before the answer did
  protocol = 4,  // what came is no HTTP, no JSON, or no answer
  refused = 5,   // by a status of HTTP, in `status`
  server = 6,    // an error that the answer itself brought
  stopped = 7,   // by whoever asked
};
std::string_view trouble_name(Trouble trouble);  // "connect", …

// Where the number of tokens comes from, the surest last.
enum class CountedBy : uint8_t {
  nothing = 0,
  events = 1,     // pieces of text: a server may put several tokens into one, or none
  logprobs = 2,   // entries of log probabilities
  token_ids = 3,  // ids of tokens
  usage = 4,      // the server's own count
};
std::string_view counted_by_name(CountedBy counted);

struct AnswerSample {
  std::string text = {};               // in chats, reasoning and calls of tools included
  std::vector<TokenId> tokens = {};    // where the server gives their ids
  std::vector<int64_t> token_ns = {};  // when each came; those of one event came together
  std::string finish = {};             // "stop", "length"; empty = the server did not say
};

// Times are of the monotonic clock.
struct Answer {
  Trouble trouble = Trouble::none;
  std::string message = {};  // what is wrong, in one line that may be shown
  unsigned status = 0;       // of HTTP; 0 = none came
  int64_t sent_ns = 0, end_ns = 0;
  int64_t head_ns = -1;   // of the response; -1 = none came
  int64_t first_ns = -1;  // of the first token; -1 = none came, or the answer came in one piece
  bool streamed = false;
  std::vector<AnswerSample> samples = {};
  uint32_t prompt_tokens = 0, tokens = 0, cached_tokens = 0;  // 0 prompt tokens: not said
  CountedBy counted_by = CountedBy::nothing;

  bool ok() const { return trouble == Trouble::none; }
};

}  // namespace tenon::client
