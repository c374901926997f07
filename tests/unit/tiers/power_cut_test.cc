// The folder of K/V as a database's crash tests treat it: the power goes at every operation, and of
// what was not brought to the disk by then, pages, sizes and names are lost at random.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/base/digest/sha256.h"
#include "core/base/digest/xxh64.h"
#include "core/tiers/disk_store.h"
#include "core/tiers/kv_file.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

constexpr uint64_t kPageBytes = 64;  // small, so that a file has several
constexpr uint64_t kBlobBytes = 200;
constexpr uint64_t kKeys = 40;
constexpr uint64_t kQuotaBytes = 24 * (kBlobBytes + kKvHeaderBytes);

KvKey key_of(uint64_t number) {
  return {sha256(std::as_bytes(std::span(&number, 1))), static_cast<GroupId>(number % 3)};
}

// No byte of it is 0, which is what lost pages have, and no two of its pages are equal.
KvBlob blob_of(uint64_t number, uint64_t world = 0) {
  KvBlob blob(kBlobBytes);
  for (uint64_t i = 0; i < blob.size(); ++i) {
    blob[i] = static_cast<std::byte>(1 + (number * 31 + world * 101 + i * 7) % 255);
  }
  return blob;
}

// A disk below a page cache. What happened since the last time that everything reached the disk is
// kept twice: as programs see it, and as changes that a power cut may lose.
class CachedDisk {
 public:
  struct File {
    std::vector<std::byte> bytes;
    int64_t used_ns = 0;
  };
  using Inode = std::shared_ptr<File>;
  using Names = std::map<std::string, Inode>;

  Names names;
  int64_t now_ns = 1'000'000'000;
  uint64_t operations = 0;
  uint64_t off_at = UINT64_MAX;  // the operation at which the power goes

  bool is_off() const { return operations > off_at; }
  // Before each operation; false: the power is gone.
  bool step() {
    ++operations;
    return !is_off();
  }
  void set(const std::string& name, Inode file) {
    if (file == nullptr) {
      names.erase(name);
    } else {
      names[name] = file;
    }
    changes_.push_back({name, std::move(file)});
  }

  // All of it reaches the disk.
  void write_back() {
    on_disk_ = names;
    changes_.clear();
    whole_.clear();
    for (const auto& [name, file] : names) whole_.insert(file.get());
  }

  // In order up to some point, as a journal does, or each by chance. Pages and sizes of files that
  // had not reached the disk are lost by chance as well.
  void cut_power(std::mt19937_64& draw) {
    const bool in_order = draw() % 2 == 0;
    const uint64_t kept = draw() % (changes_.size() + 1);
    for (uint64_t i = 0; i < changes_.size(); ++i) {
      if (in_order ? i >= kept : draw() % 2 == 0) continue;
      if (changes_[i].file == nullptr) {
        on_disk_.erase(changes_[i].name);
      } else {
        on_disk_[changes_[i].name] = changes_[i].file;
      }
    }
    std::set<File*> spoiled;
    for (auto& [name, file] : on_disk_) {
      if (!whole_.contains(file.get()) && spoiled.insert(file.get()).second) spoil(*file, draw);
    }
    names = on_disk_;
    write_back();
    operations = 0;
    off_at = UINT64_MAX;
  }

 private:
  struct Change {
    std::string name;
    Inode file;  // null: it was removed
  };
  static void spoil(File& file, std::mt19937_64& draw) {
    const uint64_t pages = (file.bytes.size() + kPageBytes - 1) / kPageBytes;
    const bool all_arrived = draw() % 4 == 0;
    if (all_arrived) return;
    if (draw() % 3 == 0)
      file.bytes.resize(std::min(file.bytes.size(), draw() % (pages + 1) * kPageBytes));
    for (uint64_t first = 0; first < file.bytes.size(); first += kPageBytes) {
      if (draw() % 2 == 0) continue;
      const uint64_t end = std::min<uint64_t>(file.bytes.size(), first + kPageBytes);
      std::fill(file.bytes.begin() + static_cast<int64_t>(first),
                file.bytes.begin() + static_cast<int64_t>(end), std::byte{0});
    }
  }

  Names on_disk_;
  std::vector<Change> changes_;
  std::set<File*> whole_;  // all of their pages have reached the disk
};

class CachedFiles final : public FileLayer {
 public:
  explicit CachedFiles(CachedDisk& disk) : disk_(disk) {}

