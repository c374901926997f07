#include "core/tiers/plugin_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>

#include "core/base/digest/sha256.h"
#include "core/base/log.h"
#include "core/tiers/host_store.h"
#include "core/tiers/tiers.h"

namespace tenon {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kBytes = 200;

KvKey key_of(uint64_t number) {
  return {sha256(std::as_bytes(std::span(&number, 1))), static_cast<GroupId>(number % 3)};
}
KvBlob blob_of(uint64_t number, size_t bytes = kBytes) {
  return KvBlob(bytes, static_cast<std::byte>(number * 31 + 1));
}

// A store that is asked now and answers when it is collected from, as far as the test lets it.
class FakeStore final : public KvStore {
 public:
  explicit FakeStore(VirtualClock& clock) : clock_(clock) {}

  Status submit(std::span<const KvStoreRequest> requests) noexcept override {
    if (refuses) return failed("the door is shut");
    submitted.push_back(requests.size());
    asked.insert(asked.end(), requests.begin(), requests.end());
    for (const KvStoreRequest& one : requests) put_bytes += one.value.size();
    most_put_bytes = std::max(most_put_bytes, put_bytes);
    return {};
  }
  Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept override {
    if (is_broken) return failed("the cable is out");
    out.count = 0;
    if (is_silent || asked.empty()) {
      clock_.advance(wait_ns);
      return {};
    }
    while (out.count < std::min<size_t>(out.answers.size(), most_answers) && !asked.empty()) {
      const KvStoreRequest one = asked.front();
      asked.pop_front();
      put_bytes -= one.value.size();
      KvStoreAnswer& answer = out.answers[out.count++];
      answer.id = one.id;
      answer.status = answer_to(one, answer.bytes);
    }
    return {};
  }
  KvStoreUsage usage() const noexcept override { return {entries.size() * kBytes, 7}; }

  std::map<std::pair<std::string, GroupId>, std::vector<std::byte>> entries;
  std::deque<KvStoreRequest> asked;
  std::vector<size_t> submitted;  // sizes of what was submitted at once
  std::function<bool(const KvStoreRequest&)> fails;
  size_t most_answers = 1000;
  uint64_t put_bytes = 0, most_put_bytes = 0;
  bool is_silent = false, is_broken = false, refuses = false;

 private:
  Status answer_to(const KvStoreRequest& one, uint64_t& bytes) {
    if (fails && fails(one)) return failed("it rains in");
    const std::pair key(std::string(reinterpret_cast<const char*>(one.key.content), 32),
                        one.key.group);
    if (one.verb == KvStoreVerb::put) {
      entries[key].assign(one.value.begin(), one.value.end());
      return {};
    }
    if (one.verb == KvStoreVerb::remove) {
      entries.erase(key);
      return {};
    }
    const auto found = entries.find(key);
    if (found == entries.end()) return Status::error(StatusCode::not_found, "nothing");
    if (one.verb == KvStoreVerb::get) {
      bytes = found->second.size();
      if (bytes <= one.room.size()) std::memcpy(one.room.data(), found->second.data(), bytes);
    }
    return {};
  }

  VirtualClock& clock_;
};

class PluginStores : public testing::Test {
 protected:
  PluginStores() { set_log_level(LogLevel::error); }  // what rests says so each time
  ~PluginStores() override { set_log_level(level_); }
  std::unique_ptr<PluginStore> open(const std::string& world = "world") {
    return std::make_unique<PluginStore>("fake", fake, world, clock);
  }
  void write(PluginStore& store, uint64_t first, uint64_t end) {
    for (uint64_t number = first; number < end; ++number) {
      EXPECT_TRUE(store.write(key_of(number), blob_of(number)).ok());
    }
    while (store.tend(kSecondNs)) {
    }
  }
  std::vector<KvWanted> wanted(uint64_t count) {
    std::vector<KvWanted> all;
    for (uint64_t number = 0; number < count; ++number) all.push_back({key_of(number), kBytes});
    return all;
  }

  VirtualClock clock;
  std::shared_ptr<FakeStore> fake = std::make_shared<FakeStore>(clock);

