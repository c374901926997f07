#include "core/http/address.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/quote.h"

namespace tenon::http {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr uint16_t kHttpPort = 80, kHttpsPort = 443;
constexpr std::string_view kUnix = "unix:";
// sockaddr_un has room for so much.
constexpr size_t kMostSocketPath = 107;

Status no_address(std::string_view url, const std::string& why) {
  return invalid_argument(in_quotes(url) + " is no address of a server: " + why +
                          " – write http://HOST:PORT, https://HOST:PORT or unix:PATH");
}

// What is written here goes into the head of every request.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::optional<uint16_t> port_of(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

// "host", "host:80", "[::1]:80" into its parts. False where it is none of these.
bool split_authority(std::string_view authority, Address& out) {
  std::string_view rest;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == authority.npos) return false;
    out.host = authority.substr(1, end - 1);
    rest = authority.substr(end + 1);
  } else {
    const size_t colon = authority.find(':');
    out.host = authority.substr(0, colon);
    if (colon != authority.npos) rest = authority.substr(colon);
  }
  if (out.host.empty()) return false;
  if (rest.empty()) return true;
  const auto port = rest.front() == ':' ? port_of(rest.substr(1)) : std::nullopt;
  if (port) out.port = *port;
  return port.has_value();
}

Result<Address> unix_address(std::string_view url) {
  Address address;
  address.socket_path = url.substr(kUnix.size());
  if (address.socket_path.empty()) return no_address(url, "there is no path");
  if (address.socket_path.find('\0') != std::string::npos ||
      address.socket_path.size() > kMostSocketPath) {
    return no_address(url, "a socket's path has at most 107 bytes, none of them zero");
  }
  return address;
}

}  // namespace

std::string Address::host_field() const {
  if (host.empty()) return "localhost";
  const std::string name = host.find(':') == host.npos ? host : "[" + host + "]";
  return port == (tls ? kHttpsPort : kHttpPort) ? name : name + ":" + std::to_string(port);
}

std::string Address::shown() const {
  if (host.empty()) return std::string(kUnix) + socket_path;
  return std::string(tls ? kHttps : kHttp) + host_field() + base;
}

Result<Address> parse_address(std::string_view url) {
  if (url.starts_with(kUnix)) return unix_address(url);
  const bool tls = url.starts_with(kHttps);
  if (!tls && !url.starts_with(kHttp)) {
    return no_address(url, "it begins with neither http://, https:// nor unix:");
  }
  if (!is_plain(url)) return no_address(url, "it has characters that no address has");
  const std::string_view rest = url.substr(tls ? kHttps.size() : kHttp.size());
  if (rest.find_first_of("?#@") != rest.npos) {
    return no_address(url, "it has a query, a fragment or a user");
  }
  Address address;
  address.tls = tls;
  if (tls) address.port = kHttpsPort;
  const size_t slash = rest.find('/');
  if (!split_authority(rest.substr(0, slash), address)) {
    return no_address(url, "its host or its port is none");
  }
  if (slash != rest.npos) address.base = rest.substr(slash);
  while (address.base.ends_with('/')) address.base.pop_back();
  return address;
}

}  // namespace tenon::http
