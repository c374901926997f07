// What makes a request's head unfit, beyond what the parser sees.
#pragma once

#include <string>
#include <string_view>

#include "core/http/message.h"

namespace tenon::http {

struct HeadFault {
  unsigned status = 0;  // 0 = none
  std::string message;
};

// Whatever two readers could understand differently is refused (request smuggling): a length that
// is repeated or comes with a transfer coding, a coding other than chunked, more than one host,
// or one that is no host.
// `version` is 10 or 11.
HeadFault check_head(const Request& request, unsigned version);

// "/a?b" and "http://host/a?b" as path and query.
void set_target(std::string_view target, Request& request);

// As a chunk of a chunked body. `piece` is not empty.
std::string chunk(std::string_view piece);

}  // namespace tenon::http