 private:
  const LogLevel level_ = log_level();
};

TEST_F(PluginStores, find_what_another_process_put) {
  write(*open(), 0, 5);
  const auto store = open();
  EXPECT_TRUE(store->has(key_of(3)));
  EXPECT_FALSE(store->has(key_of(9)));
  EXPECT_EQ(store->read(key_of(3), kBytes), blob_of(3));
  EXPECT_EQ(store->read(key_of(9), kBytes), std::nullopt);
  EXPECT_EQ(store->read(key_of(2), kBytes - 1), std::nullopt) << "of another size";
  EXPECT_EQ(store->kind(), "fake");
  EXPECT_EQ(store->totals().evicted_bytes, 7u);
}

TEST_F(PluginStores, believe_no_byte_of_what_comes_back) {
  write(*open(), 0, 4);
  auto entry = fake->entries.begin();
  (entry++)->second.back() ^= std::byte{1};
  (entry++)->second.front() ^= std::byte{1};
  (entry++)->second.resize(10);
  const auto store = open();
  uint64_t found = 0;
  for (uint64_t number = 0; number < 4; ++number) {
    const auto blob = store->read(key_of(number), kBytes);
    if (blob) {
      EXPECT_EQ(blob, blob_of(number));
    }
    found += blob.has_value();
  }
  while (store->tend(0)) {
  }
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(store->totals().damaged, 3u);
  EXPECT_EQ(fake->entries.size(), 1u) << "what was damaged is removed";
  EXPECT_EQ(open("another world")->read(key_of(1), kBytes), std::nullopt);
}

TEST_F(PluginStores, put_nothing_twice_and_again_what_was_lost) {
  const auto store = open();
  write(*store, 0, 3);
  write(*store, 0, 3);
  EXPECT_EQ(fake->submitted.size(), 3u);
  fake->entries.clear();
  EXPECT_EQ(store->read(key_of(1), kBytes), std::nullopt);
  write(*store, 1, 2);
  EXPECT_EQ(store->read(key_of(1), kBytes), blob_of(1));
}

TEST_F(PluginStores, are_asked_ahead_so_that_round_trips_are_few) {
  write(*open(), 0, 40);
  const auto store = open();
  fake->submitted.clear();
  store->look_ahead(wanted(40));
  for (uint64_t number = 0; number < 40; ++number) EXPECT_TRUE(store->has(key_of(number)));
  EXPECT_EQ(fake->submitted, std::vector<size_t>{40});
  fake->submitted.clear();
  fake->most_answers = 1;
  for (uint64_t number = 0; number < 40; ++number) {
    EXPECT_EQ(store->read(key_of(number), kBytes), blob_of(number));
    EXPECT_EQ(fake->asked.size(), std::min<uint64_t>(15, 39 - number)) << "reads are under way";
  }
  EXPECT_EQ(fake->submitted[0], 16u);
}

TEST_F(PluginStores, go_on_without_what_nobody_wants_any_more) {
  write(*open(), 0, 40);
  const auto store = open();
  fake->most_answers = 1;
  for (uint64_t round = 0; round < 10; ++round) {
    store->look_ahead(wanted(40));
    EXPECT_EQ(store->read(key_of(round), kBytes), blob_of(round));
  }
  store->look_ahead({});
  while (store->tend(0)) {
  }
  EXPECT_TRUE(fake->asked.empty());
  EXPECT_EQ(store->read(key_of(39), kBytes), blob_of(39));
}

TEST_F(PluginStores, rest_after_silence_until_nothing_is_owed) {
  write(*open(), 0, 4);
  const auto store = open();
  fake->is_silent = true;
  const int64_t began_ns = clock.now_ns();
  EXPECT_EQ(store->read(key_of(0), kBytes), std::nullopt);
  EXPECT_EQ(clock.now_ns() - began_ns, 2 * kSecondNs);
  EXPECT_FALSE(store->has(key_of(0)));
  EXPECT_FALSE(store->write(key_of(9), blob_of(9)).ok());
  EXPECT_FALSE(store->tend(kSecondNs)) << "nobody waits for it";
  EXPECT_EQ(clock.now_ns() - began_ns, 2 * kSecondNs) << "and it was asked nothing";
  clock.advance(60 * kSecondNs);
  EXPECT_FALSE(store->has(key_of(0))) << "an answer is owed";
  fake->is_silent = false;  // the late answer finds its room
  EXPECT_TRUE(store->has(key_of(0)));
  EXPECT_EQ(store->read(key_of(0), kBytes), blob_of(0));
  EXPECT_EQ(store->totals().faults, 1u);
}

TEST_F(PluginStores, wait_for_writes_as_long_as_some_are_answered) {
  const auto store = open();
  for (uint64_t number = 0; number < 8; ++number) {
    EXPECT_TRUE(store->write(key_of(number), blob_of(number)).ok());
  }
  fake->most_answers = 1;
  for (uint64_t number = 0; number < 8; ++number) {
    clock.advance(kSecondNs);
    EXPECT_EQ(store->tend(0), number < 7) << number;
  }
  EXPECT_EQ(store->totals().faults, 0u);
  EXPECT_TRUE(store->write(key_of(8), blob_of(8)).ok());
  fake->is_silent = true;
  EXPECT_TRUE(store->tend(kSecondNs));
  EXPECT_TRUE(store->tend(kSecondNs + 1));
  EXPECT_FALSE(store->tend(kSecondNs));
  EXPECT_EQ(store->totals().faults, 1u);
}

TEST_F(PluginStores, rest_after_a_fault_and_try_again) {
  const auto store = open();
  write(*store, 0, 2);
  fake->fails = [](const KvStoreRequest&) { return true; };
  EXPECT_EQ(store->read(key_of(0), kBytes), std::nullopt);
  fake->fails = nullptr;
  EXPECT_EQ(store->read(key_of(0), kBytes), std::nullopt) << "it rests";
  clock.advance(31 * kSecondNs);
  EXPECT_EQ(store->read(key_of(1), kBytes), blob_of(1));
  fake->refuses = true;
  EXPECT_FALSE(store->write(key_of(5), blob_of(5)).ok());
  fake->refuses = false;
  clock.advance(31 * kSecondNs);
  EXPECT_TRUE(store->write(key_of(5), blob_of(5)).ok());
  EXPECT_EQ(store->totals().faults, 2u);
}

TEST_F(PluginStores, are_not_used_any_more_once_they_fail_to_answer_at_all) {
  const auto store = open();
  write(*store, 0, 2);
  fake->is_broken = true;
  EXPECT_EQ(store->read(key_of(0), kBytes), std::nullopt);
  fake->is_broken = false;
  clock.advance(1000 * kSecondNs);
  EXPECT_FALSE(store->has(key_of(0)));
  EXPECT_FALSE(store->write(key_of(7), blob_of(7)).ok());
  EXPECT_FALSE(store->tend(0));
}

TEST_F(PluginStores, have_a_bounded_amount_on_its_way) {
  const auto store = open();
  fake->most_answers = 1;
  constexpr size_t kLarge = size_t{20} << 20;
  for (uint64_t number = 0; number < 6; ++number) {
    EXPECT_TRUE(store->write(key_of(number), blob_of(number, kLarge)).ok());
  }
  EXPECT_GT(fake->most_put_bytes, 2 * kLarge);
  EXPECT_LE(fake->most_put_bytes, uint64_t{64} << 20);
}

TEST_F(PluginStores, give_what_was_written_or_nothing_whatever_happens) {
  std::mt19937_64 random(4711);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  fake->fails = [&](const KvStoreRequest&) { return below(2000) == 0; };
  auto store = open();
  uint64_t found = 0;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t number = below(50);
    switch (below(12)) {
      case 0:
        fake->is_silent = below(60) == 0;
        fake->most_answers = 1 + below(20);
        break;
      case 1:
        if (!fake->entries.empty() && below(8) == 0) {
          auto entry = fake->entries.begin();
          std::advance(entry, below(fake->entries.size()));
          entry->second[below(entry->second.size())] ^= static_cast<std::byte>(1 << below(8));
        }
        break;
      case 2:
        if (below(10) == 0) fake->entries.clear();
        break;
      case 3:
        clock.advance(static_cast<int64_t>(below(20)) * kSecondNs);
        break;
      case 4:
        store->look_ahead(wanted(below(60)));
        break;
      case 5:
        (void)store->tend(static_cast<int64_t>(below(1000)));
        break;
      case 6:
        (void)store->has(key_of(number));
        break;
      case 7:
        if (below(200) == 0) {
          fake->asked.clear();  // of a store that is closed nothing is answered any more
          store = open();
        }
        break;
      case 8:
      case 9:
        (void)store->write(key_of(number), blob_of(number));
        break;
      default:
        if (const auto blob = store->read(key_of(number), kBytes)) {
          ASSERT_EQ(blob, blob_of(number)) << i;
          ++found;
        }
    }
  }
  EXPECT_GT(found, 1000u);
}

