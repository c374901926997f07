// Errors as values inside the core: a Result<T> is either a T or the Status that says why not.
#pragma once

#include <tenon/status.h>

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  Status take_status() { return std::move(status_); }

  // Only after ok().
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

inline Status invalid_argument(std::string_view message) {
  return Status::error(StatusCode::invalid_argument, message);
}
inline Status unsupported(std::string_view message) {
  return Status::error(StatusCode::unsupported, message);
}
inline Status not_found(std::string_view message) {
  return Status::error(StatusCode::not_found, message);
}
inline Status failed(std::string_view message) {
  return Status::error(StatusCode::failed, message);
}
inline Status internal(std::string_view message) {
  return Status::error(StatusCode::internal, message);
}
inline Status out_of_memory(std::string_view message) {
  return Status::error(StatusCode::out_of_memory, message);
}

// What an error says, escaped and cut (quote.h): the text may be a plugin's.
std::string message_of(const Status& status);
// The same error with where it happened put in front: "model.safetensors: header …".
Status with_context(std::string_view where, const Status& status);
Status copy(const Status& status);

}  // namespace tenon

// Returns from the enclosing function when `expression` (a Status) is an error.
#define TENON_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                           \
    if (::tenon::Status tenon_status_ = (expression); !tenon_status_.ok()) return tenon_status_; \
  } while (0)

#define TENON_CONCAT_INNER(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_INNER(a, b)

// TENON_ASSIGN_OR_RETURN(auto x, make_x());
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes none.
#define TENON_ASSIGN_OR_RETURN(declaration, expression)         \
  auto TENON_CONCAT(tenon_result_, __LINE__) = (expression);    \
  if (!TENON_CONCAT(tenon_result_, __LINE__).ok())              \
    return TENON_CONCAT(tenon_result_, __LINE__).take_status(); \
  declaration = *std::move(TENON_CONCAT(tenon_result_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
