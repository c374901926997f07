// The inside of a plugin's process: `tenon-guest` is `run_guest` and nothing else.
#pragma once

#include <tenon/host.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/isolation/lane.h"
#include "core/isolation/messages.h"
#include "core/isolation/wire.h"

namespace tenon {

class Drafter;
class Sampler;
class Scheduler;

// What a plugin in this process has as its host: lines and counts wait for the next reply, and the
// clock stands where it stood when the call began.
class GuestHost {
 public:
  explicit GuestHost(const HostFacts& facts);
  const HostServices& services() const { return services_; }
  void set_now_ns(int64_t now_ns) { now_ns_.store(now_ns, std::memory_order_relaxed); }
  // Takes what waits.
  void write_notes(WireWriter& out);

 private:
  struct Kept {
    GuestNote note;
    std::string text;
  };
  void keep(Kept kept);

  HostFacts facts_;
  HostServices services_;
  std::atomic<int64_t> now_ns_{0};
  std::mutex mutex_;
  std::vector<Kept> notes_;
};

// What a method answered, on its way into the reply's room: status and notes in front.
class GuestReply {
 public:
  GuestReply(std::span<std::byte> room, GuestHost* host) : out_(room), host_(host) {}
  // Once, before anything else is put.
  WireWriter& begin(const Status& status);
  size_t bytes() const { return out_.bytes(); }
  bool ok() const { return out_.ok(); }

 private:
  WireWriter out_;
  GuestHost* host_;
};

// Serves the methods of one interface; several lanes at once where the interface allows it.
class GuestServer {
 public:
  virtual ~GuestServer() = default;
  virtual void serve(GuestMethod method, WireReader& in, const Lane& lane, GuestReply& reply) = 0;
};
std::unique_ptr<GuestServer> serve_scheduler(Scheduler& plugin);
std::unique_ptr<GuestServer> serve_sampler(Sampler& plugin);
std::unique_ptr<GuestServer> serve_drafter(Drafter& plugin);

// Serves until the program ends or kills it; the status of the process.
int run_guest();

}  // namespace tenon
