#include "core/transfer/socket_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>

#include "core/base/ascii.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr std::string_view kUnix = "unix:", kMemory = "memory:";
constexpr size_t kMostSocketPath = 107;  // sockaddr_un has room for so much
constexpr size_t kMostHost = 253;        // of a domain name

Status no_address(std::string_view text) {
  return invalid_argument(in_quotes(text) +
                          " is no address – write HOST:PORT, [ADDRESS]:PORT, unix:PATH or "
                          "memory:PATH");
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_plain(std::string_view host) {
  return !host.empty() && host.size() <= kMostHost && std::ranges::all_of(host, [](char c) {
    return c > ' ' && c <= '~' && c != '/' && c != ',' && c != '[' && c != ']';
  });
}

// An address's bits, and how many of them count. IPv4 addresses are those that IPv6 has for them.
struct Network {
  std::array<uint8_t, 16> bits = {};
  uint32_t length = 128;
};

std::optional<Network> network_of(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  Network network;
  uint32_t most = 128;
  if (inet_pton(AF_INET, address.c_str(), network.bits.data() + 12) == 1) {
    most = 32;
    network.bits[10] = network.bits[11] = 0xff;
  } else if (inet_pton(AF_INET6, address.c_str(), network.bits.data()) != 1) {
    return std::nullopt;
  }
  if (slash == text.npos) return network;
  const auto length = number<uint32_t>(text.substr(slash + 1));
  if (!length || *length > most) return std::nullopt;
  network.length = 128 - most + *length;
  return network;
}

bool contains(const Network& network, const Network& address) {
  for (uint32_t bit = 0; bit < network.length; ++bit) {
    const uint8_t mask = static_cast<uint8_t>(0x80u >> (bit % 8));
    if (((network.bits[bit / 8] ^ address.bits[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

bool is_loopback(std::string_view host) {
  static const Network kLoopback = *network_of("127.0.0.0/8");
  if (host == "localhost" || host == "::1") return true;
  const auto address = network_of(host);
  return address && address->length == 128 && contains(kLoopback, *address);
}

// Calls `look` with the entries until it says true; whether it did.
bool any_entry(std::string_view list, const std::function<bool(std::string_view)>& look) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    if (look(entry)) return true;
  }
  return false;
}

}  // namespace

std::string SocketAddress::shown() const {
  if (host.empty()) return std::string(by_memory ? kMemory : kUnix) + path;
  const bool bare = host.find(':') == std::string::npos;
  return (bare ? host : "[" + host + "]") + ":" + std::to_string(port);
}

Result<SocketAddress> parse_socket_address(std::string_view text) {
  SocketAddress address;
  address.by_memory = text.starts_with(kMemory);
  if (text.starts_with(kUnix) || address.by_memory) {
    address.path = text.substr((address.by_memory ? kMemory : kUnix).size());
    const bool fits = !address.path.empty() && address.path.size() <= kMostSocketPath &&
                      address.path.find('\0') == std::string::npos;
    if (!fits) return no_address(text);
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return no_address(text);
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto port = number<uint16_t>(text.substr(colon + 1));
  if (!is_plain(host) || !port || (!bracketed && host.find(':') != host.npos)) {
    return no_address(text);
  }
  address.host = host;
  address.port = *port;
  return address;
}

Result<TrustedPeers> TrustedPeers::parse(std::string_view list) {
  std::string wrong;
  const bool has_wrong = any_entry(list, [&wrong](std::string_view entry) {
    const bool is_network = entry.find('/') != entry.npos;
    const bool good = is_network ? network_of(entry).has_value() : is_plain(entry);
    if (!good) wrong = entry;
    return !good;
  });
  if (has_wrong) {
    return invalid_argument(in_quotes(wrong) +
                            " is no host – write names, addresses and networks (10.0.0.0/8) with "
                            "commas between them, or \"*\" for any");
  }
  TrustedPeers peers;
  peers.list_ = lower_ascii(list);
  return peers;
}

bool TrustedPeers::has(std::string_view host) const {
  const std::string wanted = lower_ascii(host);
  if (!is_plain(wanted)) return false;  // such as a network
  const auto address = network_of(wanted);
  return any_entry(list_, [&](std::string_view entry) {
    if (entry == "*" || entry == wanted) return true;
    if (entry == "localhost" && is_loopback(wanted)) return true;
    const auto network = network_of(entry);
    return address && network && contains(*network, *address);
  });
}

}  // namespace tenon
