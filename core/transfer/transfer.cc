#include "core/transfer/transfer.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/base/digest/hex.h"
#include "core/base/threads/start_thread.h"

namespace tenon {
namespace {

constexpr std::string_view kRoles[] = {"prefill", "decode", "both"};
// How often leases are looked at, of their length, and at most.
constexpr int kLooksOfALease = 8;
constexpr std::chrono::nanoseconds kLongestLook = std::chrono::milliseconds(250);

uint64_t drawn_number() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

std::string drawn_name() {
  const uint64_t numbers[2] = {drawn_number(), drawn_number()};
  const auto bytes = std::as_bytes(std::span(numbers));
  return hex_text({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

std::string_view role_name(WorkerRole role) {
  return kRoles[static_cast<size_t>(role) - 1];
}

std::optional<WorkerRole> parse_role(std::string_view name) {
  const auto found = std::ranges::find(kRoles, name);
  if (found == std::end(kRoles)) return std::nullopt;
  return static_cast<WorkerRole>(found - std::begin(kRoles) + 1);
}

Result<std::unique_ptr<KvTransfer>> KvTransfer::open(TransferOptions options, TierWorld world,
                                                     std::shared_ptr<KvTransport> transport) {
  TENON_ASSIGN_OR_RETURN(TrustedPeers peers, TrustedPeers::parse(options.peers));
  std::unique_ptr<KvListener> listener;  // null without an address: nobody fetches K/V here
  if (!options.address.empty()) {
    TENON_ASSIGN_OR_RETURN(listener, transport->listen(options.address, options.lease.count()));
  }
  std::unique_ptr<KvTransfer> made(
      new KvTransfer(std::move(options), std::move(world), std::move(peers)));
  made->imports_ = std::make_shared<Imports>(made->world_, std::move(transport),
                                             made->options_.budget_bytes, made->options_.lease);
  if (listener != nullptr) {
    made->server_ = std::make_unique<ExportServer>(std::move(listener), made->exports_,
                                                   made->world_, made->options_.least_part_bytes);
    made->address_ = made->server_->address();
  }
  made->timer_ = start_thread([transfer = made.get()] { transfer->keep_time(); });
  return made;
}

KvTransfer::KvTransfer(TransferOptions options, TierWorld world, TrustedPeers peers)
    : options_(std::move(options)),
      world_(std::move(world)),
      peers_(std::move(peers)),
      engine_id_(drawn_name()),
      role_(options_.role),
      exports_(std::make_shared<Exports>(options_.memory_bytes, options_.lease)) {}

KvTransfer::~KvTransfer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (timer_.joinable()) timer_.join();
}

void KvTransfer::keep_time() {
  const auto look = std::min(options_.lease / kLooksOfALease, kLongestLook);
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, look, [this] { return stop_; })) {
    exports_->expire();
    imports_->tick();
  }
}

TransferId KvTransfer::fresh_id() {
  return drawn_number();
}

std::shared_ptr<KvExport> KvTransfer::export_as(TransferId id) {
  return std::make_shared<KvExport>(exports_, id);
}

std::shared_ptr<KvImport> KvTransfer::import_from(Imports::Place place) {
  return std::make_shared<KvImport>(imports_, std::move(place));
}

TransferTotals KvTransfer::totals() const {
  return {exports_->totals(), imports_->totals()};
}

}  // namespace tenon
