#include "core/http/places.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <mutex>
#include <system_error>

#include "core/base/quote.h"
#include "core/base/threads/start_thread.h"

namespace tenon::http {
namespace {

namespace asio = boost::asio;
using LookupError = boost::system::error_code;

}  // namespace

// Shared with the thread that looks, which may outlive whoever asked.
struct Places::Looking {
  std::mutex mutex;
  Places* asker = nullptr;  // null once nobody waits
  std::vector<Place> found;
  std::string fault;
};

Places::Places(asio::io_context& io, const Address& address)
    : io_(io), address_(address), changed_(io, std::chrono::steady_clock::time_point::max()) {}

Places::~Places() {
  if (looking_ == nullptr) return;
  const std::lock_guard lock(looking_->mutex);
  looking_->asker = nullptr;
}

void Places::look_up() {
  if (looking_ != nullptr || !found_.empty()) return;
  fault_.clear();
  if (address_.host.empty()) {
    found_.emplace_back(asio::local::stream_protocol::endpoint(address_.socket_path));
    return;
  }
  LookupError error;
  const auto plain = asio::ip::make_address(address_.host, error);
  if (!error) {
    found_.emplace_back(asio::ip::tcp::endpoint(plain, address_.port));
    return;
  }
  looking_ = std::make_shared<Looking>();
  looking_->asker = this;
  auto look = [looking = looking_, host = address_.host, port = std::to_string(address_.port)] {
    asio::io_context own;
    LookupError problem;
    for (const auto& one : asio::ip::tcp::resolver(own).resolve(host, port, problem)) {
      looking->found.emplace_back(one.endpoint());
    }
    if (looking->found.empty()) {
      looking->fault = "the host " + in_quotes(host) + " was not found: " + problem.message() +
                       " – check its name, or write its address";
    }
    const std::lock_guard lock(looking->mutex);
    if (looking->asker == nullptr) return;
    asio::post(looking->asker->io_, [looking] {
      if (looking->asker != nullptr) looking->asker->take(*looking);
    });
  };
  try {
    start_thread(std::move(look)).detach();
  } catch (const std::system_error& refused) {
    looking_->fault = refused.what();
    asio::post(io_, [looking = looking_] {
      if (looking->asker != nullptr) looking->asker->take(*looking);
    });
  }
}

void Places::take(Looking& looking) {
  found_ = std::move(looking.found);
  fault_ = std::move(looking.fault);
  looking_ = nullptr;
  wake();
}

asio::awaitable<void> Places::wait() {
  LookupError ignored;
  co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace tenon::http
