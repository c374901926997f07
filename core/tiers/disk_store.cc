#include "core/tiers/disk_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/digest/sha256.h"
#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/tiers/kv_file.h"

namespace tenon {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// After a write that failed, others most likely fail as well.
constexpr int64_t kRestNs = 30 * kSecondNs;
// A file that was never renamed belongs to a process that ended, once it is this old.
constexpr int64_t kForgottenNs = 600 * kSecondNs;
// Making room frees this part of the quota at once, since it looks at every file.
constexpr uint64_t kFreedPart = 8;
// Other processes write too: so much of the quota is written between two looks at the folder.
constexpr uint64_t kLookPart = 16;
// What a disk is told to read ahead: enough to keep it busy while a file is checked.
constexpr uint64_t kAheadBytes = 4 << 20;
constexpr size_t kAheadFiles = 64;
constexpr std::string_view kBeside = ".new-";

bool is_unfinished(const std::string& name) {
  return name.find(kBeside) != name.npos;
}

std::string name_of_world(const std::string& world) {
  return "world-" + sha256_hex(world).substr(0, 16) + ".txt";
}

// Of any world.
bool is_name_of_world(std::string_view name) {
  constexpr std::string_view kHead = "world-";
  constexpr size_t kDigits = 16;
  if (!name.starts_with(kHead) || name.size() < kHead.size() + kDigits) return false;
  const std::string_view digits = name.substr(kHead.size(), kDigits);
  return digits.find_first_not_of("0123456789abcdef") == digits.npos &&
         name.substr(kHead.size() + kDigits).starts_with(".txt");
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

DiskStore::DiskStore(std::string folder, uint64_t quota_bytes, const std::string& world,
                     std::unique_ptr<FileLayer> files)
    : folder_(std::move(folder)),
      quota_bytes_(quota_bytes),
      world_(world),
      world_digest_(sha256(bytes_of(world))),
      files_(std::move(files)) {}

Result<std::unique_ptr<DiskStore>> DiskStore::open(const std::string& folder, uint64_t quota_bytes,
                                                   const std::string& world,
                                                   std::unique_ptr<FileLayer> files) {
  TENON_RETURN_IF_ERROR(files->make_folder(folder));
  return std::unique_ptr<DiskStore>(new DiskStore(folder, quota_bytes, world, std::move(files)));
}

// What is there, without what nobody will ever finish.
std::vector<FileEntry> DiskStore::look_around() {
  const std::unordered_map<std::string, Known> before = std::exchange(known_, {});
  held_bytes_ = written_bytes_ = 0;
  looked_around_ = true;
  const int64_t now_ns = files_->now_ns();
  std::vector<FileEntry> files = files_->list(folder_);
  std::erase_if(files, [&](const FileEntry& file) {
    const bool is_entry = is_kv_file_name(file.name);
    if (!is_unfinished(file.name) || !(is_entry || is_name_of_world(file.name))) return !is_entry;
    if (now_ns - file.used_ns > kForgottenNs) {
      files_->remove(path_of(file.name));
    } else {
      held_bytes_ += file.bytes;
    }
    return true;
  });
  for (const FileEntry& file : files) {
    const auto seen = before.find(file.name);
    known_[file.name] = {file.bytes, seen != before.end() && seen->second.sound};
    held_bytes_ += file.bytes;
  }
  count([this](KvStoreTotals& totals) { totals.held_bytes = held_bytes_; });
  return files;
}

// Files that were not used for longest go, whichever process wrote them.
void DiskStore::make_room(uint64_t bytes) {
  const bool full = held_bytes_ + bytes > quota_bytes_;
  if (!full && looked_around_ && written_bytes_ <= quota_bytes_ / kLookPart) return;
  std::vector<FileEntry> files = look_around();
  if (held_bytes_ + bytes <= quota_bytes_) return;
  std::ranges::sort(files, {},
                    [](const FileEntry& file) { return std::pair(file.used_ns, file.name); });
  const uint64_t target = quota_bytes_ - quota_bytes_ / kFreedPart;
  for (const FileEntry& file : files) {
    if (held_bytes_ + bytes <= target || held_bytes_ == 0) break;
    files_->remove(path_of(file.name));
    if (known_.erase(file.name) == 0) continue;
    held_bytes_ -= std::min(held_bytes_, file.bytes);
    count([&](KvStoreTotals& totals) { totals.evicted_bytes += file.bytes; });
  }
}

bool DiskStore::has(const KvKey& key) {
  if (!looked_around_) look_around();
  const std::string name = kv_file_name(key);
  return known_.contains(name) || files_->exists(path_of(name));
}

void DiskStore::forget(const std::string& name) {
  const auto seen = known_.find(name);
  if (seen == known_.end()) return;
  held_bytes_ -= std::min(held_bytes_, seen->second.bytes);
  known_.erase(seen);
  count([this](KvStoreTotals& totals) { totals.held_bytes = held_bytes_; });
}

void DiskStore::look_ahead(std::span<const KvWanted> wanted) {
  coming_.assign(wanted.begin(), wanted.end());
  next_ = begun_ = 0;
}

// States are read out of order: what is not among the next ones changes nothing.
void DiskStore::begin_after(const KvKey& key) {
  const auto found =
      std::find_if(coming_.begin() + static_cast<std::ptrdiff_t>(next_), coming_.end(),
                   [&](const KvWanted& each) { return each.key == key; });
  if (found == coming_.end()) return;
  next_ = static_cast<size_t>(found - coming_.begin()) + 1;
  begun_ = std::max(begun_, next_);
  uint64_t bytes = 0;
  for (size_t at = next_; at < coming_.size() && at - next_ < kAheadFiles; ++at) {
    bytes += coming_[at].bytes;
    if (bytes > kAheadBytes && at > next_) break;
    if (at < begun_) continue;
    files_->will_read(path_of(kv_file_name(coming_[at].key)));
    begun_ = at + 1;
  }
}

SharedBlob DiskStore::read(const KvKey& key, uint64_t bytes) {
  if (!spares_processor_) begin_after(key);
  const std::string name = kv_file_name(key);
  const uint64_t limit = kKvHeaderBytes + bytes + 1;
  Result<KvBlob> file = spares_processor_ ? files_->read_sparingly(path_of(name), limit)
                                          : files_->read(path_of(name), limit);
  if (!file.ok()) {
    forget(name);
    const bool gone = file.status().code() == StatusCode::not_found;
    if (!gone) count([](KvStoreTotals& totals) { ++totals.faults; });
    return std::nullopt;
  }
  const auto payload = kv_payload(*file, key, world_digest_);
  if (payload.ok() && payload->size() == bytes) {
    files_->touch(path_of(name));
    if (const auto seen = known_.find(name); seen != known_.end()) seen->second.sound = true;
    return {*std::move(file), kKvHeaderBytes};
  }
  if (!payload.ok() && payload.status().code() == StatusCode::unsupported) return std::nullopt;
  files_->remove(path_of(name));
  forget(name);
  count([](KvStoreTotals& totals) { ++totals.damaged; });
  return std::nullopt;
}

Status DiskStore::write_beside(const std::string& name,
                               std::span<const std::span<const std::byte>> parts) {
  const std::string path = path_of(name);
  const std::string beside = path + std::string(kBeside) + std::to_string(::getpid()) + "-" +
                             std::to_string(files_->now_ns()) + "-" + std::to_string(++beside_);
  Status status = files_->write(beside, parts);
  if (!status.ok() && status.code() == StatusCode::not_found) {
    TENON_RETURN_IF_ERROR(files_->make_folder(path.substr(0, path.rfind('/'))));
    status = files_->write(beside, parts);
  }
  if (status.ok()) status = files_->rename(beside, path);
  if (!status.ok()) files_->remove(beside);
  return status;
}

// For people who look into the folder: of what these K/V are.
void DiskStore::describe_world() {
  const std::string name = name_of_world(world_);
  if (files_->exists(path_of(name))) return;
  const std::array<std::span<const std::byte>, 1> parts = {bytes_of(world_)};
  (void)write_beside(name, parts);
}

void DiskStore::give_up_for_a_while(const Status& why) {
  count([](KvStoreTotals& totals) { ++totals.faults; });
  resting_until_ns_ = files_->now_ns() + kRestNs;
  log(LogLevel::warning, "kv_cache",
      "the tier in " + path_in_quotes(folder_) + " takes no K/V for 30 s: " + message_of(why));
}

Status DiskStore::write(const KvKey& key, const SharedBlob& blob) {
  const std::string name = kv_file_name(key);
  if (const auto seen = known_.find(name); seen != known_.end() && seen->second.sound) return {};
  const uint64_t bytes = kKvHeaderBytes + blob.size();
  if (bytes > quota_bytes_) {
    return failed("an entry of " + std::to_string(bytes) +
                  " bytes does not fit into the tier \"disk\", which has " +
                  std::to_string(quota_bytes_) + " – raise its memory");
  }
  // The system's clock may have been set back meanwhile.
  const int64_t rest_ns = resting_until_ns_ - files_->now_ns();
  if (rest_ns > 0 && rest_ns <= kRestNs) return failed("an earlier write failed");
  make_room(bytes);
  if (written_bytes_ == 0) describe_world();
  const KvHeader header = kv_header(key, world_digest_, blob.bytes());
  const std::array<std::span<const std::byte>, 2> parts = {std::span(header), blob.bytes()};
  if (Status status = write_beside(name, parts); !status.ok()) {
    give_up_for_a_while(status);
    return status;
  }
  const bool is_new = known_.insert_or_assign(name, Known{bytes, true}).second;
  if (is_new) held_bytes_ += bytes;
  written_bytes_ += bytes;
  count([this](KvStoreTotals& totals) { totals.held_bytes = held_bytes_; });
  return {};
}

KvStoreTotals DiskStore::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace tenon
