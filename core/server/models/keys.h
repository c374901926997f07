// Who may use the server, and how much: keys by their hashes, with limits a minute.
//
// A file of keys has a line for each: a name, the SHA-256 of the key as 64 hexadecimal digits, and
// what limits it has:
//
//   alice  5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8  requests=60
//   tokens=10000
//
// Empty lines, and those that begin with '#', do not count. Keys are long and random, so that a
// plain hash of one cannot be guessed back.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::server {

// What may be spent in a minute; it fills up again evenly. Not thread safe.
class Allowance {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit Allowance(uint64_t a_minute)
      : a_minute_(a_minute), left_(static_cast<double>(a_minute)) {}

  // Whole seconds until something may be spent again; 0 = now. Without a limit always 0.
  unsigned wait_s(Time now);
  // What was already spent may be more than was left.
  void spend(uint64_t amount);

 private:
  void fill(Time now);
  const uint64_t a_minute_;  // 0 = no limit
  double left_;
  Time filled_at_{};
};

class Key {
 public:
  Key(std::string name, const std::array<uint8_t, 32>& hash, uint32_t tenant, uint64_t requests,
      uint64_t tokens)
      : name_(std::move(name)),
        hash_(hash),
        tenant_(tenant),
        requests_(requests),
        tokens_(tokens) {}

  const std::string& name() const { return name_; }
  const std::array<uint8_t, 32>& hash() const { return hash_; }
  uint32_t tenant() const { return tenant_; }  // as schedulers see it; 1, 2, …
  // Takes one request; seconds to wait where none may be made. [any thread]
  unsigned admit(Allowance::Time now);
  void spend_tokens(uint64_t tokens);  // [any thread]

 private:
  const std::string name_;
  const std::array<uint8_t, 32> hash_;
  const uint32_t tenant_;
  std::mutex mutex_;
  Allowance requests_, tokens_;
};

class KeyRing {
 public:
  // Error: invalid_argument, with the line.
  static Result<KeyRing> parse(std::string_view text, const std::string& name);
  static Result<KeyRing> load(const std::string& path);
  // Null for a stranger. Takes as long for every text.
  Key* find(std::string_view secret) const;
  size_t size() const { return keys_.size(); }

 private:
  std::vector<std::unique_ptr<Key>> keys_;
};

}  // namespace tenon::server
