// What <tenon/extensions/kv_store.h> promises, by random requests against a model of what was put.
#include <tenon/extensions/kv_store.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/watch/guarded_memory.h"
#include "core/contract/checked_kv_store.h"

namespace tenon {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kPatienceNs = 10 * kSecondNs;  // the host's own is far shorter
constexpr uint32_t kKeys = 24;

// A store may still have what an earlier case put, so each has keys of its own.
enum class Keys : uint64_t { put_and_got, answers, apart, rooms, destroyed, usage, exercise };
uint64_t keys_of(Keys which, uint64_t seed) {
  return seed * 16 + static_cast<uint64_t>(which);
}

// The same key in every run with that seed, and the only bytes that lie under it.
KvStoreKey key_of(uint64_t seed, uint32_t number) {
  CaseRandom random(seed * 1000 + number);
  KvStoreKey key;
  for (uint8_t& byte : key.content) byte = static_cast<uint8_t>(random.next());
  key.group = number % 3;
  return key;
}
std::vector<std::byte> value_of(uint64_t seed, uint32_t number, uint64_t bytes) {
  CaseRandom random(seed * 1000 + number + 500);
  std::vector<std::byte> value(bytes);
  for (std::byte& byte : value) byte = static_cast<std::byte>(random.next());
  return value;
}
uint64_t size_of(uint32_t number) {
  constexpr uint64_t kSizes[] = {1, 2, 129, 4096, 4097, 65536, 70001, 1 << 20};
  return kSizes[number % std::size(kSizes)];
}

KvStoreRequest request(KvStoreVerb verb, const KvStoreKey& key) {
  KvStoreRequest made;
  made.verb = verb;
  made.key = key;
  return made;
}
KvStoreRequest put(const KvStoreKey& key, std::span<const std::byte> value) {
  KvStoreRequest made = request(KvStoreVerb::put, key);
  made.value = value;
  return made;
}
KvStoreRequest get(const KvStoreKey& key, std::span<std::byte> room) {
  KvStoreRequest made = request(KvStoreVerb::get, key);
  made.room = room;
  return made;
}

struct Answered {
  StatusCode code = StatusCode::ok;
  uint64_t bytes = 0;
};

// A store, and what was asked of it.
class Asker {
 public:
  static Result<std::unique_ptr<Asker>> make(Subject& subject) {
    auto made = std::make_unique<Asker>();
    TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<KvStore>());
    made->store_ =
        std::make_unique<CheckedKvStore>(*made->plugin_, subject.name(), subject.checks());
    return made;
  }

  KvStore& store() { return *store_; }
  size_t unanswered() const { return store_->unanswered(); }

  Status submit(std::vector<KvStoreRequest>& requests) {
    for (KvStoreRequest& one : requests) one.id = ++last_id_;
    return store_->submit(requests);
  }
  // Up to `room` answers at a time, until all are there.
  Status collect_all(uint32_t room = 16) {
    std::vector<KvStoreAnswer> answers(room);
    WallClock clock;
    const int64_t until_ns = clock.now_ns() + kPatienceNs;
    while (unanswered() > 0) {
      if (clock.now_ns() > until_ns) {
        return failed(std::to_string(unanswered()) + " requests have no answer after 10 s");
      }
      KvStoreAnswersOut out{answers, 0};
      TENON_RETURN_IF_ERROR(store_->collect(kSecondNs, out));
      for (const KvStoreAnswer& answer : std::span(answers).first(out.count)) {
        answered_[answer.id] = {answer.status.code(), answer.bytes};
        const bool is_plain = answer.status.ok() || answer.status.code() == StatusCode::not_found;
        if (!is_plain && fault_.empty()) fault_ = message_of(answer.status);
      }
    }
    return {};
  }
  Result<Answered> ask(KvStoreRequest one) {
    std::vector<KvStoreRequest> requests = {one};
    TENON_RETURN_IF_ERROR(submit(requests));
    TENON_RETURN_IF_ERROR(collect_all());
    return answered_.at(last_id_);
  }
  Status forget(uint64_t seed, uint32_t keys) {
    std::vector<KvStoreRequest> requests;
    for (uint32_t i = 0; i < keys; ++i) {
      requests.push_back(request(KvStoreVerb::remove, key_of(seed, i)));
    }
    TENON_RETURN_IF_ERROR(submit(requests));
    return collect_all();
  }
  const Answered& answer_to(uint64_t id) const { return answered_.at(id); }
  // The first error that a store gave which is nobody's promise to have none of; empty: there was
  // none.
  const std::string& fault() const { return fault_; }

