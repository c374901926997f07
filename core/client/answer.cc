#include "core/client/answer.h"

namespace tenon::client {

std::string_view trouble_name(Trouble trouble) {
  constexpr std::string_view kNames[] = {"none",     "connect", "timeout", "closed",
                                         "protocol", "refused", "server",  "stopped"};
  return kNames[static_cast<size_t>(trouble)];
}

std::string_view counted_by_name(CountedBy counted) {
  constexpr std::string_view kNames[] = {"nothing", "events", "logprobs", "token_ids", "usage"};
  return kNames[static_cast<size_t>(counted)];
}

}  // namespace tenon::client
