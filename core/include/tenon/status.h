// The result of every call across the plugin boundary: one pointer, null means success.
//
// The record behind an error carries the function that frees it, so it is always released by the
// module (program or plugin) that made it, whatever allocator that module uses. Creating an error
// never throws: when memory runs out the text is replaced by a constant one.
//
// Message texts have three parts in plain words: what was found, what was expected, what to do.
// They start in lower case and quote identifiers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace tenon {

// Values are part of the boundary: never reordered, never reused.
enum class StatusCode : uint32_t {
  ok = 0,
  invalid_argument = 1,  // the caller's input is wrong; the message says which and why
  unsupported = 2,       // valid, but this component cannot do it
  out_of_kv = 3,         // not enough KV blocks now: normal flow, the request waits
  out_of_memory = 4,     // an allocation failed
  not_found = 5,         // a file, a name or an id does not exist
  failed = 6,            // the operation was tried and did not succeed
  internal = 7,          // a broken invariant: a defect, please report it
};

struct StatusRecord {
  StatusCode code;
  uint32_t message_bytes;
  const char* message;                            // UTF-8, not terminated
  void (*release)(const StatusRecord*) noexcept;  // frees the record in the module that made it
};

// Move-only. Reading it is safe from any thread as long as nobody moves it.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  explicit Status(const StatusRecord* record) noexcept : record_(record) {}
  Status(Status&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Status& operator=(Status&& other) noexcept {
    if (this != &other) {
      reset();
      record_ = std::exchange(other.record_, nullptr);
    }
    return *this;
  }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  ~Status() { reset(); }

  // An error that carries a copy of `message`. `code` must not be ok.
  static Status error(StatusCode code, std::string_view message) noexcept;

  bool ok() const noexcept { return record_ == nullptr; }
  StatusCode code() const noexcept { return record_ ? record_->code : StatusCode::ok; }
  // Empty when ok. Borrowed from this object.
  std::string_view message() const noexcept {
    return record_ ? std::string_view(record_->message, record_->message_bytes)
                   : std::string_view();
  }

 private:
  void reset() noexcept {
    if (record_ != nullptr) record_->release(record_);
    record_ = nullptr;
  }
  const StatusRecord* record_ = nullptr;
};

inline Status Status::error(StatusCode code, std::string_view message) noexcept {
  static constexpr StatusRecord kNoMemory{StatusCode::out_of_memory, 40,
                                          "no memory was left to describe an error.",
                                          [](const StatusRecord*) noexcept {}};
  void* block = std::malloc(sizeof(StatusRecord) + message.size());
  if (block == nullptr) return Status(&kNoMemory);
  char* text = static_cast<char*>(block) + sizeof(StatusRecord);
  if (!message.empty()) std::memcpy(text, message.data(), message.size());
  auto* record = new (block) StatusRecord{
      code, static_cast<uint32_t>(message.size()), text,
      [](const StatusRecord* made) noexcept { std::free(const_cast<StatusRecord*>(made)); }};
  return Status(record);
}

}  // namespace tenon