 private:
  PluginInstance<KvStore> plugin_;
  std::unique_ptr<CheckedKvStore> store_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Answered> answered_;
  std::string fault_;
};

Finding of_error(const Status& status) {
  return broke(message_of(status));
}

// A store that cannot be made with these options has nothing to show.
template <typename Body>
Finding with_store(Subject& subject, Body body) {
  auto asker = Asker::make(subject);
  if (!asker.ok()) return skipped(message_of(asker.status()));
  const Result<Finding> found = body(**asker);
  if (!found.ok()) return of_error(found.status());
  if (found->verdict == CaseVerdict::pass && !(*asker)->fault().empty()) {
    return {CaseVerdict::warn, "it answered with an error: " + (*asker)->fault()};
  }
  return *found;
}

std::string about(uint32_t number, uint64_t bytes) {
  return "of key " + std::to_string(number) + ", under which " + std::to_string(bytes) +
         " bytes were put";
}

// What a `get` gave: nothing, or all of what was put.
Finding check_got(const Answered& answer, uint32_t number, const std::vector<std::byte>& value,
                  std::span<const std::byte> room) {
  if (answer.code != StatusCode::ok) return {};
  if (answer.bytes != value.size()) {
    return broke("get " + about(number, value.size()) + " says " + std::to_string(answer.bytes) +
                 " bytes");
  }
  if (room.size() < value.size()) return {};
  if (std::memcmp(room.data(), value.data(), value.size()) != 0) {
    return broke("get " + about(number, value.size()) + " gives other bytes");
  }
  return {};
}

Finding gives_what_was_put(Subject& subject) {
  return with_store(subject, [&](Asker& asker) -> Result<Finding> {
    const uint64_t seed = keys_of(Keys::put_and_got, subject.seed());
    TENON_RETURN_IF_ERROR(asker.forget(seed, kKeys));
    CaseRandom random(seed);
    std::vector<bool> is_put(kKeys);
    uint32_t found = 0;
    for (uint32_t i = 0; i < 60 * subject.effort(); ++i) {
      const uint32_t number = random.below(kKeys);
      const KvStoreKey key = key_of(seed, number);
      const std::vector<std::byte> value = value_of(seed, number, size_of(number));
      const uint32_t what = random.below(8);
      if (what == 0) {
        TENON_ASSIGN_OR_RETURN(const Answered removed,
                               asker.ask(request(KvStoreVerb::remove, key)));
        if (removed.code == StatusCode::ok) is_put[number] = false;
      } else if (what < 4) {
        TENON_RETURN_IF_ERROR(asker.ask(put(key, value)).take_status());
        is_put[number] = true;
      } else {
        std::vector<std::byte> room(value.size() + random.below(3));
        TENON_ASSIGN_OR_RETURN(const Answered got, asker.ask(get(key, room)));
        if (got.code == StatusCode::ok && !is_put[number]) {
          return broke("get of a key that was removed, or never put, finds something");
        }
        const Finding finding = check_got(got, number, value, room);
        if (finding.verdict != CaseVerdict::pass) return finding;
        found += got.code == StatusCode::ok;
      }
    }
    for (uint32_t number = 0; number < 6; ++number) {
      const KvStoreKey key = key_of(seed, number);
      const std::vector<std::byte> value = value_of(seed, number, size_of(number));
      TENON_RETURN_IF_ERROR(asker.ask(put(key, value)).take_status());
      TENON_ASSIGN_OR_RETURN(const Answered removed, asker.ask(request(KvStoreVerb::remove, key)));
      std::vector<std::byte> room(value.size());
      TENON_ASSIGN_OR_RETURN(const Answered got, asker.ask(get(key, room)));
      if (removed.code == StatusCode::ok && got.code == StatusCode::ok) {
        return broke("get of a key that was removed finds something");
      }
    }
    if (found == 0) return not_exercised("no get ever found anything");
    return Finding();
  });
}

