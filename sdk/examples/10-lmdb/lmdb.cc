// A tier of K/V in an LMDB database: one file that several processes may share, and that is there
// again tomorrow.
#include <lmdb.h>
#include <tenon/sdk/kv_store/adaptor.h>
#include <tenon/sdk/plugin.h>

#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace tenon;

struct Options {
  std::string_view path;
  int64_t memory = 0;
};
constexpr OptionSpec kOptions[] = {
    sdk::path<&Options::path>("path", "", "folder of the database, which must be there"),
    sdk::bytes<&Options::memory>("memory", int64_t{16} << 30, 1 << 20, int64_t{1} << 40,
                                 "how much is kept; then the database begins anew"),
};
TENON_CHECK_OPTIONS(kOptions);

// LMDB's errors become exceptions, and those answers of the store.
int check(int error) {
  if (error != 0 && error != MDB_NOTFOUND) {
    throw std::runtime_error(std::string("LMDB: ") + mdb_strerror(error));
  }
  return error;
}

class Transaction {
 public:
  explicit Transaction(MDB_env* environment, unsigned flags = 0) {
    check(mdb_txn_begin(environment, nullptr, flags, &made_));
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (made_ != nullptr) mdb_txn_abort(made_);
  }
  void commit() { check(mdb_txn_commit(std::exchange(made_, nullptr))); }
  MDB_txn* get() const { return made_; }

 private:
  MDB_txn* made_ = nullptr;
};

class Lmdb {
 public:
  static constexpr uint32_t kThreads = 4;  // LMDB lets readers run next to each other

  Lmdb(const HostServices&, const PipelineFacts&, const Options& options)
      : most_bytes_(static_cast<uint64_t>(options.memory)) {
    if (options.path.empty()) throw std::runtime_error("path is not set; name an empty folder");
    try {
      check(mdb_env_create(&environment_));
      // Room for what is written while what it replaces is still there.
      check(mdb_env_set_mapsize(environment_, most_bytes_ * 2 + (64 << 20)));
      const std::string path(options.path);
      check(mdb_env_open(environment_, path.c_str(), MDB_NOMETASYNC | MDB_NOTLS, 0644));
      Transaction begun(environment_);
      check(mdb_dbi_open(begun.get(), nullptr, 0, &entries_));
      begun.commit();
    } catch (...) {
      mdb_env_close(environment_);
      throw;
    }
  }
  ~Lmdb() { mdb_env_close(environment_); }

  void put(const KvStoreKey& key, std::span<const std::byte> value) {
    if (value.size() > most_bytes_) return;
    Transaction change(environment_);
    MDB_stat sizes;
    check(mdb_stat(change.get(), entries_, &sizes));
    const uint64_t pages = sizes.ms_branch_pages + sizes.ms_leaf_pages + sizes.ms_overflow_pages;
    held_bytes_ = pages * sizes.ms_psize;
    if (held_bytes_ + value.size() > most_bytes_) {
      evicted_bytes_ += held_bytes_.exchange(0);
      check(mdb_drop(change.get(), entries_, 0));
    }
    auto bytes = bytes_of(key);
    MDB_val name = {bytes.size(), bytes.data()};
    MDB_val data = {value.size(), const_cast<std::byte*>(value.data())};
    check(mdb_put(change.get(), entries_, &name, &data, 0));
    change.commit();
  }

  bool get(const KvStoreKey& key, sdk::StoredValue& out) {
    const Transaction reads(environment_, MDB_RDONLY);
    MDB_val data;
    if (!find(reads, key, data)) return false;
    out.take({static_cast<const std::byte*>(data.mv_data), data.mv_size});
    return true;
  }

  bool has(const KvStoreKey& key) {
    const Transaction reads(environment_, MDB_RDONLY);
    MDB_val data;
    return find(reads, key, data);
  }

  void remove(const KvStoreKey& key) {
    Transaction change(environment_);
    auto bytes = bytes_of(key);
    MDB_val name = {bytes.size(), bytes.data()};
    check(mdb_del(change.get(), entries_, &name, nullptr));
    change.commit();
  }

  KvStoreUsage usage() const { return {held_bytes_, evicted_bytes_}; }

 private:
  static std::array<uint8_t, 36> bytes_of(const KvStoreKey& key) {
    std::array<uint8_t, 36> bytes;
    std::memcpy(bytes.data(), key.content, sizeof(key.content));
    std::memcpy(bytes.data() + sizeof(key.content), &key.group, sizeof(key.group));
    return bytes;
  }
  bool find(const Transaction& reads, const KvStoreKey& key, MDB_val& data) {
    auto bytes = bytes_of(key);
    MDB_val name = {bytes.size(), bytes.data()};
    return check(mdb_get(reads.get(), entries_, &name, &data)) == 0;
  }

  const uint64_t most_bytes_;
  MDB_env* environment_ = nullptr;
  MDB_dbi entries_ = 0;
  std::atomic<uint64_t> held_bytes_ = 0, evicted_bytes_ = 0;
};

constexpr PluginDescriptor kPlugin =
    sdk::descriptor<KvStore, Lmdb, Options>({.id = "example.lmdb",
                                             .version = "1.0.0",
                                             .summary = "keeps K/V in an LMDB database",
                                             .license = "Apache-2.0"},
                                            kOptions);

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin)
