// `guard` turns exceptions into a Status before they reach the boundary. Adaptors (adaptor.h) wrap
// every method of a plugin in it; whoever derives from an interface does so by hand.
#pragma once

#include <tenon/status.h>

#include <exception>
#include <new>
#include <type_traits>
#include <utility>

namespace tenon::sdk {

#if defined(__cpp_exceptions)

// The exception that is being handled, as an error. Inside a `catch` only.
inline Status exception_status() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status::error(StatusCode::out_of_memory, "the plugin ran out of memory");
  } catch (const std::exception& error) {
    return Status::error(StatusCode::failed, error.what());
  } catch (...) {
    return Status::error(StatusCode::failed, "the plugin threw an unknown exception");
  }
}

// What `body` returns, or else what `caught` makes of the Status that an exception became.
template <typename Body, typename Caught>
auto guarded(Body&& body, Caught&& caught) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return caught(exception_status());
  }
}

#else  // built with -fno-exceptions

template <typename Body, typename Caught>
auto guarded(Body&& body, Caught&&) noexcept -> decltype(body()) {
  return body();
}

#endif

// Runs `body`, which returns a Status or nothing; an exception becomes an error.
template <typename Body>
Status guard(Body&& body) noexcept {
  return guarded(
      [&]() -> Status {
        if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
          body();
          return {};
        } else {
          return body();
        }
      },
      [](Status status) { return status; });
}

}  // namespace tenon::sdk
