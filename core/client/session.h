// Questions to one running server, ours or anyone's with OpenAI's API.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/client/answer.h"
#include "core/client/question.h"

namespace tenon::client {

struct ServerSettings {
  std::string url =
      {};  // "https://127.0.0.1:8000", also with "/v1" after it; "unix:/run/tenon.sock"
  std::string key = {};  // sent as a bearer's; empty = none
  std::string authorities =
      {};  // whose certificates are believed, a PEM file; empty = the system's
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds silence_timeout{300'000};  // without a byte going either way
  std::chrono::milliseconds total_timeout{0};          // of one question; 0 = none
};

class Session {
 public:
  // Connects with the first question. Errors: invalid_argument (the address, the key, the
  // authorities).
  static Result<std::unique_ptr<Session>> open(const ServerSettings& settings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The names of what is served (/v1/models). Blocks; not while run() does.
  Result<std::vector<std::string>> models();

  // `done` is called once, on the thread of run(); it may ask again. A question that cannot be
  // written down is answered at once. [before run(), or its thread]
  void ask(const Question& question, std::function<void(Answer)> done);
  // Calls at that time of the monotonic clock, never earlier. [likewise]
  void at(int64_t time_ns, std::function<void()> call);
  // Until everything is answered and nothing is left to call.
  void run();
  // Ends all questions, also later ones, as `stopped`. [any thread]
  void stop();

  const std::string& address() const;  // as it is shown

 private:
  class State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tenon::client