Finding answers_each_once(Subject& subject) {
  return with_store(subject, [&](Asker& asker) -> Result<Finding> {
    const uint64_t seed = keys_of(Keys::answers, subject.seed());
    CaseRandom random(seed);
    for (uint32_t round = 0; round < subject.effort(); ++round) {
      std::vector<KvStoreRequest> requests;
      std::vector<std::vector<std::byte>> values, rooms;
      for (uint32_t i = 0; i < 40 + random.below(200); ++i) {
        const uint32_t number = random.below(kKeys);
        const KvStoreKey key = key_of(seed, number);
        const auto verb = static_cast<KvStoreVerb>(random.below(4));
        if (verb == KvStoreVerb::put) {
          requests.push_back(put(key, values.emplace_back(value_of(seed, number, 300))));
        } else if (verb == KvStoreVerb::get) {
          requests.push_back(get(key, rooms.emplace_back(300)));
        } else {
          requests.push_back(request(verb, key));
        }
      }
      TENON_RETURN_IF_ERROR(asker.submit(requests));
      TENON_RETURN_IF_ERROR(asker.collect_all(1 + random.below(5)));
    }
    // Nobody is to be waited for: whoever does hangs here.
    KvStoreAnswer answer;
    KvStoreAnswersOut out{{&answer, 1}, 0};
    TENON_RETURN_IF_ERROR(asker.store().collect(3600 * kSecondNs, out));
    std::vector<KvStoreRequest> none;
    TENON_RETURN_IF_ERROR(asker.submit(none));
    return Finding();
  });
}

Finding tells_keys_apart(Subject& subject) {
  return with_store(subject, [&](Asker& asker) -> Result<Finding> {
    const uint64_t seed = keys_of(Keys::apart, subject.seed());
    std::vector<KvStoreKey> keys = {key_of(seed, 0)};
    for (const size_t byte : {0, 7, 15, 16, 31}) {
      keys.push_back(keys[0]);
      keys.back().content[byte] ^= 1;
    }
    for (const GroupId group : {1u, 0x100u, 0x10000u}) {
      keys.push_back(keys[0]);
      keys.back().group ^= group;
    }
    keys.push_back(keys[0]);
    std::ranges::fill(keys.back().content, uint8_t{0});
    for (uint32_t i = 0; i < keys.size(); ++i) {
      TENON_RETURN_IF_ERROR(asker.ask(request(KvStoreVerb::remove, keys[i])).take_status());
    }
    uint32_t found = 0;
    for (uint32_t i = 0; i < keys.size(); ++i) {
      const std::vector<std::byte> value = value_of(seed, i, 50 + i);
      TENON_RETURN_IF_ERROR(asker.ask(put(keys[i], value)).take_status());
    }
    for (uint32_t i = 0; i < keys.size(); ++i) {
      const std::vector<std::byte> value = value_of(seed, i, 50 + i);
      std::vector<std::byte> room(value.size());
      TENON_ASSIGN_OR_RETURN(const Answered got, asker.ask(get(keys[i], room)));
      const Finding finding = check_got(got, i, value, room);
      if (finding.verdict != CaseVerdict::pass) {
        return broke(finding.what +
                     " – keys that differ in one bit, or in their group, are taken "
                     "for one");
      }
      found += got.code == StatusCode::ok;
    }
    if (found == 0) return not_exercised("no get ever found anything");
    return Finding();
  });
}

Finding keeps_to_the_room(Subject& subject) {
  return with_store(subject, [&](Asker& asker) -> Result<Finding> {
    const uint64_t seed = keys_of(Keys::rooms, subject.seed());
    uint32_t found = 0;
    for (uint32_t i = 0; i < 6; ++i) {
      const KvStoreKey key = key_of(seed, i);
      const std::vector<std::byte> value = value_of(seed, i, size_of(i));
      const GuardedMemory lent = GuardedMemory::copy_of(std::span<const std::byte>(value));
      TENON_RETURN_IF_ERROR(
          asker.ask(put(key, {lent.as<std::byte>(), value.size()})).take_status());
      for (const uint64_t less : {uint64_t{0}, uint64_t{1}, uint64_t{value.size()}}) {
        const GuardedMemory room(value.size() - less);
        const std::span<std::byte> bytes(room.as<std::byte>(), value.size() - less);
        const std::vector<std::byte> before(bytes.begin(), bytes.end());
        TENON_ASSIGN_OR_RETURN(const Answered got, asker.ask(get(key, bytes)));
        if (!room.intact()) return broke("get writes beside the room that it was given");
        const Finding finding = check_got(got, i, value, bytes);
        if (finding.verdict != CaseVerdict::pass) return finding;
        if (less > 0 && !std::ranges::equal(before, bytes)) {
          return broke("get of a value that is larger than the room writes into it");
        }
        found += got.code == StatusCode::ok;
      }
    }
    if (found == 0) return not_exercised("no get ever found anything");
    return Finding();
  });
}

