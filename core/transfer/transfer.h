// Prefill and decode apart: one worker computes a prompt's K/V, another goes on from it.
//
//   prefill worker   exports   what it computed for others, until they have it
//   decode worker    imports   what others computed for it, block by block
//
// A worker may do both. Which of the two it does is its role, and changes what requests may ask of
// it from then on; what is under way goes on. docs/disaggregation.md
//
// Threads: any, but for what imports.h says.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/tiers/tiers.h"
#include "core/transfer/export_server.h"
#include "core/transfer/exports.h"
#include "core/transfer/imports.h"
#include "core/transfer/socket_address.h"

namespace tenon {

enum class WorkerRole : uint8_t { prefill = 1, decode = 2, both = 3 };
std::string_view role_name(WorkerRole role);
std::optional<WorkerRole> parse_role(std::string_view name);

struct TransferOptions {
  WorkerRole role = WorkerRole::both;
  std::string address = "127.0.0.1:0";          // where others fetch K/V
  std::string peers = "localhost";              // from where K/V may be fetched (TrustedPeers)
  uint64_t memory_bytes = uint64_t{1} << 30;    // K/V that waits to be fetched
  uint64_t budget_bytes = uint64_t{256} << 20;  // K/V that was fetched, and is not in the cache yet
  std::chrono::nanoseconds lease = std::chrono::seconds(30);
  // Parts of blocks are sent from so many bytes on: a frame costs about what 16 KiB do.
  uint64_t least_part_bytes = 16 << 10;
};

struct TransferTotals {
  ExportTotals exports;
  ImportTotals imports;
};

class KvTransfer {
 public:
  // Errors: failed (it cannot listen there), invalid_argument (no address, no peers).
  static Result<std::unique_ptr<KvTransfer>> open(TransferOptions options, TierWorld world,
                                                  std::shared_ptr<KvTransport> transport);
  ~KvTransfer();
  KvTransfer(const KvTransfer&) = delete;
  KvTransfer& operator=(const KvTransfer&) = delete;

  const TierWorld& world() const { return world_; }
  const TransferOptions& options() const { return options_; }
  std::string address() const { return address_; }
  // Names this run of the worker.
  const std::string& engine_id() const { return engine_id_; }

  WorkerRole role() const { return role_; }
  void set_role(WorkerRole role) { role_ = role; }
  bool exports() const { return role_ != WorkerRole::decode; }
  bool imports() const { return role_ != WorkerRole::prefill; }
  bool trusts(std::string_view host) const { return peers_.has(host); }

  // What a request holds that computes its prompt for another worker.
  std::shared_ptr<KvExport> export_as(TransferId id);
  TransferId fresh_id();
  // What a request holds whose prompt another worker computes.
  std::shared_ptr<KvImport> import_from(Imports::Place place);

  Imports& incoming() { return *imports_; }
  Exports& outgoing() { return *exports_; }
  TransferTotals totals() const;

 private:
  KvTransfer(TransferOptions options, TierWorld world, TrustedPeers peers);
  void keep_time();

  const TransferOptions options_;
  const TierWorld world_;
  const TrustedPeers peers_;
  const std::string engine_id_;
  std::string address_;
  std::atomic<WorkerRole> role_;
  std::shared_ptr<Exports> exports_;
  std::shared_ptr<Imports> imports_;
  std::unique_ptr<ExportServer> server_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread timer_;
};

}  // namespace tenon