  Status make_folder(const std::string&) override { return {}; }
  bool exists(const std::string& path) override { return disk_.names.contains(path); }
  Result<KvBlob> read(const std::string& path, uint64_t limit_bytes) override {
    if (disk_.is_off()) return failed("off");
    const auto found = disk_.names.find(path);
    if (found == disk_.names.end()) return not_found("no file");
    const std::vector<std::byte>& bytes = found->second->bytes;
    const auto count = static_cast<int64_t>(std::min<uint64_t>(bytes.size(), limit_bytes));
    return KvBlob(bytes.begin(), bytes.begin() + count);
  }
  // The file, then each of its pages.
  Status write(const std::string& path,
               std::span<const std::span<const std::byte>> parts) override {
    if (!disk_.step()) return failed("off");
    const auto file = std::make_shared<CachedDisk::File>();
    file->used_ns = ++disk_.now_ns;
    disk_.set(path, file);
    std::vector<std::byte> bytes;
    for (const auto part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
    for (uint64_t first = 0; first < bytes.size(); first += kPageBytes) {
      if (!disk_.step()) return failed("off");
      const uint64_t end = std::min<uint64_t>(bytes.size(), first + kPageBytes);
      file->bytes.assign(bytes.begin(), bytes.begin() + static_cast<int64_t>(end));
    }
    return {};
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (!disk_.step()) return failed("off");
    const auto found = disk_.names.find(from);
    if (found == disk_.names.end()) return not_found("no file");
    const CachedDisk::Inode file = found->second;
    // One change, which a cut may split: no file system promises otherwise for two folders.
    disk_.set(to, file);
    disk_.set(from, nullptr);
    return {};
  }
  void remove(const std::string& path) override {
    if (disk_.step() && disk_.names.contains(path)) disk_.set(path, nullptr);
  }
  void touch(const std::string& path) override {
    if (!disk_.step()) return;
    if (const auto found = disk_.names.find(path); found != disk_.names.end()) {
      found->second->used_ns = ++disk_.now_ns;
    }
  }
  std::vector<FileEntry> list(const std::string& path) override {
    std::vector<FileEntry> entries;
    for (const auto& [name, file] : disk_.names) {
      const std::string below = name.starts_with(path + "/") ? name.substr(path.size() + 1) : "";
      if (below.empty()) continue;
      entries.push_back({below, file->bytes.size(), file->used_ns});
    }
    return entries;
  }
  int64_t now_ns() override { return ++disk_.now_ns; }

 private:
  CachedDisk& disk_;
};

std::unique_ptr<DiskStore> open_on(CachedDisk& disk, uint64_t world = 0) {
  auto opened = DiskStore::open("/kv", kQuotaBytes, "world " + std::to_string(world),
                                std::make_unique<CachedFiles>(disk));
  EXPECT_TRUE(opened.ok());
  return *std::move(opened);
}

// What was written, or nothing.
bool reads_right(TierStore& store, uint64_t number, uint64_t world = 0) {
  const auto found = store.read(key_of(number), kBlobBytes);
  if (found) {
    EXPECT_EQ(found, blob_of(number, world)) << number;
  }
  return found.has_value();
}

uint64_t held_bytes(const CachedDisk& disk) {
  uint64_t bytes = 0;
  for (const auto& [name, file] : disk.names) {
    if (!name.ends_with(".txt")) bytes += file->bytes.size();
  }
  return bytes;
}

// Whatever is there after a cut is right, can be written again, and does not outgrow its quota.
void expect_a_good_start(CachedDisk& disk) {
  auto store = open_on(disk);
  for (uint64_t number = 0; number < kKeys; ++number) reads_right(*store, number);
  for (uint64_t number = 0; number < kKeys; ++number) {
    ASSERT_TRUE(store->write(key_of(number), blob_of(number)).ok());
    EXPECT_TRUE(reads_right(*store, number)) << number << " was written just now";
  }
  disk.now_ns += int64_t{601} * 1'000'000'000;
  auto later = open_on(disk);
  EXPECT_FALSE(later->has(key_of(kKeys + 1)));  // it looks around
  for (const auto& [name, file] : disk.names) {
    EXPECT_EQ(name.find(".new-"), name.npos) << name << " was never finished";
  }
  EXPECT_LE(held_bytes(disk), kQuotaBytes);
}

// Two processes that write more than the quota, read, and write again.
void work(CachedDisk& disk) {
  auto one = open_on(disk), other = open_on(disk);
  for (uint64_t round = 0; round < 3 && !disk.is_off(); ++round) {
    for (uint64_t number = 0; number < 12 && !disk.is_off(); ++number) {
      const uint64_t which = (number + round * 9) % kKeys;
      (void)(number % 2 == 0 ? one : other)->write(key_of(which), blob_of(which));
      if (!disk.is_off()) reads_right(*other, which / 2);
    }
  }
}

TEST(PowerCut, at_every_operation_leaves_what_was_written_or_nothing) {
  CachedDisk whole;
  work(whole);
  ASSERT_GT(whole.operations, 200u);
  for (uint64_t at = 0; at <= whole.operations; ++at) {
    for (uint64_t seed = 0; seed < 2; ++seed) {
      SCOPED_TRACE("operation " + std::to_string(at) + ", seed " + std::to_string(seed));
      CachedDisk disk;
      disk.off_at = at;
      work(disk);
      std::mt19937_64 draw(at * 1000 + seed);
      disk.cut_power(draw);
      expect_a_good_start(disk);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// A file of a later version, or of an earlier one, in place of an entry.
void plant_other_version(CachedDisk& disk, uint64_t number, uint32_t version) {
  const KvBlob blob = blob_of(number);
  KvHeader header = kv_header(key_of(number), {}, blob);
  std::memcpy(header.data() + 8, &version, sizeof(version));
  const auto file = std::make_shared<CachedDisk::File>();
  file->bytes.assign(header.begin(), header.end());
  file->bytes.insert(file->bytes.end(), blob.begin(), blob.end());
  file->used_ns = ++disk.now_ns;
  disk.set("/kv/" + kv_file_name(key_of(number)), file);
}

uint64_t wanted_operations() {
  const char* text = std::getenv("TENON_TEST_OPERATIONS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 100'000;
}

// Of three processes, one of which has another model, against what each of them wrote.
TEST(PowerCut, random_operations_and_cuts_give_what_was_written_or_nothing) {
  std::mt19937_64 draw(17);
  CachedDisk disk;
  std::vector<std::unique_ptr<DiskStore>> stores;
  uint64_t cuts = 0, found = 0;
  const uint64_t wanted = wanted_operations();
  for (uint64_t i = 0; i < wanted && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("operation " + std::to_string(i));
    if (stores.empty()) {
      for (uint64_t process = 0; process < 3; ++process)
        stores.push_back(open_on(disk, process / 2));
    }
    const uint64_t process = draw() % 3, number = draw() % kKeys, world = process / 2;
    DiskStore& store = *stores[process];
    switch (draw() % 16) {
      case 0:
        disk.now_ns += static_cast<int64_t>(draw() % 60) * 1'000'000'000;
        break;
      case 1:
        disk.write_back();
        break;
      case 2:
        if (draw() % 4 == 0) plant_other_version(disk, number, static_cast<uint32_t>(draw() % 4));
        break;
      case 3:
        if (draw() % 20 != 0) break;
        disk.off_at = disk.operations + draw() % 8;
        (void)store.write(key_of(number), blob_of(number, world));
        stores.clear();
        disk.cut_power(draw);
        ++cuts;
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        // Another process may have removed it, and what was written by one that knows it is not.
        (void)store.write(key_of(number), blob_of(number, world));
        break;
      default:
        found += reads_right(store, number, world);
    }
    // Each process sees what the others wrote when it has written a sixteenth of the quota.
    constexpr uint64_t kEntryBytes = kBlobBytes + kKvHeaderBytes;
    EXPECT_LE(held_bytes(disk), kQuotaBytes + 3 * (kQuotaBytes / 16 + 2 * kEntryBytes));
  }
  if (wanted >= 10'000) {
    EXPECT_GT(cuts, wanted / 1000);
    EXPECT_GT(found, wanted / 10);
  }
}

// Processes of this machine on one folder of its disk, killed at any moment.
[[noreturn]] void write_for_ever(const std::string& folder, uint64_t seed) {
  std::mt19937_64 draw(seed);
  auto store = DiskStore::open(folder, kQuotaBytes, "world 0", make_file_layer());
  if (!store.ok()) _exit(2);
  for (;;) {
    const uint64_t number = draw() % kKeys;
    if (draw() % 2 == 0) (void)(*store)->write(key_of(number), blob_of(number));
    const auto found = (*store)->read(key_of(number), kBlobBytes);
    if (found && found != blob_of(number)) _exit(3);
  }
}

TEST(PowerCut, processes_that_are_killed_leave_what_they_wrote_or_nothing) {
  const TemporaryFolder folder;
  std::mt19937_64 draw(5);
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<pid_t> processes;
    for (uint64_t i = 0; i < 2; ++i) {
      processes.push_back(fork());
      if (processes.back() == 0) write_for_ever(folder.path("kv"), round * 10 + i);
    }
    ::usleep(static_cast<useconds_t>(draw() % 20'000));
    for (const pid_t process : processes) {
      int status = 0;
      kill(process, SIGKILL);
      ASSERT_EQ(waitpid(process, &status, 0), process);
      EXPECT_TRUE(WIFSIGNALED(status)) << "it read what nobody wrote: " << WEXITSTATUS(status);
    }
  }
  auto store = *DiskStore::open(folder.path("kv"), kQuotaBytes, "world 0", make_file_layer());
  for (uint64_t number = 0; number < kKeys; ++number) {
    reads_right(*store, number);
    ASSERT_TRUE(store->write(key_of(number), blob_of(number)).ok());
    EXPECT_TRUE(reads_right(*store, number));
  }
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path("kv"))) {
    if (entry.path().extension() == ".kv") bytes += entry.file_size();
  }
  EXPECT_LE(bytes, kQuotaBytes);
}

}  // namespace
}  // namespace tenon
