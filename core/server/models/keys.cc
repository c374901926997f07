#include "core/server/models/keys.h"

#include <algorithm>
#include <cmath>

#include "core/base/digest/hex.h"
#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/number.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon::server {
namespace {

constexpr double kMinute = 60.0;

bool read_hash(std::string_view text, std::array<uint8_t, 32>& hash) {
  if (text.size() != 64) return false;
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    hash[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

// All of both is looked at, so that time says nothing about where they differ.
bool equals(const std::array<uint8_t, 32>& a, const std::array<uint8_t, 32>& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

struct Limits {
  uint64_t requests = 0;
  uint64_t tokens = 0;
};

Status read_limit(std::string_view word, Limits& limits) {
  const size_t equal = word.find('=');
  const std::string_view name = word.substr(0, equal);
  const WrittenNumber written = written_number(equal == word.npos ? "" : word.substr(equal + 1));
  const std::string fault = number_fault(whole_number(name, 1, int64_t{1} << 40), written);
  if ((name != "requests" && name != "tokens") || !fault.empty()) {
    return invalid_argument(in_quotes(word) +
                            " is no limit – expected requests=N or tokens=N, a minute");
  }
  (name == "tokens" ? limits.tokens : limits.requests) =
      static_cast<uint64_t>(std::get<int64_t>(written));
  return Status();
}

Result<std::unique_ptr<Key>> read_key(std::string_view line, uint32_t tenant) {
  const auto words = split(line, ' ');
  std::array<uint8_t, 32> hash{};
  if (words.size() < 2 || !read_hash(words[1], hash)) {
    return invalid_argument(
        "expected a name and the 64 hexadecimal digits of a SHA-256 (printf %s KEY | sha256sum)");
  }
  Limits limits;
  for (size_t i = 2; i < words.size(); ++i) TENON_RETURN_IF_ERROR(read_limit(words[i], limits));
  return std::make_unique<Key>(std::string(words[0]), hash, tenant, limits.requests, limits.tokens);
}

}  // namespace

void Allowance::fill(Time now) {
  if (filled_at_ != Time{}) {
    const double passed = std::chrono::duration<double>(now - filled_at_).count();
    const auto most = static_cast<double>(a_minute_);
    left_ = std::min(most, left_ + most * std::max(passed, 0.0) / kMinute);
  }
  filled_at_ = now;
}

unsigned Allowance::wait_s(Time now) {
  if (a_minute_ == 0) return 0;
  fill(now);
  if (left_ >= 1.0) return 0;
  const double rate = static_cast<double>(a_minute_) / kMinute;
  return static_cast<unsigned>(std::max(1.0, std::ceil((1.0 - left_) / rate)));
}

void Allowance::spend(uint64_t amount) {
  if (a_minute_ > 0) left_ -= static_cast<double>(amount);
}

unsigned Key::admit(Allowance::Time now) {
  const std::lock_guard lock(mutex_);
  const unsigned wait = std::max(requests_.wait_s(now), tokens_.wait_s(now));
  if (wait == 0) requests_.spend(1);
  return wait;
}

void Key::spend_tokens(uint64_t tokens) {
  const std::lock_guard lock(mutex_);
  tokens_.spend(tokens);
}

Result<KeyRing> KeyRing::parse(std::string_view text, const std::string& name) {
  KeyRing ring;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    std::string line(trim(text.substr(0, end)));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    std::replace(line.begin(), line.end(), '\t', ' ');
    Result<std::unique_ptr<Key>> key = read_key(line, static_cast<uint32_t>(ring.keys_.size() + 1));
    const std::string where = name + ":" + std::to_string(number);
    if (!key.ok()) return with_context(where, key.status());
    for (const auto& other : ring.keys_) {
      if (other->name() == (*key)->name() || equals(other->hash(), (*key)->hash())) {
        return invalid_argument(where + ": the key " + in_quotes((*key)->name()) +
                                " stands there twice, by name or hash – keep one");
      }
    }
    ring.keys_.push_back(*std::move(key));
  }
  if (ring.keys_.empty()) {
    return invalid_argument(name + " has no keys – nobody could use the server");
  }
  return ring;
}

Result<KeyRing> KeyRing::load(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  return parse(text, path);
}

Key* KeyRing::find(std::string_view secret) const {
  const auto hash = sha256(std::as_bytes(std::span(secret.data(), secret.size())));
  Key* found = nullptr;
  for (const auto& key : keys_) {
    if (equals(key->hash(), hash)) found = key.get();
  }
  return found;
}

}  // namespace tenon::server
