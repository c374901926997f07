// The tier that a plugin keeps (<tenon/extensions/kv_store.h>). What it is given to keep are whole
// files of the disk tier (docs/formats/kv-files.md), so that values are held against checksums, key
// and world when they come back.
//
// Reads are begun ahead of being asked for, writes go on in the background. A store that lets a
// request wait for seconds, or fails, rests for a while, and is asked nothing more until it owes no
// answer; one that breaks a promise is asked nothing any more.
#pragma once

#include <tenon/extensions/kv_store.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/clock.h"
#include "core/tiers/kv_file.h"
#include "core/tiers/tier_store.h"

namespace tenon {

class PluginStore final : public TierStore {
 public:
  // `name`: for people. `world` as in root_digest. `clock` outlives it.
  PluginStore(std::string name, std::shared_ptr<KvStore> store, const std::string& world,
              const Clock& clock);

  std::string_view kind() const override { return name_; }
  bool has(const KvKey& key) override;
  SharedBlob read(const KvKey& key, uint64_t bytes) override;
  Status write(const KvKey& key, const SharedBlob& blob) override;
  KvStoreTotals totals() const override;
  void look_ahead(std::span<const KvWanted> wanted) override;
  bool tend(int64_t wait_ns) override;

 private:
  struct Request {
    KvStoreVerb verb = KvStoreVerb::has;
    KvKey key;
    std::vector<std::byte> bytes;  // what is put, or the room of what is got
    int64_t since_ns = 0;
    bool is_wanted = true;  // somebody waits for its answer, or will
    bool is_answered = false;
    StatusCode code = StatusCode::ok;
    uint64_t value_bytes = 0;  // as it was answered
  };
  using Asked = std::unordered_map<KvKey, uint64_t, KvKeyHash>;

  bool is_usable();
  void add(KvStoreVerb verb, const KvKey& key, std::vector<std::byte> bytes);
  bool submit();
  void take_answers(int64_t wait_ns);
  void take_answer(const KvStoreAnswer& answer);
  bool await_some(int64_t since_ns);
  // The answer about `key`, which was asked for; nothing if none comes in time.
  std::optional<Request> answer_about(Asked& asked, const KvKey& key);
  // Asks for `key`, and for some of those after it that were announced.
  void ask_ahead(KvStoreVerb verb, const KvWanted& first);
  void forget_asked(Asked& asked);
  void rest(const std::string& why);
  void give_up(const Status& why);
  bool owes_answers() const;
  template <typename Change>
  void count(Change change) {
    const std::lock_guard lock(mutex_);
    change(totals_);
  }

  const std::string name_;
  const ContentDigest world_;
  const Clock& clock_;
  uint64_t last_id_ = 0;
  // By id, until their answers came and were used. The store borrows their bytes, so it goes first.
  std::unordered_map<uint64_t, Request> requests_;
  std::vector<uint64_t> unsent_;
  Asked looked_for_, begun_;                   // ids of has and get
  std::unordered_set<KvKey, KvKeyHash> kept_;  // what this process put, or found as it was put
  std::vector<KvWanted> ahead_;
  std::unordered_map<KvKey, size_t, KvKeyHash> places_;  // in `ahead_`
  uint64_t put_bytes_ = 0;                               // of puts without an answer
  int64_t heard_ns_ = 0;  // when something was asked while nothing was owed, or answered last
  int64_t resting_until_ns_ = 0;
  bool is_lost_ = false;
  mutable std::mutex mutex_;
  KvStoreTotals totals_;
  std::shared_ptr<KvStore> store_;
};

}  // namespace tenon
