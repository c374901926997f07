// What was told of a call's answers, so that a call that is made again elsewhere tells the rest
// alone. The tokens are the same again (docs/architecture.md, the determinism contract), though
// they may come in other pieces. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "core/server/api/write/events.h"

namespace tenon::server {

class AnswerProgress {
 public:
  // Cuts off what was told before `begin_again`, and notes the rest as told. False: there is none.
  bool pass(api::AnswerEvent& event);
  // What comes from now on begins at the first token.
  void begin_again();

 private:
  // Of one sample of one prompt.
  struct Told {
    size_t tokens = 0, text_bytes = 0, prompt_tokens = 0;
    size_t tokens_again = 0, text_bytes_again = 0, prompt_tokens_again = 0;  // still to be left out
    bool ended = false;
  };
  std::map<std::pair<uint32_t, uint32_t>, Told> told_;
};

}  // namespace tenon::server
