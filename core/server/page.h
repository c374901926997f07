// The page at "/": one file with its styles and scripts, which loads nothing else.
#pragma once

#include "core/http/message.h"

namespace tenon::server {

// The page, or status 304 where the request names the one that is there (If-None-Match).
http::Response page_response(const http::Request& request);

}  // namespace tenon::server
