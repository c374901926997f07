#include "core/http/response_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

#include "core/base/ascii.h"

namespace tenon::http {
namespace {

namespace beast = boost::beast;
using Error = beast::error_code;

// Heads with a status of 1xx, before the one that counts.
constexpr int kMostInformation = 8;

// One head and its body, as Beast reads them.
class OneMessage final : public beast::http::basic_parser<false> {
 public:
  explicit OneMessage(ResponseSink& sink) : sink_(sink) {}
  ~OneMessage() override = default;
  unsigned status() const { return status_; }
  bool is_information() const { return status_ >= 100 && status_ < 200; }

 private:
  using View = beast::string_view;
  void on_request_impl(beast::http::verb, View, View, int, Error&) override {}
  void on_response_impl(int code, View, int, Error&) override {
    status_ = static_cast<unsigned>(code);
  }
  void on_field_impl(beast::http::field, View name, View value, Error&) override {
    fields_.push_back(
        {lower_ascii({name.data(), name.size()}), std::string(value.data(), value.size())});
  }
  void on_header_impl(Error&) override {
    if (!is_information()) sink_.head(status_, fields_);
  }
  void on_body_init_impl(const boost::optional<uint64_t>&, Error&) override {}
  size_t on_body_impl(View body, Error&) override {
    sink_.body({body.data(), body.size()});
    return body.size();
  }
  void on_chunk_header_impl(uint64_t, View, Error&) override {}
  size_t on_chunk_body_impl(uint64_t, View body, Error&) override {
    sink_.body({body.data(), body.size()});
    return body.size();
  }
  void on_finish_impl(Error&) override {}

  ResponseSink& sink_;
  unsigned status_ = 0;
  std::vector<Field> fields_;
};

}  // namespace

class ResponseReader::Parser {
 public:
  Parser(const ResponseLimits& limits, ResponseSink& sink) : limits_(limits), sink_(sink) {
    begin();
  }

  bool put(std::string_view bytes) {
    if (is_over()) return false;
    has_begun_ = has_begun_ || !bytes.empty();
    waiting_.append(bytes);
    size_t taken = 0;
    while (taken < waiting_.size() && !is_over()) {
      Error error;
      const size_t count = message_->put(
          boost::asio::buffer(waiting_.data() + taken, waiting_.size() - taken), error);
      taken += count;
      if (error && error != beast::http::error::need_more) refuse(error);
      if (error == beast::http::error::need_more && count == 0) break;
      if (message_->is_done() && message_->is_information()) skip_information();
    }
    waiting_.erase(0, taken);
    if (!is_over() && waiting_.size() > limits_.header_bytes) {
      fault_ = "the head of the response, or of a chunk, is too long";
    }
    return !is_over();
  }

  void end_of_stream() {
    if (is_over()) return;
    Error error;
    if (message_->is_header_done()) message_->put_eof(error);
    if (error || !message_->is_done()) cut_off();
  }
  void cut_off() {
    if (!is_over()) fault_ = "the connection ended within the response";
  }

  bool has_begun() const { return has_begun_; }
  bool is_complete() const { return fault_.empty() && message_->is_done(); }
  bool can_go_on() const { return is_complete() && waiting_.empty() && message_->keep_alive(); }
  const std::string& fault() const { return fault_; }

 private:
  bool is_over() const { return !fault_.empty() || message_->is_done(); }
  void begin() {
    message_.emplace(sink_);
    message_->header_limit(limits_.header_bytes);
    message_->body_limit(limits_.body_bytes);
    message_->eager(true);
  }
  void skip_information() {
    if (message_->status() == 101 || ++information_ > kMostInformation) {
      fault_ = "the response does not begin: only statuses of 1xx come";
      return;
    }
    begin();
  }
  void refuse(const Error& error) {
    if (error == beast::http::error::header_limit) {
      fault_ = "the head of the response is too long";
    } else if (error == beast::http::error::body_limit) {
      fault_ = "the body of the response is too long";
    } else {
      fault_ = "the response is no HTTP: " + error.message();
    }
  }

  const ResponseLimits limits_;
  ResponseSink& sink_;
  std::optional<OneMessage> message_;
  std::string waiting_;  // not whole enough to be parsed
  std::string fault_;
  int information_ = 0;
  bool has_begun_ = false;
};

ResponseReader::ResponseReader(const ResponseLimits& limits, ResponseSink& sink)
    : parser_(std::make_unique<Parser>(limits, sink)) {}
ResponseReader::~ResponseReader() = default;

bool ResponseReader::put(std::string_view bytes) {
  return parser_->put(bytes);
}
void ResponseReader::end_of_stream() {
  parser_->end_of_stream();
}
void ResponseReader::cut_off() {
  parser_->cut_off();
}
bool ResponseReader::has_begun() const {
  return parser_->has_begun();
}
bool ResponseReader::is_complete() const {
  return parser_->is_complete();
}
bool ResponseReader::can_go_on() const {
  return parser_->can_go_on();
}
const std::string& ResponseReader::fault() const {
  return parser_->fault();
}

}  // namespace tenon::http
