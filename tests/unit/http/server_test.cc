// The server over real sockets, with a handler that does what the path says.
#include "core/http/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tenon::http {
namespace {

// Pieces that a test hands over one by one.
class Pieces final : public BodyStream {
 public:
  Next take(std::string& out) override {
    const std::lock_guard lock(mutex_);
    out += std::exchange(ready_, {});
    return next_;
  }
  void put(std::string_view text, Next next) {
    const std::lock_guard lock(mutex_);
    ready_ += text;
    next_ = next;
  }

 private:
  std::mutex mutex_;
  std::string ready_;
  Next next_ = Next::more;
};

class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view text) {
    ASSERT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void get(const std::string& path) { send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); }
  // Until `end` has come, or the connection has ended.
  std::string read(std::string_view end) {
    std::string text;
    char piece[4096];
    while (end.empty() || text.find(end) == text.npos) {
      const ssize_t count = ::recv(socket_, piece, sizeof(piece), 0);
      if (count <= 0) break;
      text.append(piece, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  const int socket_;
  bool connected_ = false;
};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { start({.port = 0}); }
  void TearDown() override {
    held_ = nullptr;
    if (thread_.joinable()) {
      server_->drain(std::chrono::seconds(10));
      thread_.join();
    }
  }
  void start(const ServerOptions& options) {
    Handlers handlers;
    handlers.gate = [](const Request& request) -> std::optional<Response> {
      if (request.path == "/refused") return Response{.status = 404, .body = "no"};
      return std::nullopt;
    };
    handlers.handle = [this](Request request, std::shared_ptr<Exchange> exchange) {
      handle(std::move(request), std::move(exchange));
    };
    handlers.refuse = [](unsigned status, const std::string& message) {
      return Response{.status = status, .body = message};
    };
    auto server = Server::open(options, std::move(handlers));
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
    const std::string address = server_->addresses().front();
    port_ = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    thread_ = std::thread([this] { server_->run(); });
  }

  void handle(Request request, std::shared_ptr<Exchange> exchange) {
    if (request.path == "/echo") return exchange->answer({.body = request.body});
    if (request.path == "/drop") return;
    exchange->watch([this] {
      const std::lock_guard lock(mutex_);
      is_gone_ = true;
      changed_.notify_all();
    });
    if (request.path == "/stream") exchange->answer({.stream = pieces_});
    const std::lock_guard lock(mutex_);
    held_ = std::move(exchange);
    changed_.notify_all();
  }
  // The request that is not answered yet.
  std::shared_ptr<Exchange> held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_ != nullptr; });
    return std::exchange(held_, nullptr);
  }
  void wait_until_gone() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_gone_; });
  }

  std::unique_ptr<Server> server_;
  uint16_t port_ = 0;
  std::thread thread_;
  std::shared_ptr<Pieces> pieces_ = std::make_shared<Pieces>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Exchange> held_;
  bool is_gone_ = false;
};

TEST_F(ServerTest, keeps_a_connection_for_many_requests) {
  Client client(port_);
  for (int i = 0; i < 3; ++i) {
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    EXPECT_TRUE(client.read("abc").starts_with("HTTP/1.1 200 OK\r\n"));
    client.get("/refused");
    EXPECT_TRUE(client.read("no").starts_with("HTTP/1.1 404 Not Found\r\n"));
  }
}

