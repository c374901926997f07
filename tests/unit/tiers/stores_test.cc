#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "core/base/digest/sha256.h"
#include "core/base/files/descriptor.h"
#include "core/tiers/disk_store.h"
#include "core/tiers/host_store.h"
#include "core/tiers/kv_file.h"
#include "tests/support/models/memory_files.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

KvKey key_of(uint64_t number) {
  return {sha256(std::as_bytes(std::span(&number, 1))), static_cast<GroupId>(number % 3)};
}

KvBlob blob_of(uint64_t number, size_t bytes = 200) {
  return KvBlob(bytes, static_cast<std::byte>(number * 31 + 1));
}

std::unique_ptr<DiskStore> open_on(MemoryDisk& disk, uint64_t quota_bytes = 1 << 20,
                                   MemoryFiles::Fault fault = {}) {
  auto opened = DiskStore::open("/kv", quota_bytes, "world",
                                std::make_unique<MemoryFiles>(disk, std::move(fault)));
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return *std::move(opened);
}

void expect_all(TierStore& store, uint64_t first, uint64_t end) {
  for (uint64_t number = first; number < end; ++number) {
    EXPECT_EQ(store.read(key_of(number), 200), blob_of(number)) << number;
  }
}

TEST(HostStore, evicts_what_was_not_used_for_longest) {
  HostStore store(1000);
  for (uint64_t number = 0; number < 5; ++number) {
    EXPECT_TRUE(store.write(key_of(number), blob_of(number)).ok());
  }
  EXPECT_TRUE(store.read(key_of(0), 200).has_value());
  EXPECT_TRUE(store.write(key_of(5), blob_of(5)).ok());
  EXPECT_TRUE(store.has(key_of(0)));
  EXPECT_FALSE(store.has(key_of(1)));
  EXPECT_EQ(store.totals().held_bytes, 1000u);
  EXPECT_EQ(store.totals().evicted_bytes, 200u);
  EXPECT_EQ(
      store.write(key_of(6), blob_of(6, 2000)).message(),
      "an entry of 2000 bytes does not fit into the tier \"host\", which has 1000 – raise its "
      "memory");
}

TEST(HostStore, has_nothing_of_another_size) {
  HostStore store(1000);
  EXPECT_TRUE(store.write(key_of(1), blob_of(1)).ok());
  EXPECT_FALSE(store.read(key_of(1), 199).has_value());
}

// From the cache of pages and, where the disk can do that, past it.
TEST(DiskStore, reads_the_same_where_it_spares_the_processor) {
  const TemporaryFolder folder;
  const auto opened = [&] {
    return *DiskStore::open(folder.path("kv"), 1 << 24, "world", make_file_layer());
  };
  const std::vector<uint64_t> sizes = {1, 200, 65536, 69505, 524288, 524289};
  for (const uint64_t size : sizes) {
    ASSERT_TRUE(opened()->write(key_of(size), blob_of(size, size)).ok());
  }
  for (const bool is_cached : {true, false}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path("kv"))) {
      const Descriptor fd(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
      if (is_cached || !file.is_regular_file()) continue;
      ASSERT_EQ(::fsync(fd.get()), 0);
      ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    const auto store = opened();
    store->spare_processor(true);
    for (const uint64_t size : sizes) {
      EXPECT_TRUE(store->read(key_of(size), size) == blob_of(size, size)) << size;
      EXPECT_FALSE(store->read(key_of(size), size + 1).has_value()) << size;
      ASSERT_TRUE(store->write(key_of(size), blob_of(size, size)).ok());
    }
    EXPECT_FALSE(store->read(key_of(7), 7).has_value());
  }
}

