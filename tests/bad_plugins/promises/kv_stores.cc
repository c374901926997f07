// Stores of K/V that break one promise each.
#define SOUND_PLUGIN "sound_kv_store.h"
#include <chrono>
#include <thread>

#include "tests/bad_plugins/promises/wrong.h"

namespace {

using Sound = SoundStore;

struct ForgetsGroups : Sound {
  using Sound::Sound;
  static KvStoreKey of(KvStoreKey key) {
    key.group = 0;
    return key;
  }
  void put(const KvStoreKey& key, std::span<const std::byte> value) { Sound::put(of(key), value); }
  bool get(const KvStoreKey& key, sdk::StoredValue& out) { return Sound::get(of(key), out); }
  void remove(const KvStoreKey& key) { Sound::remove(of(key)); }
};
struct ChangesABit : Sound {
  using Sound::Sound;
  void put(const KvStoreKey& key, std::span<const std::byte> value) {
    std::vector<std::byte> changed(value.begin(), value.end());
    changed.back() ^= std::byte{1};
    Sound::put(key, changed);
  }
};
struct SaysMore : Sound {
  using Sound::Sound;
  bool get(const KvStoreKey& key, sdk::StoredValue& out) {
    const bool found = Sound::get(key, out);
    if (found) (void)out.room_for(out.bytes() + 1);
    return found;
  }
};
struct RemovesNothing : Sound {
  using Sound::Sound;
  void remove(const KvStoreKey&) {}
};

// The sound one, with something before or after its calls.
class Around : public KvStore {
 public:
  Around(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : sound_(host, facts, options) {}
  Status submit(std::span<const KvStoreRequest> requests) noexcept override {
    asked_ += requests.size();
    return sound_.submit(requests);
  }
  Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept override {
    Status status = sound_.collect(wait_ns, out);
    asked_ -= out.count;
    return status;
  }
  KvStoreUsage usage() const noexcept override { return sound_.usage(); }

 protected:
  size_t asked_ = 0;

 private:
  sdk::Adaptor<KvStore, Sound> sound_;
};
struct CopiesTheBeginning : Around {
  using Around::Around;
  Status submit(std::span<const KvStoreRequest> requests) noexcept override {
    for (const KvStoreRequest& one : requests) {
      if (!one.room.empty()) one.room[0] = std::byte{7};
    }
    return Around::submit(requests);
  }
};
struct WritesBehind : Around {
  using Around::Around;
  Status submit(std::span<const KvStoreRequest> requests) noexcept override {
    for (const KvStoreRequest& one : requests) {
      if (one.verb == KvStoreVerb::get) one.room.data()[one.room.size()] = std::byte{7};
    }
    return Around::submit(requests);
  }
};
struct AnswersTwice : Around {
  using Around::Around;
  Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept override {
    Status status = Around::collect(wait_ns, out);
    if (out.count == 0 || out.count == out.answers.size()) return status;
    out.answers[out.count++].id = out.answers[0].id;
    return status;
  }
};
struct LosesAnswers : Around {
  using Around::Around;
  Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept override {
    Status status = Around::collect(wait_ns, out);
    if (out.count > 0 && ++collected_ % 8 == 0) --out.count;
    return status;
  }
  uint32_t collected_ = 0;
};
struct WaitsForNobody : Around {
  using Around::Around;
  Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept override {
    if (asked_ == 0) std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns));
    return Around::collect(wait_ns, out);
  }
};
template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<KvStore, Class, Options>(id);
}
constexpr PluginDescriptor kWrong[] = {
    made<ForgetsGroups>("test.forgets_groups"),
    made<ChangesABit>("test.changes_a_bit"),
    made<SaysMore>("test.says_more"),
    made<RemovesNothing>("test.removes_nothing"),
    made<CopiesTheBeginning>("test.copies_the_beginning"),
    made<WritesBehind>("test.writes_behind"),
    made<AnswersTwice>("test.answers_twice"),
    made<LosesAnswers>("test.loses_answers"),
    made<WaitsForNobody>("test.waits_for_nobody"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6], &kWrong[7], &kWrong[8])
