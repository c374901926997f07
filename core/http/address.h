// Where a server is reached, as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon::http {

struct Address {
  std::string host;  // "127.0.0.1", "::1"; empty = a unix socket
  uint16_t port = 80;
  bool tls = false;
  std::string socket_path;  // of a unix socket
  std::string base;         // of the path, before every request's: "", "/models/a"

  // The value of the header field Host.
  std::string host_field() const;
  // "https://127.0.0.1:8000", "unix:/run/tenon.sock".
  std::string shown() const;
};

// "http://HOST[:PORT][/BASE]", the same with https, or "unix:PATH". Errors: invalid_argument.
Result<Address> parse_address(std::string_view url);

}  // namespace tenon::http