TEST(DiskStore, finds_yesterdays_entries_in_its_folder) {
  const TemporaryFolder folder;
  for (int day = 0; day < 2; ++day) {
    auto store = DiskStore::open(folder.path("kv/deep"), 1 << 20, "world", make_file_layer());
    ASSERT_TRUE(store.ok()) << store.status().message();
    if (day == 0) {
      for (uint64_t number = 0; number < 20; ++number) {
        ASSERT_TRUE((*store)->write(key_of(number), blob_of(number)).ok());
      }
    }
    expect_all(**store, 0, 20);
    EXPECT_FALSE((*store)->has(key_of(20)));
    EXPECT_EQ((*store)->totals().damaged, 0u);
  }
}

TEST(DiskStore, lets_the_disk_begin_with_what_is_read_next) {
  MemoryDisk disk;
  const auto store = open_on(disk);
  std::vector<KvWanted> wanted;
  std::vector<std::string> paths;
  for (uint64_t number = 0; number < 10; ++number) {
    const uint64_t bytes = number < 8 ? 200 : 3 << 20;  // of the last ones only one at a time
    wanted.push_back({key_of(number), bytes});
    paths.push_back("/kv/" + kv_file_name(key_of(number)));
    if (number >= 8) continue;
    ASSERT_TRUE(store->write(key_of(number), blob_of(number)).ok());
  }
  expect_all(*store, 0, 2);
  EXPECT_EQ(disk.begun, std::vector<std::string>()) << "nobody said what comes";
  store->look_ahead(wanted);
  const auto begun_before = [&](size_t end) {
    return std::vector<std::string>(paths.begin() + 1, paths.begin() + end);
  };
  EXPECT_TRUE(store->read(key_of(0), 200).has_value());
  EXPECT_EQ(disk.begun, begun_before(9)) << "as much as is worth it, the one at hand not";
  EXPECT_FALSE(store->read(key_of(40), 200).has_value());
  EXPECT_TRUE(store->read(key_of(5), 200).has_value());
  EXPECT_EQ(disk.begun, begun_before(9)) << "once each";
  EXPECT_FALSE(store->read(key_of(8), 3 << 20).has_value());
  EXPECT_EQ(disk.begun, begun_before(10)) << "one that is larger comes alone";
  store->look_ahead({});
  EXPECT_TRUE(store->read(key_of(1), 200).has_value());
  EXPECT_EQ(disk.begun, begun_before(10));
}

TEST(DiskStore, says_where_no_folder_can_be_made) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path("loop"));
  for (const std::string& place : {folder.write_file("taken", "text"), folder.path("loop"),
                                   folder.path(std::string(300, 'x'))}) {
    const auto store = DiskStore::open(place, 1 << 20, "world", make_file_layer());
    EXPECT_FALSE(store.ok());
    EXPECT_NE(store.status().message().find("making the folder"), std::string::npos);
  }
}

TEST(DiskStore, loses_a_damaged_file_and_nothing_else) {
  const TemporaryFolder folder;
  auto store = *DiskStore::open(folder.path(), 1 << 20, "world", make_file_layer());
  for (uint64_t number = 0; number < 3; ++number) {
    ASSERT_TRUE(store->write(key_of(number), blob_of(number)).ok());
  }
  const std::string path = folder.path(kv_file_name(key_of(1)));
  std::filesystem::resize_file(path, 150);
  EXPECT_FALSE(store->read(key_of(1), 200).has_value());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(store->totals().damaged, 1u);
  EXPECT_EQ(store->totals().held_bytes, 2 * (200 + kKvHeaderBytes));
  expect_all(*store, 0, 1);
  expect_all(*store, 2, 3);
  EXPECT_TRUE(store->write(key_of(1), blob_of(1)).ok());
  expect_all(*store, 0, 3);
}

TEST(DiskStore, goes_on_in_a_folder_that_somebody_took_away) {
  const TemporaryFolder folder;
  auto store = *DiskStore::open(folder.path("kv"), 1 << 20, "world", make_file_layer());
  ASSERT_TRUE(store->write(key_of(0), blob_of(0)).ok());
  std::filesystem::remove_all(folder.path("kv"));
  EXPECT_FALSE(store->read(key_of(0), 200).has_value());
  EXPECT_TRUE(store->write(key_of(0), blob_of(0)).ok());
  expect_all(*store, 0, 1);
}