TEST_F(ServerTest, refuses_what_two_readers_could_understand_differently) {
  struct Case {
    std::string request;
    const char* status;
  };
  using namespace std::string_literals;
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  const Case cases[] = {
      {head + "Content-Length: 1\r\n\r\na", "200"},
      {"\r\n" + head + "Content-Length: 1\r\n\r\na", "400"},
      {"POST /echo HTTP/1.1\nHost: x\nContent-Length: 1\n\na", "400"},
      {head + "Content-Length: 1\n\na", "400"},
      {head + "A: b\r\n c\r\nContent-Length: 1\r\n\r\na", "400"},
      {head + "Content-Length : 1\r\n\r\na", "400"},
      {head + ": b\r\nContent-Length: 1\r\n\r\na", "400"},
      {head + "A: \0\r\nContent-Length: 1\r\n\r\na"s, "400"},
      {head + "A: \x01\r\nContent-Length: 1\r\n\r\na", "400"},
      {head + "A: b\rContent-Length: 1\r\n\r\na", "400"},
      {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na", "400"},
      {head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", "400"},
      {head + "Content-Length: 1, 1\r\n\r\na", "400"},
      {head + "Content-Length: 99999999999999999999\r\n\r\na", "400"},
      {head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "400"},
      {head + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\na\r\n0\r\n\r\n", "400"},
      {head + "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
       "400"},
      {"POST  /echo HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"POST /echo  HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"POST /echo HTTP/1.1 \r\nHost: x\r\n\r\n", "400"},
      {"POST /echo\r\n\r\n", "400"},
      {"POST /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"POST /echo HTTP/3.0\r\nHost: x\r\n\r\n", "505"},
  };
  for (const Case& known : cases) {
    Client client(port_);
    client.send(known.request);
    const std::string read = client.read(known.status == "200"s ? "\r\n\r\na" : "");
    EXPECT_TRUE(read.starts_with("HTTP/1.1 "s + known.status)) << known.request << '\n' << read;
  }
}

TEST_F(ServerTest, takes_little_around_the_chunks_of_a_body) {
  struct Case {
    std::string body;
    const char* status;
  };
  using namespace std::string_literals;
  const auto long_text = [](size_t bytes) { return std::string(bytes, 'y'); };
  std::string many;
  for (int i = 0; i < 100; ++i) many += "1;" + long_text(60) + "\r\na\r\n";
  const std::string end = "0\r\n\r\n";
  const Case cases[] = {
      {"1\r\na\r\n" + end, "200"},
      {"1;a=b;c=\"d\"\r\na\r\n0;e\r\nF: g\r\n\r\n", "200"},
      {"1;" + long_text(4000) + "\r\na\r\n0\r\nA: " + long_text(4000) + "\r\n\r\n", "200"},
      {"1;" + long_text(5000) + "\r\na\r\n" + end, "413"},
      {"1\r\na\r\n0;" + long_text(5000) + "\r\n\r\n", "413"},
      {"1;" + long_text(100'000), "413"},  // and no end
      {many + end, "413"},                 // each of them is short
      {"1\r\na\r\n0\r\nA: " + long_text(5000) + "\r\n\r\n", "431"},
      {"1\r\na\r\n0\r\nA: " + long_text(100'000), "431"},
      {"1\r\na\r\n0\r\nContent-Length: 1\r\n\r\n", "400"},
      {"1\na\r\n" + end, "400"},
      {"1\r\na\n" + end, "400"},
      {"1 \r\na\r\n" + end, "400"},
      {"0x1\r\na\r\n" + end, "400"},
      {"-1\r\na\r\n" + end, "400"},
      {"\r\n\r\n", "400"},
      {"11111111111111111\r\na", "400"},
      {"fffffffffffffff\r\na", "413"},
  };
  for (const Case& known : cases) {
    Client client(port_);
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(known.body);
    const std::string read = client.read(known.status == "200"s ? "\r\n\r\na" : "");
    EXPECT_TRUE(read.starts_with("HTTP/1.1 "s + known.status)) << known.body.substr(0, 100) << '\n'
                                                               << read;
  }
}

TEST_F(ServerTest, sends_a_stream_in_chunks_as_it_comes) {
  Client client(port_);
  client.get("/stream");
  EXPECT_NE(client.read("\r\n\r\n").find("Transfer-Encoding: chunked"), std::string::npos);
  const auto exchange = held();
  pieces_->put("one", BodyStream::Next::more);
  exchange->wake();
  EXPECT_EQ(client.read("one\r\n"), "3\r\none\r\n");
  pieces_->put("two", BodyStream::Next::end);
  exchange->wake();
  EXPECT_EQ(client.read("0\r\n\r\n"), "3\r\ntwo\r\n0\r\n\r\n");
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nz");
  EXPECT_TRUE(client.read("z").starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ServerTest, closes_where_a_stream_is_broken) {
  Client client(port_);
  client.get("/stream");
  const auto exchange = held();
  pieces_->put("half", BodyStream::Next::broken);
  exchange->wake();
  const std::string all = client.read("");
  EXPECT_TRUE(all.ends_with("4\r\nhalf\r\n")) << all;
}

TEST_F(ServerTest, sees_a_connection_end) {
  std::shared_ptr<Exchange> exchange;
  {
    Client client(port_);
    client.get("/wait");
    exchange = held();
  }
  wait_until_gone();
  // Nobody hears it, and nothing happens.
  exchange->answer({.body = "late"});
  exchange->wake();
}

TEST_F(ServerTest, nobody_is_gone_who_got_the_whole_answer) {
  for (const bool stream : {false, true}) {
    Client client(port_);
    client.send(std::string("GET ") + (stream ? "/stream" : "/wait") +
                " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const auto exchange = held();
    if (stream) {
      pieces_->put("all", BodyStream::Next::end);
      exchange->wake();
    } else {
      exchange->answer({.body = "all"});
    }
    EXPECT_TRUE(client.read("").ends_with(stream ? "3\r\nall\r\n0\r\n\r\n" : "all"));
    // The connection ended, and all that it has to tell was told.
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(is_gone_);
  }
}

TEST_F(ServerTest, answers_a_request_that_was_dropped) {
  Client client(port_);
  client.get("/drop");
  EXPECT_TRUE(client.read("dropped").starts_with("HTTP/1.1 500 "));
}

TEST_F(ServerTest, takes_the_first_of_several_answers) {
  Client client(port_);
  client.get("/wait");
  const auto exchange = held();
  exchange->answer({.body = "first"});
  exchange->answer({.body = "second"});
  client.read("first");
  client.get("/refused");
  EXPECT_TRUE(client.read("no").starts_with("HTTP/1.1 404"));
}

TEST_F(ServerTest, lets_a_request_finish_when_it_drains) {
  Client idle(port_), busy(port_);
  busy.get("/wait");
  const auto exchange = held();
  server_->drain(std::chrono::seconds(100));
  EXPECT_EQ(idle.read(""), "");
  EXPECT_FALSE(Client(port_).connected());
  exchange->answer({.body = "done"});
  EXPECT_NE(busy.read("").find("Connection: close"), std::string::npos);
  thread_.join();
}

TEST_F(ServerTest, cuts_off_what_does_not_finish) {
  Client busy(port_);
  busy.get("/wait");
  const auto exchange = held();
  server_->drain(std::chrono::seconds(0));
  EXPECT_EQ(busy.read(""), "");
  wait_until_gone();
  thread_.join();
}

TEST(Server, ends_requests_that_take_too_long) {
  Handlers handlers;
  handlers.gate = [](const Request&) -> std::optional<Response> { return Response{}; };
  handlers.refuse = [](unsigned status, const std::string&) { return Response{.status = status}; };
  ServerOptions options{.port = 0};
  options.header_timeout = options.idle_timeout = std::chrono::milliseconds(1);
  auto server = Server::open(options, std::move(handlers));
  ASSERT_TRUE(server.ok());
  const std::string address = (*server)->addresses().front();
  std::thread thread([&] { (*server)->run(); });
  {
    Client silent(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    EXPECT_EQ(silent.read(""), "");
    Client slow(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    slow.send("GET /hea");
    const std::string answer = slow.read("");
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 408")) << answer;
  }
  (*server)->drain(std::chrono::seconds(1));
  thread.join();
}

TEST(Server, says_what_it_cannot_listen_on) {
  EXPECT_FALSE(Server::open({.host = "no such host."}, {}).ok());
  const auto unix_server =
      Server::open({.port = std::nullopt, .socket_path = std::string(200, 'x')}, {});
  ASSERT_FALSE(unix_server.ok());
  EXPECT_NE(unix_server.status().message().find("107 bytes"), std::string_view::npos);
}

}  // namespace
}  // namespace tenon::http
