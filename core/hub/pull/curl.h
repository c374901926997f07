// HTTP by libcurl, which is loaded when somebody asks for it: nobody needs it to build Tenon or to
// run models that are there. It brings proxies (http_proxy, https_proxy, no_proxy), certificates of
// the system, and HTTP/2.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::hub {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"; an Authorization goes to `url`'s host alone
  uint64_t from_byte = 0;            // not 0: the rest of a file, "Range: bytes=N-"
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // of the last answer; names in lower case
  // "" where there is none.
  std::string header(const std::string& name) const;
};

// Takes the bytes of an answer as they come. False ends the transfer.
using HttpSink = std::function<bool(const HttpAnswer& head, std::string_view bytes)>;

// One connection that is kept open between requests. [one thread at a time]
class HttpSession {
 public:
  // Error: unsupported, where libcurl is not installed, with its package's name.
  static Result<HttpSession> open();
  HttpSession(HttpSession&& other) noexcept;
  HttpSession& operator=(HttpSession&&) = delete;
  ~HttpSession();

  // Redirects are followed; an answer with any status is one. Errors: failed, where no whole answer
  // came (no such host, connection lost, 60 s without a byte), or `sink` ended it.
  Result<HttpAnswer> get(const HttpRequest& request, const HttpSink& sink) const;

 private:
  explicit HttpSession(void* handle) : handle_(handle) {}
  void* handle_;  // CURL*
};

}  // namespace tenon::hub
