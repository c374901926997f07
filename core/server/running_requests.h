// Requests by the names that their senders gave them, so that a sender can end one from another
// connection.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>

namespace tenon::server {

class Key;

// [any thread]
class RunningRequests {
 public:
  using End = std::function<void()>;
  // `end` is called by `abort` until the number that this returns is removed. Several requests may
  // have one name.
  uint64_t add(const std::string& name, const Key* key, End end);
  void remove(const std::string& name, uint64_t number);
  // Ends what `key` sent under these names. A name that nobody has is ignored: its request may have
  // ended just now.
  void abort(std::span<const std::string> names, const Key* key);

 private:
  struct Entry {
    uint64_t number = 0;
    const Key* key = nullptr;
    End end;
  };
  std::mutex mutex_;
  uint64_t count_ = 0;
  std::multimap<std::string, Entry> entries_;
};

}  // namespace tenon::server
