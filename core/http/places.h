// Where a server is: its host's addresses, looked up on a thread of their own, since the system's
// look-up cannot be ended. Everything here is called on the I/O thread.
#pragma once

// clang-format off: Asio's coroutines need it, and do not include it.
#include <utility>
// clang-format on

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/http/address.h"

namespace tenon::http {

class Places {
 public:
  using Place = boost::asio::generic::stream_protocol::endpoint;

  Places(boost::asio::io_context& io, const Address& address);
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Begins to look up what is neither known nor being looked up.
  void look_up();
  bool is_looking() const { return looking_ != nullptr; }
  // Until it has been looked up, or wake() is called.
  boost::asio::awaitable<void> wait();
  void wake() { changed_.cancel(); }

  // Empty where there are none, for which fault() has the reason.
  const std::vector<Place>& found() const { return found_; }
  const std::string& fault() const { return fault_; }
  // The host may have moved: the next look_up() begins anew.
  void forget() { found_.clear(); }

 private:
  struct Looking;
  void take(Looking& looking);

  boost::asio::io_context& io_;
  const Address address_;
  boost::asio::steady_timer changed_;
  std::shared_ptr<Looking> looking_;
  std::vector<Place> found_;
  std::string fault_;
};

}  // namespace tenon::http
