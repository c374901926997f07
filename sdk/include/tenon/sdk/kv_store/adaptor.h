// A plain class as a KvStore (see <tenon/sdk/adaptor.h>): one that does at once what it is asked,
// and may take its time over it. It has
//
//   void put(const KvStoreKey& key, std::span<const std::byte> value);
//   bool get(const KvStoreKey& key, sdk::StoredValue& out);   // out.take(bytes); false: not there
//   bool has(const KvStoreKey& key);      // missing: always true, so that `get` is asked
//   void remove(const KvStoreKey& key);   // missing: does nothing
//   KvStoreUsage usage() const;           // missing: nothing is known. Any thread, at any time
//
// Where there is nothing to say they may return a Status, and all may throw: either becomes the
// answer's error. Calls come
// from one thread, which the adaptor starts, so that whoever asks goes on meanwhile. A class that
// says `static constexpr uint32_t kThreads = 8;` is called by so many at once.
//
// A class with a client that is asynchronous itself derives from KvStore.
#pragma once

#include <tenon/extensions/kv_store.h>
#include <tenon/sdk/adaptor.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tenon::sdk {

// Where `get` puts what it found.
class StoredValue {
 public:
  explicit StoredValue(std::span<std::byte> room) : room_(room) {}

  // The value, in one piece; copied if there is room for it.
  void take(std::span<const std::byte> value) {
    bytes_ = value.size();
    if (!value.empty() && value.size() <= room_.size()) {
      std::memcpy(room_.data(), value.data(), value.size());
    }
  }
  // For values that can be read to where they belong: room for `bytes`, or nothing if there is too
  // little.
  std::span<std::byte> room_for(uint64_t bytes) {
    bytes_ = bytes;
    return bytes <= room_.size() ? room_.first(bytes) : std::span<std::byte>();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::span<std::byte> room_;
  uint64_t bytes_ = 0;
};

// A key as a text of its own, for stores that want one: 64 hexadecimal digits, ".g" and the group.
inline std::string key_text(const KvStoreKey& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : key.content) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text + ".g" + std::to_string(key.group);
}

template <typename Class>
class Adaptor<KvStore, Class> final : public KvStore, public AdaptorBase<Class> {
 public:
  template <typename Options>
  Adaptor(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : AdaptorBase<Class>(host, facts, options) {
    for (uint32_t i = 0; i < threads(); ++i) workers_.emplace_back([this] { work(); });
  }
  // What is put and was not begun yet is put first; nothing else matters any more.
  ~Adaptor() override {
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(asked_, [](const KvStoreRequest& one) { return one.verb != KvStoreVerb::put; });
      ends_ = true;
    }
    asks_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Status submit(std::span<const KvStoreRequest> requests) noexcept override {
    return guard([&] {
      {
        const std::lock_guard lock(mutex_);
        // Reads first: somebody waits for them.
        for (const KvStoreRequest& request : requests) {
          const bool can_wait =
              request.verb == KvStoreVerb::put || request.verb == KvStoreVerb::remove;
          if (can_wait) {
            asked_.push_back(request);
          } else {
            asked_.insert(asked_.begin() + static_cast<std::ptrdiff_t>(reads_++), request);
          }
        }
        unanswered_ += requests.size();
      }
      asks_.notify_all();
    });
  }

  Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept override {
    return guard([&] {
      std::unique_lock lock(mutex_);
      if (wait_ns > 0 && unanswered_ > 0) {
        answers_there_.wait_for(lock, std::chrono::nanoseconds(wait_ns),
                                [&] { return !answers_.empty(); });
      }
      out.count = 0;
      while (out.count < out.answers.size() && !answers_.empty()) {
        out.answers[out.count++] = std::move(answers_.front());
        answers_.pop_front();
        --unanswered_;
      }
    });
  }

  KvStoreUsage usage() const noexcept override {
    if constexpr (requires(const Class& made) { made.usage(); }) {
      return guarded([&] { return this->plugin().usage(); },
                     [](const Status&) { return KvStoreUsage(); });
    } else {
      static_assert(
          !requires { &Class::usage; }, "`usage` takes nothing and is const");
      return {};
    }
  }

 private:
  static constexpr uint32_t threads() {
    if constexpr (requires { Class::kThreads; }) {
      static_assert(Class::kThreads >= 1 && Class::kThreads <= 64);
      return Class::kThreads;
    } else {
      return 1;
    }
  }
  static Status nothing() noexcept {
    return Status::error(StatusCode::not_found, "there is nothing under that key");
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      asks_.wait(lock, [&] { return ends_ || !asked_.empty(); });
      if (asked_.empty()) return;
      const KvStoreRequest request = asked_.front();
      asked_.pop_front();
      if (reads_ > 0) --reads_;
      lock.unlock();
      KvStoreAnswer answer;
      answer.id = request.id;
      answer.status = answer_to(request, answer.bytes);
      lock.lock();
      answers_.push_back(std::move(answer));
      answers_there_.notify_all();
    }
  }

  Status answer_to(const KvStoreRequest& request, uint64_t& bytes) noexcept {
    const KvStoreKey& key = request.key;
    bool found = true;
    Status status;
    switch (request.verb) {
      case KvStoreVerb::put:
        return this->required([&](auto& made) -> decltype(made.put(key, request.value)) {
          return made.put(key, request.value);
        });
      case KvStoreVerb::remove:
        return this->template optional<(requires { &Class::remove; })>(
            [&](auto& made) -> decltype(made.remove(key)) { return made.remove(key); });
      case KvStoreVerb::get: {
        StoredValue value(request.room);
        status = this->required([&](auto& made) -> decltype((void)bool{made.get(key, value)}) {
          found = made.get(key, value);
        });
        bytes = value.bytes();
        break;
      }
      case KvStoreVerb::has:
        status = this->template optional<(requires { &Class::has; })>(
            [&](auto& made) -> decltype((void)bool{made.has(key)}) { found = made.has(key); });
        break;
      default:
        return Status::error(StatusCode::unsupported, "the store does not know this verb");
    }
    if (!status.ok()) return status;
    return found ? Status() : nothing();
  }

  std::mutex mutex_;
  std::condition_variable asks_, answers_there_;
  std::deque<KvStoreRequest> asked_;  // the first `reads_` of them are reads
  size_t reads_ = 0;
  std::deque<KvStoreAnswer> answers_;
  size_t unanswered_ = 0;  // requests whose answer was not collected
  bool ends_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tenon::sdk