TEST_F(PluginStores, are_a_tier_below_the_others) {
  TierWorld world;
  world.text = "world";
  world.groups = {{0, kBytes, false}, {1, kBytes, false}};
  std::vector<ContentDigest> contents(20);
  for (uint64_t i = 0; i < 20; ++i) contents[i] = key_of(i).content;
  const auto open_tiers = [&] {
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(std::make_unique<HostStore>(5 * kBytes));
    stores.push_back(open());
    return std::make_unique<Tiers>(world, std::move(stores), 1 << 20);
  };
  const auto expect_found = [&](Tiers& tiers) {
    const uint64_t id = tiers.seek(0, contents);
    tiers.settle();
    const auto found = tiers.take(id);
    ASSERT_EQ(found->end, 20u);
    for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(found->blocks[i][1], blob_of(100 + i));
  };
  {
    const auto tiers = open_tiers();
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_TRUE(tiers->put({contents[i], 0}, blob_of(i)));
      EXPECT_TRUE(tiers->put({contents[i], 1}, blob_of(100 + i)));
    }
    tiers->settle();
    EXPECT_EQ(fake->entries.size(), 40u);
    expect_found(*tiers);
  }
  const auto tomorrow = open_tiers();
  expect_found(*tomorrow);
  EXPECT_EQ(tomorrow->totals().stores[1].read_bytes, 40 * kBytes);
}

}  // namespace
}  // namespace tenon