TEST(DiskStore, keeps_its_quota_and_what_was_used_last) {
  MemoryDisk disk;
  const uint64_t quota = 20 * (200 + kKvHeaderBytes);
  auto store = open_on(disk, quota);
  for (uint64_t number = 0; number < 100; ++number) {
    ASSERT_TRUE(store->write(key_of(number), blob_of(number)).ok());
    expect_all(*store, 0, 1);
    EXPECT_LE(store->totals().held_bytes, quota);
  }
  EXPECT_LE(disk.held_bytes(), quota + 100);  // and the file that says what they are of
  expect_all(*store, 90, 100);
  EXPECT_FALSE(store->has(key_of(50)));
  EXPECT_GT(store->totals().evicted_bytes, 0u);
}

TEST(DiskStore, touches_no_file_that_is_not_its_own) {
  MemoryDisk disk;
  disk.files["/kv/ab/letters.txt"] = {std::vector<std::byte>(5000), 1};
  auto store = open_on(disk, 1000);
  for (uint64_t number = 0; number < 10; ++number) {
    ASSERT_TRUE(store->write(key_of(number), blob_of(number)).ok());
  }
  EXPECT_TRUE(disk.files.contains("/kv/ab/letters.txt"));
}

TEST(DiskStore, finds_what_another_process_writes_and_misses_what_it_evicts) {
  MemoryDisk disk;
  auto one = open_on(disk), other = open_on(disk);
  EXPECT_FALSE(other->has(key_of(1)));
  ASSERT_TRUE(one->write(key_of(1), blob_of(1)).ok());
  EXPECT_TRUE(other->has(key_of(1)));
  expect_all(*other, 1, 2);
  disk.files.clear();
  EXPECT_FALSE(one->read(key_of(1), 200).has_value());
  EXPECT_FALSE(one->has(key_of(1)));
}

TEST(DiskStore, keeps_the_quota_of_a_folder_that_two_processes_fill) {
  MemoryDisk disk;
  const uint64_t quota = 64 * (200 + kKvHeaderBytes);
  auto one = open_on(disk, quota), other = open_on(disk, quota);
  for (uint64_t number = 0; number < 1000; ++number) {
    ASSERT_TRUE((number % 2 == 0 ? one : other)->write(key_of(number), blob_of(number)).ok());
    // Each sees the other's files when a sixteenth of the quota was written.
    EXPECT_LE(disk.held_bytes(), quota + quota / 8 + 1000);
  }
}

TEST(DiskStore, takes_nothing_for_a_while_when_a_write_failed) {
  MemoryDisk disk;
  int writes = 0;
  bool full = true;
  auto store = open_on(disk, 1 << 20, [&](const std::string& operation) {
    writes += operation == "write";
    return operation == "write" && full;
  });
  EXPECT_FALSE(store->write(key_of(0), blob_of(0)).ok());
  full = false;
  const int before = writes;
  EXPECT_FALSE(store->write(key_of(1), blob_of(1)).ok());
  EXPECT_EQ(writes, before);
  EXPECT_EQ(store->totals().faults, 1u);
  disk.now_ns += 31'000'000'000;
  EXPECT_TRUE(store->write(key_of(1), blob_of(1)).ok());
  expect_all(*store, 1, 2);
}

TEST(DiskStore, takes_entries_again_where_the_clock_was_set_back_meanwhile) {
  MemoryDisk disk;
  bool full = true;
  auto store =
      open_on(disk, 1 << 20, [&](const std::string& what) { return what == "write" && full; });
  disk.now_ns += int64_t{7200} * 1'000'000'000;
  EXPECT_FALSE(store->write(key_of(0), blob_of(0)).ok());
  full = false;
  disk.now_ns -= int64_t{3600} * 1'000'000'000;
  EXPECT_TRUE(store->write(key_of(1), blob_of(1)).ok());
  expect_all(*store, 1, 2);
}

