// The server and the client under TLS, over real sockets.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "core/http/client.h"
#include "core/http/server.h"
#include "tests/unit/http/test_certificate.h"

namespace tenon::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const TestCertificate& usual() {
  static const TestCertificate certificate;
  return certificate;
}

class SecretServer {
 public:
  explicit SecretServer(const TestCertificate& certificate = usual(),
                        std::chrono::milliseconds handshake = std::chrono::seconds(60)) {
    Handlers handlers;
    handlers.gate = [](const Request&) -> std::optional<Response> { return std::nullopt; };
    handlers.handle = [](Request request, const std::shared_ptr<Exchange>& exchange) {
      exchange->answer({.body = request.path + request.body});
    };
    handlers.refuse = [](unsigned status, const std::string& message) {
      return Response{.status = status, .body = message};
    };
    auto opened = Server::open({.port = 0,
                                .tls_certificate = certificate.certificate(),
                                .tls_key = certificate.key(),
                                .handshake_timeout = handshake},
                               std::move(handlers));
    EXPECT_TRUE(opened.ok()) << message_of(opened.status());
    server_ = *std::move(opened);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~SecretServer() {
    server_->drain(std::chrono::seconds(10));
    thread_.join();
  }

  Server& server() { return *server_; }
  // "https://127.0.0.1:PORT", or another host of that port.
  std::string url(const std::string& host = "127.0.0.1") const {
    return "https://" + host + ":" + std::to_string(port());
  }
  uint16_t port() const {
    const std::string address = server_->addresses().front();
    return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }

 private:
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

struct Got final : ResponseHandler {
  void head(unsigned code, const std::vector<Field>&, int64_t) override { status = code; }
  bool body(std::string_view piece, int64_t) override {
    text += piece;
    return true;
  }
  void end(const Ending& with, int64_t) override { ending = with; }

  unsigned status = 0;
  std::string text;
  Ending ending;
};

std::shared_ptr<Got> ask(Client& client, const std::string& body) {
  auto got = std::make_shared<Got>();
  client.send({.method = "POST", .path = "/echo", .body = body}, got);
  client.run();
  return got;
}

std::unique_ptr<Client> client_of(const std::string& url, const std::string& authorities) {
  auto client = Client::open(*parse_address(url), {.authorities = authorities});
  EXPECT_TRUE(client.ok()) << message_of(client.status());
  return *std::move(client);
}

Ending fault_of(const std::string& url, const std::string& authorities) {
  return ask(*client_of(url, authorities), "")->ending;
}

// A connection of bytes as they are.
std::string talk(uint16_t port, std::string_view text) {
  const int wire = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(wire, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::send(wire, text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
  std::string read;
  char piece[4096];
  for (ssize_t count = 0; (count = ::recv(wire, piece, sizeof(piece), 0)) > 0;) {
    read.append(piece, static_cast<size_t>(count));
  }
  ::close(wire);
  return read;
}

std::string message_of_open(const std::string& certificate, const std::string& key) {
  const auto server =
      Server::open({.port = 0, .tls_certificate = certificate, .tls_key = key}, Handlers());
  return server.ok() ? "" : message_of(server.status());
}

TEST(Tls, carries_requests_and_keeps_their_connection) {
  SecretServer server;
  const auto client = client_of(server.url(), usual().certificate());
  const std::string large(300'000, 'x');
  for (const std::string& body : {std::string("abc"), large, std::string()}) {
    const auto got = ask(*client, body);
    EXPECT_EQ(got->ending.message, "");
    EXPECT_EQ(got->status, 200u);
    EXPECT_EQ(got->text, "/echo" + body);
  }
  EXPECT_EQ(server.server().figures().accepted, 1u);
  EXPECT_EQ(server.server().addresses().front(), server.url());
}

TEST(Tls, believes_a_name_as_well_as_an_address) {
  SecretServer server;
  EXPECT_EQ(fault_of(server.url("localhost"), usual().certificate()).message, "");
}

TEST(Tls, refuses_who_is_not_trusted) {
  SecretServer server;
  const TestCertificate other;
  const Ending ending = fault_of(server.url(), other.certificate());
  EXPECT_EQ(ending.fault, Fault::connect);
  EXPECT_THAT(ending.message,
              AllOf(HasSubstr("certificate is not trusted"), HasSubstr("--authorities")));
  EXPECT_EQ(fault_of(server.url(), "").fault, Fault::connect);
}

TEST(Tls, refuses_a_certificate_of_another_host) {
  const TestCertificate elsewhere(-1, 30, "DNS:elsewhere.example");
  SecretServer server(elsewhere);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const Ending ending = fault_of(server.url(host), elsewhere.certificate());
    EXPECT_EQ(ending.fault, Fault::connect);
    EXPECT_THAT(ending.message, HasSubstr("certificate is for another host"));
  }
}

TEST(Tls, tells_who_speaks_http_that_it_is_tls) {
  SecretServer server;
  const std::string answer = talk(server.port(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_THAT(answer, HasSubstr("this port speaks TLS – write https://"));
}

TEST(Tls, says_that_a_server_speaks_http) {
  Handlers handlers;
  handlers.refuse = [](unsigned status, const std::string&) { return Response{.status = status}; };
  auto server = Server::open({.port = 0}, std::move(handlers));
  ASSERT_TRUE(server.ok());
  std::thread thread([&] { (*server)->run(); });
  std::string url = (*server)->addresses().front();
  const Ending ending = fault_of(url.replace(0, 4, "https"), usual().certificate());
  EXPECT_EQ(ending.fault, Fault::connect);
  EXPECT_THAT(ending.message, HasSubstr("the server does not speak TLS – write http://"));
  (*server)->drain(std::chrono::seconds(1));
  thread.join();
}

TEST(Tls, ends_handshakes_that_are_no_handshakes_or_take_too_long) {
  SecretServer server(usual(), std::chrono::milliseconds(1));
  EXPECT_EQ(talk(server.port(), ""), "");
  EXPECT_EQ(talk(server.port(), std::string_view("\x16\x03\x01\x02", 4)), "");
  const std::string answer = talk(server.port(), std::string_view("\x16\x03\x01\x00\x04zzzz", 9));
  EXPECT_EQ(answer.find("HTTP"), answer.npos);
}

TEST(Tls, reads_a_new_certificate_and_keeps_the_old_one_where_it_cannot) {
  const TestCertificate first, second;
  SecretServer server(first);
  const auto replace_by = [&](const std::string& name, const std::string& from) {
    std::ofstream(first.path(name), std::ios::binary | std::ios::trunc)
        << std::ifstream(from, std::ios::binary).rdbuf();
  };
  const std::string old = second.path("old");
  std::ofstream(old, std::ios::binary) << std::ifstream(first.certificate()).rdbuf();

  replace_by("certificate", second.certificate());
  const Status half = server.server().renew_certificate();
  EXPECT_THAT(message_of(half), HasSubstr("is not that of the certificate"));
  EXPECT_EQ(fault_of(server.url(), old).message, "");

  replace_by("key", second.key());
  EXPECT_TRUE(server.server().renew_certificate().ok());
  EXPECT_EQ(fault_of(server.url(), second.certificate()).message, "");
  EXPECT_EQ(fault_of(server.url(), old).fault, Fault::connect);
}

TEST(Tls, says_what_is_wrong_with_a_certificate_or_its_key) {
  const TestCertificate good, past(-20, -10), future(10, 20);
  EXPECT_THAT(
      message_of_open("/no/such", good.key()),
      AllOf(HasSubstr("cannot read the certificate '/no/such'"), HasSubstr("no such file")));
  EXPECT_THAT(message_of_open(good.certificate(), "/no/such"), HasSubstr("cannot read the key"));
  EXPECT_THAT(message_of_open(good.key(), good.key()), HasSubstr("has no certificate in PEM"));
  EXPECT_THAT(message_of_open(good.certificate(), good.certificate()),
              HasSubstr("has no private key in PEM"));
  EXPECT_THAT(message_of_open(good.certificate(), good.path("locked")),
              HasSubstr("has a passphrase"));
  EXPECT_THAT(message_of_open(good.certificate(), past.key()),
              HasSubstr("is not that of the certificate"));
  EXPECT_THAT(message_of_open(past.certificate(), past.key()), HasSubstr("expired on "));
  EXPECT_THAT(message_of_open(future.certificate(), future.key()),
              HasSubstr("begins to be valid on "));
}

TEST(Tls, says_what_is_wrong_with_authorities) {
  const Address address = *parse_address("https://127.0.0.1:1");
  const auto message = [&](const std::string& authorities) {
    const auto client = Client::open(address, {.authorities = authorities});
    return client.ok() ? "" : message_of(client.status());
  };
  EXPECT_THAT(message("/no/such"), HasSubstr("cannot read the file of authorities"));
  EXPECT_THAT(message(usual().key()), HasSubstr("has no certificate in PEM"));
  EXPECT_FALSE(
      Client::open(*parse_address("http://127.0.0.1:1"), {.authorities = usual().certificate()})
          .ok());
}

}  // namespace
}  // namespace tenon::http
