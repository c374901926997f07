// A KvTransport in memory whose streams can be cut, held up, and changed at any byte, and whose
// addresses can be made to vanish with all that is connected to them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/transfer/stream.h"

namespace tenon {

// What happens to one direction of a connection; `never` means that it does not.
struct StreamFaults {
  static constexpr uint64_t never = UINT64_MAX;
  uint64_t cut_at = never;     // after so many bytes
  uint64_t change_at = never;  // the byte of this number
  uint64_t stall_at = never;   // nothing more comes, and nobody says so
  uint64_t pause_us = 0;       // before each read
};

class MemoryPipe {
 public:
  explicit MemoryPipe(StreamFaults faults) : faults_(faults) {}

  Status write(std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    for (const std::byte byte : bytes) {
      changed_.wait(lock, [this] { return shut_ || bytes_.size() < kMost; });
      if (!shut_ && written_ >= faults_.cut_at) shut_ = true;
      if (shut_) {
        changed_.notify_all();
        return failed("the pipe is cut");
      }
      const bool stalls = written_ >= faults_.stall_at;
      const bool changes = written_ == faults_.change_at;
      ++written_;
      if (!stalls) bytes_.push_back(changes ? byte ^ std::byte{0x10} : byte);
      if (bytes_.size() == kMost) changed_.notify_all();
    }
    changed_.notify_all();
    return {};
  }
  Status read(std::span<std::byte> out, int64_t silence_ns) {
    if (faults_.pause_us > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(faults_.pause_us));
    std::unique_lock lock(mutex_);
    for (std::byte& byte : out) {
      const bool came = changed_.wait_for(lock, std::chrono::nanoseconds(silence_ns),
                                          [this] { return shut_ || !bytes_.empty(); });
      if (bytes_.empty()) return failed(came ? "the other end is gone" : "nothing came");
      byte = bytes_.front();
      bytes_.pop_front();
      if (bytes_.size() == kMost - 1) changed_.notify_all();
    }
    return {};
  }
  void shut() {
    const std::lock_guard lock(mutex_);
    shut_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr size_t kMost = 4096;
  const StreamFaults faults_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::byte> bytes_;
  uint64_t written_ = 0;
  bool shut_ = false;
};

class MemoryStream final : public KvStream {
 public:
  MemoryStream(std::shared_ptr<MemoryPipe> in, std::shared_ptr<MemoryPipe> out, int64_t silence_ns)
      : in_(std::move(in)), out_(std::move(out)), silence_ns_(silence_ns) {}
  ~MemoryStream() override { shut_down(); }
  Status read(std::span<std::byte> out) override { return in_->read(out, silence_ns_); }
  Status write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    TENON_RETURN_IF_ERROR(out_->write(first));
    return out_->write(second);
  }
  void shut_down() override {
    in_->shut();
    out_->shut();
  }

 private:
  const std::shared_ptr<MemoryPipe> in_, out_;
  const int64_t silence_ns_;
};

// What all transports of one test are connected by.
class MemoryNetwork {
 public:
  // Asked for each connection: of the way to the listener, and of the way back. May be empty.
  using Faults = std::function<std::pair<StreamFaults, StreamFaults>()>;
  Faults faults;

  Result<std::unique_ptr<KvStream>> connect(const std::string& address, int64_t silence_ns) {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find(address);
    if (place == places_.end()) return failed("nobody listens at " + address);
    const auto [there, back] = faults ? faults() : std::pair<StreamFaults, StreamFaults>();
    auto up = std::make_shared<MemoryPipe>(there), down = std::make_shared<MemoryPipe>(back);
    place->second.pipes.push_back(up);
    place->second.pipes.push_back(down);
    place->second.waiting.push_back(std::make_unique<MemoryStream>(up, down, silence_ns));
    changed_.notify_all();
    return std::unique_ptr<KvStream>(std::make_unique<MemoryStream>(down, up, silence_ns));
  }
  Status listen(const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (!places_.try_emplace(address).second) return failed(address + " is taken");
    return {};
  }
  Result<std::unique_ptr<KvStream>> accept(const std::string& address) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      const auto place = places_.find(address);
      return place == places_.end() || !place->second.waiting.empty();
    });
    const auto place = places_.find(address);
    if (place == places_.end()) return failed("shut down");
    std::unique_ptr<KvStream> stream = std::move(place->second.waiting.front());
    place->second.waiting.pop_front();
    return stream;
  }
  // The process there is killed: nobody listens, and its connections end.
  void kill(const std::string& address) {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find(address);
    if (place == places_.end()) return;
    for (const auto& pipe : place->second.pipes) pipe->shut();
    places_.erase(place);
    changed_.notify_all();
  }

 private:
  struct Place {
    std::deque<std::unique_ptr<KvStream>> waiting;
    std::vector<std::shared_ptr<MemoryPipe>> pipes;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Place> places_;
};

class MemoryTransport final : public KvTransport {
 public:
  explicit MemoryTransport(MemoryNetwork& network) : network_(network) {}
  Result<std::unique_ptr<KvStream>> connect(const std::string& address,
                                            int64_t silence_ns) override {
    return network_.connect(address, silence_ns);
  }
  Result<std::unique_ptr<KvListener>> listen(const std::string& address, int64_t) override {
    TENON_RETURN_IF_ERROR(network_.listen(address));
    return std::unique_ptr<KvListener>(std::make_unique<Listener>(network_, address));
  }

 private:
  class Listener final : public KvListener {
   public:
    Listener(MemoryNetwork& network, std::string address)
        : network_(network), address_(std::move(address)) {}
    Result<std::unique_ptr<KvStream>> accept() override { return network_.accept(address_); }
    void shut_down() override { network_.kill(address_); }
    std::string address() const override { return address_; }

   private:
    MemoryNetwork& network_;
    const std::string address_;
  };
  MemoryNetwork& network_;
};

}  // namespace tenon
