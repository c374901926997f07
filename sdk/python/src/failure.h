// What libtenon says went wrong, as an exception that module.cc turns into one of Python's.
#pragma once

#include <tenon/llm_c.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace tenon::python {

class Failure : public std::exception {
 public:
  Failure(int32_t code, std::string message) : code_(code), message_(std::move(message)) {}

  int32_t code() const { return code_; }  // TENON_LLM_INVALID_ARGUMENT …
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  int32_t code_;
  std::string message_;
};

// Throws what `error` says and frees it; nothing happens where it is null.
inline void check(tenon_llm_error* error) {
  if (error == nullptr) return;
  Failure failure(tenon_llm_error_code(error), tenon_llm_error_message(error));
  tenon_llm_error_free(error);
  throw failure;
}

}  // namespace tenon::python