// The memory of what was asked is gone as soon as the store is: whoever still writes crashes.
Finding ends_with_destroy(Subject& subject) {
  for (uint32_t round = 0; round < 4 * subject.effort(); ++round) {
    std::vector<GuardedMemory> memory;
    auto asker = Asker::make(subject);
    if (!asker.ok()) return skipped(message_of(asker.status()));
    std::vector<KvStoreRequest> requests;
    for (uint32_t i = 0; i < 24; ++i) {
      const KvStoreKey key = key_of(keys_of(Keys::destroyed, subject.seed()), i / 2);
      const GuardedMemory& lent = memory.emplace_back(70001);
      if (i % 2 == 0) {
        requests.push_back(put(key, {lent.as<std::byte>(), 70001}));
      } else {
        requests.push_back(get(key, {lent.as<std::byte>(), 70001}));
      }
    }
    if (const Status status = (*asker)->submit(requests); !status.ok()) return of_error(status);
    asker->reset();
    memory.clear();
  }
  // Whoever is late has some time left to show it.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return {};
}

Finding tells_its_usage_to_anybody(Subject& subject) {
  return with_store(subject, [&](Asker& asker) -> Result<Finding> {
    const uint64_t seed = keys_of(Keys::usage, subject.seed());
    std::atomic<bool> ends = false;
    std::jthread other([&] {
      while (!ends) (void)asker.store().usage();
    });
    Status status;
    for (uint32_t i = 0; i < 20 * subject.effort() && status.ok(); ++i) {
      const uint32_t number = i % kKeys;
      const std::vector<std::byte> value = value_of(seed, number, size_of(number));
      status = asker.ask(put(key_of(seed, number), value)).take_status();
    }
    ends = true;
    other.join();
    if (!status.ok()) return status;
    return Finding();
  });
}

}  // namespace

Result<Transcript> exercise_kv_store(Subject& subject, uint64_t of) {
  const uint64_t seed = keys_of(Keys::exercise, of);
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Asker> asker, Asker::make(subject));
  TENON_RETURN_IF_ERROR(asker->forget(seed, kKeys));
  Transcript transcript;
  for (uint32_t i = 0; i < kKeys; ++i) {
    const std::vector<std::byte> value = value_of(seed, i, size_of(i));
    TENON_RETURN_IF_ERROR(asker->ask(put(key_of(seed, i), value)).take_status());
    std::vector<std::byte> room(value.size());
    TENON_ASSIGN_OR_RETURN(const Answered got, asker->ask(get(key_of(seed, i / 2), room)));
    transcript.push_back("get " + std::to_string(i) + " has the code " +
                         std::to_string(static_cast<int>(got.code)) + " and " +
                         std::to_string(got.bytes) + " bytes");
  }
  TENON_RETURN_IF_ERROR(asker->forget(seed, kKeys));
  return transcript;
}

CaseList kv_store_cases() {
  constexpr std::string_view kOf = "kv_store", kHeader = "extensions/kv_store.h";
  return {
      {"kv_store.what_was_put", kOf, kHeader,
       "that it gives back what was put under that key, or says that there is nothing",
       &gives_what_was_put},
      {"kv_store.answers", kOf, kHeader,
       "to answer every request that it took exactly once, in any order", &answers_each_once},
      {"kv_store.keys", kOf, kHeader, "so equal keys mean equal bytes", &tells_keys_apart},
      {"kv_store.room", kOf, kHeader,
       "A value that is larger is not copied, not even its beginning", &keeps_to_the_room},
      {"kv_store.destroyed", kOf, kHeader,
       "to touch a request's memory only between `submit` and the answer, and no memory of "
       "requests "
       "once it is destroyed, answered or not.",
       &ends_with_destroy},
      {"kv_store.usage", kOf, kHeader, "What is held. [any]", &tells_its_usage_to_anybody},
  };
}

}  // namespace tenon