TEST(DiskStore, removes_what_a_process_that_ended_never_finished) {
  MemoryDisk disk;
  const std::string unfinished = "/kv/" + kv_file_name(key_of(1)) + ".new-1-1-1";
  disk.files[unfinished] = {std::vector<std::byte>(100), disk.now_ns};
  (void)open_on(disk)->has(key_of(1));
  EXPECT_TRUE(disk.files.contains(unfinished)) << "its process may be at it";
  disk.now_ns += int64_t{601} * 1'000'000'000;
  (void)open_on(disk)->has(key_of(1));
  EXPECT_FALSE(disk.files.contains(unfinished));
}

// Random operations of two processes with every operation failing now and then, a disk that runs
// full, files that are cut or overwritten as a power cut leaves them, and restarts: what is read is
// what was written, or nothing.
class Storm {
 public:
  explicit Storm(uint64_t seed) : state_(seed * 2 + 1) {
    disk_.room_bytes = 30'000;
    restart();
  }

  void step() {
    TierStore& store = *stores_[below(2)];
    const uint64_t number = below(60);
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        (void)store.write(key_of(number), blob_of(number));
        break;
      case 3:
      case 4:
      case 5:
        if (const auto found = store.read(key_of(number), 200)) {
          EXPECT_EQ(found, blob_of(number));
          ++found_;
        }
        break;
      case 6:
        if (below(4) == 0) damage();
        disk_.now_ns += int64_t{below(60)} * 1'000'000'000;
        break;
      default:
        if (below(50) == 0) restart();
        break;
    }
  }
  uint64_t found() const { return found_; }

 private:
  uint32_t below(uint32_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % bound);
  }
  // Without the end, or with zeros where data never reached the disk.
  void damage() {
    if (disk_.files.empty()) return;
    auto file = disk_.files.begin();
    std::advance(file, below(static_cast<uint32_t>(disk_.files.size())));
    std::vector<std::byte>& bytes = file->second.bytes;
    if (bytes.empty()) return;
    const uint32_t from = below(static_cast<uint32_t>(bytes.size()));
    if (below(2) == 0) {
      bytes.resize(from);
    } else {
      std::fill(bytes.begin() + from, bytes.end(), std::byte{0});
    }
  }
  void restart() {
    stores_.clear();
    for (int i = 0; i < 2; ++i) {
      stores_.push_back(open_on(disk_, 8'000 + 4'000 * below(4), [this](const std::string& what) {
        return what != "make_folder" && below(20) == 0;
      }));
    }
  }

  uint64_t state_;
  MemoryDisk disk_;
  std::vector<std::unique_ptr<DiskStore>> stores_;
  uint64_t found_ = 0;
};

TEST(DiskStore, never_gives_what_was_not_written_whatever_fails) {
  constexpr uint64_t kSeeds = 10, kOperations = 2'000;
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm storm(seed);
    for (uint64_t i = 0; i < kOperations && !::testing::Test::HasFailure(); ++i) storm.step();
    found += storm.found();
  }
  EXPECT_GT(found, kOperations) << "reading is to find something";
}

// Every operation fails from some point of a write on: nothing is there, or all of it.
TEST(DiskStore, is_whole_after_a_fault_at_each_operation) {
  for (int failing = 0; failing < 6; ++failing) {
    MemoryDisk disk;
    int operations = 0;
    auto store = open_on(disk, 1 << 20, [&](const std::string&) { return operations++ > failing; });
    (void)store->write(key_of(1), blob_of(1));
    auto next = open_on(disk);
    const auto found = next->read(key_of(1), 200);
    if (found) {
      EXPECT_EQ(found, blob_of(1));
    }
    EXPECT_TRUE(next->write(key_of(1), blob_of(1)).ok());
    expect_all(*next, 1, 2);
  }
}

}  // namespace
}  // namespace tenon
