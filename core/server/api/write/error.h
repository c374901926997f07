// What is wrong with a request, in the shape that clients of OpenAI and Anthropic know.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/base/result.h"

namespace tenon::api {

struct ApiError {
  unsigned status = 400;
  std::string message;
  std::string param = {};  // the field at fault; empty = none
  std::string code = {};   // for programs: "model_not_found"; empty = none
  unsigned retry_after_s = 0;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : held_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Outcome(ApiError error) : held_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return held_.index() == 0; }
  T& operator*() { return std::get<0>(held_); }
  const T& operator*() const { return std::get<0>(held_); }
  T* operator->() { return &std::get<0>(held_); }
  const T* operator->() const { return &std::get<0>(held_); }
  const ApiError& error() const { return std::get<1>(held_); }

 private:
  std::variant<T, ApiError> held_;
};

// Of an error inside: what the caller did wrong is 400, everything else 500.
ApiError error_of(const Status& status);

// Says of an error about a prompt's length what programs look for, to shorten a conversation and
// try again: OpenAI's sentence and code, and Anthropic's words where its clients ask.
void tell_context_length(ApiError& error, uint64_t prompt_tokens, uint64_t context_tokens,
                         bool is_anthropic = false);

// Says which of the entries of a list it is about, if there are several: "input[1]: …".
void tell_entry(ApiError& error, std::string_view field, size_t index, size_t entries);

// OpenAI: {"error": {"message": …, "type": …, "param": …, "code": …}}
std::string error_json(const ApiError& error);
// Anthropic: {"type": "error", "error": {"type": …, "message": …, "details": {"error_code": …}}}
std::string messages_error_json(const ApiError& error);

}  // namespace tenon::api
