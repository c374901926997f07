// Holds plugins to the promises of their interfaces: an object of the same interface wraps each
// plugin, and the host calls that object. It notes which call runs (base/calls/running_calls.h),
// and refuses answers that no host can use (counts beyond the room, ids that do not exist, values
// that are not numbers) before they are used. Error texts of plugins are cut and made printable.
//
// A refusal reads "grow granted 3 tokens – expected 4 to 9"; whoever passes it on puts the
// plugin's name in front, as with every error of a plugin.
#pragma once

#include <tenon/status.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/calls/running_calls.h"
#include "core/base/machine/canary.h"
#include "core/base/machine/floating_point_state.h"
#include "core/base/machine/guarded_pages.h"

namespace tenon {

// An error as the host passes it on: with a code that exists, no longer than a person reads, and
// without characters that move a cursor. Costs nothing where there is none.
Status readable_error(const Status& status);
inline Status readable(Status status) {
  return status.ok() ? std::move(status) : readable_error(status);
}

// "grow granted 3 tokens – expected 4 to 9"
Status broken_promise(std::string_view method, const std::string& found,
                      const std::string& expected);

// "draft wrote beyond the room for tokens"
Status wrote_behind(std::string_view method, std::string_view room);

// "plan changed the sequences that it was shown"
Status wrote_into(std::string_view method, std::string_view what);

// How closely calls are looked at. `more` adds what costs a little at every call: how the calling
// thread computes with floating point is as it was, and what the plugin was shown or lent to read
// (lent_rows.h) is unchanged.
enum class CallChecks : uint8_t { usual = 0, more = 1 };

// Around a call of a plugin.
class CheckedCall {
 public:
  CheckedCall(CallName name, CallChecks checks) noexcept : call_(name), name_(name) {
    if (checks == CallChecks::more) before_ = FloatingPointState::current();
  }
  // What the plugin answered, as the host passes it on. Where the call is looked at closely and
  // left another floating-point state, that is undone and an error.
  Status readable(Status status) {
    const bool as_before = !before_ || *before_ == FloatingPointState::current();
    return as_before ? tenon::readable(std::move(status)) : computes_otherwise();
  }

 private:
  Status computes_otherwise();

  const RunningCall call_;
  const CallName name_;
  std::optional<FloatingPointState> before_;
};

// What a plugin is shown and must not change, kept to compare with. Its memory is used again.
class ShownCopy {
 public:
  void begin() { parts_.clear(), bytes_.clear(); }
  template <typename T>
  void add(std::span<const T> shown) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::span<const std::byte> bytes = std::as_bytes(shown);
    parts_.push_back(bytes);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  bool unchanged() const {
    size_t at = 0;
    for (const std::span<const std::byte> part : parts_) {
      if (!part.empty() && std::memcmp(part.data(), bytes_.data() + at, part.size()) != 0) {
        return false;
      }
      at += part.size();
    }
    return true;
  }

 private:
  std::vector<std::span<const std::byte>> parts_;
  std::vector<std::byte> bytes_;
};

// Of a kernel whose `numerics` are an empty text, so that nobody could tell its bits from others'.
Status no_numerics();

// A copy of an array that a plugin fills, with a canary after it, and pages that nobody may touch
// around both. Its memory is used again.
template <typename T>
class GuardedRoom {
 public:
  // Valid until the next call.
  std::span<T> give(std::span<const T> room) {
    bytes_.resize(room.size_bytes() + kCanaryBytes);
    if (!room.empty()) std::memcpy(bytes_.data(), room.data(), room.size_bytes());
    size_ = room.size();
    set_canary(bytes_.data() + room.size_bytes());
    return {reinterpret_cast<T*>(bytes_.data()), size_};
  }
  // Copies the leading `count` back, which lie in the room. False: somebody wrote after it.
  bool take(std::span<T> room, size_t count) const {
    if (count > 0) std::memcpy(room.data(), bytes_.data(), count * sizeof(T));
    return canary_lives(bytes_.data() + size_ * sizeof(T));
  }

 private:
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);
  GuardedVector<std::byte> bytes_;
  size_t size_ = 0;
};

}  // namespace tenon
