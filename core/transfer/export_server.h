// Sends K/V that lies in Exports to whoever fetches it, blocks as they come while others are still
// computed, and of those what layers have made so far.
//
// Each connection has two threads: one reads what is wanted, the other sends.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/tiers/tiers.h"
#include "core/transfer/exports.h"
#include "core/transfer/stream.h"
#include "core/transfer/wire.h"

namespace tenon {

// One connection, from the side that has K/V.
class ExportSession {
 public:
  // `world` outlives it. Parts of a block are sent where there are so many bytes of one, or a
  // quarter of the block.
  ExportSession(std::unique_ptr<KvStream> stream, std::shared_ptr<Exports> exports,
                const TierWorld& world, uint64_t least_part_bytes);
  ~ExportSession();
  ExportSession(const ExportSession&) = delete;
  ExportSession& operator=(const ExportSession&) = delete;

  bool has_ended() const { return threads_ == 0; }  // [any thread]

 private:
  struct Fetch {
    uint64_t id = 0;
    FetchFrame wanted;
    uint32_t next = 0;  // of its blocks; those before it were sent
    uint32_t look = 0;  // where parts are looked for next, from `next` on
    // Bytes that were sent of blocks from `next` on: [group of the world].
    std::map<uint32_t, std::vector<uint64_t>> sent;
  };
  void read();
  void send();
  Status greet();
  Status take(Frame frame);
  void stop();
  bool find(const Fetch& fetch, uint32_t block, bool states, std::vector<Frame>& found,
            std::vector<std::shared_ptr<const KvBlob>>& blobs);
  bool send_some(Fetch& fetch, bool& ended);
  bool send_part(Fetch& fetch);
  bool send_parts_of(Fetch& fetch, uint32_t block, bool& has_begun);
  bool write_rest(Frame frame, const KvBlob& blob, std::span<const uint64_t> sent);
  bool write(const Frame& frame, std::span<const std::byte> payload);

  const std::unique_ptr<KvStream> stream_;
  const std::shared_ptr<Exports> exports_;
  const TierWorld& world_;
  const uint64_t least_part_bytes_;
  bool has_blocks_ = false, recurs_ = false;
  std::atomic<bool> takes_parts_ = false;
  std::mutex mutex_;
  std::deque<Frame> replies_;
  std::vector<Fetch> arrived_;
  std::vector<uint64_t> cancelled_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> threads_ = 2;  // that run
  std::thread reader_, sender_;
};

class ExportServer {
 public:
  ExportServer(std::unique_ptr<KvListener> listener, std::shared_ptr<Exports> exports,
               const TierWorld& world, uint64_t least_part_bytes);
  ~ExportServer();
  ExportServer(const ExportServer&) = delete;
  ExportServer& operator=(const ExportServer&) = delete;

  std::string address() const { return listener_->address(); }

 private:
  void accept();

  const std::unique_ptr<KvListener> listener_;
  const std::shared_ptr<Exports> exports_;
  const TierWorld& world_;
  const uint64_t least_part_bytes_;
  std::list<ExportSession> sessions_;  // of its thread
  std::thread thread_;
};

}  // namespace tenon
