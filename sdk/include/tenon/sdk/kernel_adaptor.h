// What adaptors of kernels share: methods that return a value cannot tell an exception. They return
// a value that harms nobody, and every call from then on that has a Status returns the exception's.
#pragma once

#include <tenon/sdk/adaptor.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace tenon::sdk {

// Keeps the first error that it is given. Any thread.
class LateError {
 public:
  void keep(Status status) noexcept {
    const std::lock_guard lock(mutex_);
    if (!first_.ok()) return;
    first_ = std::move(status);
    any_.store(true, std::memory_order_release);
  }
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  Status status() const noexcept {
    const std::lock_guard lock(mutex_);
    return first_.ok() ? Status() : Status::error(first_.code(), first_.message());
  }

 private:
  std::atomic<bool> any_ = false;
  mutable std::mutex mutex_;
  Status first_;
};

template <typename Class>
class KernelAdaptorBase : public AdaptorBase<Class> {
  using Base = AdaptorBase<Class>;

 public:
  using Base::Base;

 protected:
  template <typename Body>
  Status required(Body body) noexcept {
    return error_.any() ? error_.status() : Base::required(body);
  }
  template <typename Body>
  Status required(Body body) const noexcept {
    return error_.any() ? error_.status() : Base::required(body);
  }
  template <bool named, typename Body>
  Status optional(Body body) noexcept {
    return error_.any() ? error_.status() : Base::template optional<named>(body);
  }

  template <typename Value, typename Body>
  Value required_value(Body body, Value otherwise) const noexcept {
    Base::template check_presence<Body, const Class>();
    return value(body, otherwise);
  }
  template <bool named, typename Value, typename Body>
  Value optional_value(Body body, Value otherwise) const noexcept {
    Base::template check_parameters<named, Body, const Class>();
    return value(body, otherwise);
  }

 private:
  template <typename Value, typename Body>
  Value value(Body& body, Value otherwise) const noexcept {
    if constexpr (std::invocable<Body&, const Class&>) {
      return guarded([&]() -> Value { return body(Base::plugin()); },
                     [&](Status status) {
                       error_.keep(std::move(status));
                       return otherwise;
                     });
    }
    return otherwise;
  }

  mutable LateError error_;
};

}  // namespace tenon::sdk
