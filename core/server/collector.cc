#include "core/server/collector.h"

#include "core/base/text.h"
#include "core/http/client.h"

namespace tenon::server {
namespace {

using trace::Delivery;

constexpr const char* kUsualPath = "/v1/traces";

// What collectors are to be asked again for (the OTLP specification, "OTLP/HTTP Response").
Delivery meaning_of(unsigned status) {
  if (status / 100 == 2) return Delivery::taken;
  const bool passes = status == 429 || status == 502 || status == 503 || status == 504;
  return passes ? Delivery::later : Delivery::refused;
}

class OneAnswer final : public http::ResponseHandler {
 public:
  void head(unsigned status, const std::vector<http::Field>&, int64_t) override {
    status_ = status;
  }
  bool body(std::string_view, int64_t) override { return true; }
  void end(const http::Ending& ending, int64_t) override {
    came_ = ending.fault == http::Fault::none;
  }

  Delivery delivery() const { return came_ ? meaning_of(status_) : Delivery::later; }

 private:
  unsigned status_ = 0;
  bool came_ = false;
};

}  // namespace

Result<trace::Deliver> collector_at(const std::string& endpoint) {
  TENON_ASSIGN_OR_RETURN(http::Address address, http::parse_address(endpoint));
  if (address.base.empty()) address.base = kUsualPath;
  http::ClientOptions options;
  options.connect_timeout = std::chrono::seconds(3);
  options.silence_timeout = std::chrono::seconds(5);
  options.total_timeout = std::chrono::seconds(10);
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<http::Client> opened,
                         http::Client::open(address, options));
  return trace::Deliver([client = std::shared_ptr(std::move(opened))](const std::string& json) {
    const auto answer = std::make_shared<OneAnswer>();
    client->send({.method = "POST",
                  .path = "",
                  .fields = {{"Content-Type", "application/json"}},
                  .body = json},
                 answer);
    client->run();
    return answer->delivery();
  });
}

}  // namespace tenon::server
