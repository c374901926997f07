// The way to one worker that has K/V, from the side that wants it.
//
// One thread connects and sends, another reads. A link that broke stays so; whoever needs the
// worker again makes another.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/transfer/stream.h"
#include "core/transfer/wire.h"

namespace tenon {

class ImportLink {
 public:
  struct Listener {
    std::function<void(ImportLink& link, Frame frame)> on_frame;
    // Once, and nothing comes after it. Not from inside a call of this class.
    std::function<void(ImportLink& link, const Status& why)> on_broken;
  };

  ImportLink(std::shared_ptr<KvTransport> transport, std::string address, std::string world,
             uint64_t most_bytes, int64_t silence_ns, Listener listener);
  ~ImportLink();
  ImportLink(const ImportLink&) = delete;
  ImportLink& operator=(const ImportLink&) = delete;

  const std::string& address() const { return address_; }
  void send(Frame frame);  // in order, once it is connected [any thread]
  bool is_broken() const;  // [any thread]
  bool is_over() const;    // both threads are done [any thread]
  void shut_down();        // [any thread]

 private:
  void run();
  Status connect();
  Status read_all();
  Status send_all();
  void break_off(const Status& why);

  const std::shared_ptr<KvTransport> transport_;
  const std::string address_, world_;
  const uint64_t most_bytes_;
  const int64_t silence_ns_;
  const Listener listener_;

  mutable std::mutex mutex_;
  std::condition_variable work_there_;
  std::deque<Frame> frames_;
  std::shared_ptr<KvStream> stream_;  // null until it is connected
  bool stop_ = false, broken_ = false, over_ = false;
  std::thread reader_, sender_;
};

}  // namespace tenon
