// Where K/V is fetched, and which places are trusted with that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

struct SocketAddress {
  std::string host;  // a name, "127.0.0.1", "::1"; empty: a unix socket
  uint16_t port = 0;
  std::string path;        // of a unix socket
  bool by_memory = false;  // the socket only tells of memory, which bytes go through

  // "127.0.0.1:5600", "[::1]:5600", "unix:/run/kv.sock", "memory:/run/kv.sock".
  std::string shown() const;
};

// Errors: invalid_argument.
Result<SocketAddress> parse_socket_address(std::string_view text);

// Which hosts K/V may be taken from: "localhost, 10.0.0.0/8, prefill-0". "*" is any. Names are
// compared as they are written; nothing is looked up.
class TrustedPeers {
 public:
  // Errors: invalid_argument.
  static Result<TrustedPeers> parse(std::string_view list);
  bool has(std::string_view host) const;

 private:
  std::string list_;  // as it was written, in lower case
};

}  // namespace tenon
