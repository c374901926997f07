// A response as it comes over the wire, piece by piece. Whoever sent it may be hostile: head, heads
// of chunks and body are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/http/message.h"

namespace tenon::http {

struct ResponseLimits {
  uint32_t header_bytes = 64 << 10;  // of the head, and of a chunk's
  uint64_t body_bytes = uint64_t{1} << 30;
};

// What is told while bytes are read.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // Once, before the body. Names of fields are in lower case.
  virtual void head(unsigned status, const std::vector<Field>& fields) = 0;
  virtual void body(std::string_view piece) = 0;
};

class ResponseReader {
 public:
  ResponseReader(const ResponseLimits& limits, ResponseSink& sink);
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  // What came next. False once the response is complete or broken: nothing more is taken.
  bool put(std::string_view bytes);
  // The connection ended.
  void end_of_stream();
  // It was cut off: nobody said that it ends here.
  void cut_off();

  bool has_begun() const;  // a byte has come
  bool is_complete() const;
  // Another request may follow on the connection.
  bool can_go_on() const;
  // What is wrong with it, in words; empty where nothing is.
  const std::string& fault() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tenon::http
