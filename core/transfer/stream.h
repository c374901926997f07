// Connections that carry K/V between processes, so that tests can cut one, hold it up or change its
// bytes at any place.
//
// Threads: one thread reads a stream, one writes it, and any may shut it down.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.h"

namespace tenon {

class KvStream {
 public:
  virtual ~KvStream() = default;
  // Fills all of `out`. Errors: failed (the other end is gone, has been silent for too long, or
  // this end was shut down).
  virtual Status read(std::span<std::byte> out) = 0;
  // All of `first`, then all of `second`. Errors: failed, as above.
  virtual Status write(std::span<const std::byte> first, std::span<const std::byte> second) = 0;
  // Whoever reads or writes returns with an error, now and from now on. [any thread]
  virtual void shut_down() = 0;
  // Bytes cannot change on their way, so that payloads need no checksum.
  virtual bool keeps_bytes() const { return false; }
};

class KvListener {
 public:
  virtual ~KvListener() = default;
  // The next connection. Errors: failed (shut down).
  virtual Result<std::unique_ptr<KvStream>> accept() = 0;
  virtual void shut_down() = 0;  // [any thread]
  // "127.0.0.1:5600", with the port that it got where 0 was asked for.
  virtual std::string address() const = 0;
};

class KvTransport {
 public:
  virtual ~KvTransport() = default;
  // `address` is "HOST:PORT", "[::1]:PORT", "unix:PATH" or "memory:PATH". A stream of which nothing
  // comes for `silence_ns` counts as gone. Errors: invalid_argument (no address), failed. [any
  // thread]
  virtual Result<std::unique_ptr<KvStream>> connect(const std::string& address,
                                                    int64_t silence_ns) = 0;
  virtual Result<std::unique_ptr<KvListener>> listen(const std::string& address,
                                                     int64_t silence_ns) = 0;
};

// This machine's TCP and unix sockets, and memory that unix sockets tell of.
std::unique_ptr<KvTransport> make_socket_transport();

}  // namespace tenon
