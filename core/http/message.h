// A request as it came over the wire, and what goes back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::http {

struct Field {
  std::string name;  // of requests in lower case
  std::string value;
};

struct Request {
  std::string method;
  std::string path;   // of the target, before '?'; percent escapes as they came
  std::string query;  // after it
  bool is_1_0 = false;
  std::vector<Field> fields;
  std::string body;
  std::string peer;  // "127.0.0.1:40312", "unix"

  // The value of a header field; null where there is none. `name` in lower case.
  const std::string* find(std::string_view name) const;
};

// What a response consists of beyond its head, piece by piece.
class BodyStream {
 public:
  enum class Next : uint8_t {
    more,    // wait for Exchange::wake, where nothing was appended
    end,     // that was all
    broken,  // there is no proper end: the connection is closed, so that the reader sees it
  };
  virtual ~BodyStream() = default;
  // Appends what is ready to `out`. [I/O thread]
  virtual Next take(std::string& out) = 0;
};

struct Response {
  unsigned status = 200;
  std::vector<Field> fields = {};  // besides Content-Length, Transfer-Encoding, Connection and Date
  std::string body = {};
  std::shared_ptr<BodyStream> stream = nullptr;  // in place of `body`
};

// "Not Found"; empty for a status that is not used here.
std::string_view reason_phrase(unsigned status);
// The head of a response. `length` is absent (negative) for a body that comes in chunks, or until
// the connection is closed.
struct HeadOptions {
  bool is_1_0 = false;
  bool keep_alive = true;
  int64_t length = -1;
};
std::string response_head(const Response& response, const HeadOptions& options);

// "tale%2Fsmall" as "tale/small". False where an escape is none.
bool percent_decoded(std::string_view text, std::string& out);

}  // namespace tenon::http
