// The tier in a folder: a file for each entry (docs/formats/kv-files.md), which other processes,
// now or later, find as well.
//
// Nothing is locked: a file appears by being renamed, and whoever reads it holds it against its
// checksums. What is damaged, cut or gone counts as never written.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/tiers/file_layer.h"
#include "core/tiers/tier_store.h"

namespace tenon {

class DiskStore final : public TierStore {
 public:
  // The folder is made where there is none. `world` as in root_digest. Errors: failed (no folder
  // can be made there).
  static Result<std::unique_ptr<DiskStore>> open(const std::string& folder, uint64_t quota_bytes,
                                                 const std::string& world,
                                                 std::unique_ptr<FileLayer> files);

  std::string_view kind() const override { return "disk"; }
  bool has(const KvKey& key) override;
  SharedBlob read(const KvKey& key, uint64_t bytes) override;
  void spare_processor(bool spares) override { spares_processor_ = spares; }
  Status write(const KvKey& key, const SharedBlob& blob) override;
  // While one file is checked, the disk has the next ones to read.
  void look_ahead(std::span<const KvWanted> wanted) override;
  KvStoreTotals totals() const override;

 private:
  DiskStore(std::string folder, uint64_t quota_bytes, const std::string& world,
            std::unique_ptr<FileLayer> files);
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<FileEntry> look_around();
  void forget(const std::string& name);
  void begin_after(const KvKey& key);
  void make_room(uint64_t bytes);
  Status write_beside(const std::string& name, std::span<const std::span<const std::byte>> parts);
  void describe_world();
  void give_up_for_a_while(const Status& why);
  template <typename Change>
  void count(Change change) {
    const std::lock_guard lock(mutex_);
    change(totals_);
  }

  const std::string folder_;
  const uint64_t quota_bytes_;
  const std::string world_;
  const ContentDigest world_digest_;
  const std::unique_ptr<FileLayer> files_;
  // A file by its name. Whether this process wrote it, or read it as it was written: else it is
  // written again by whoever computed it, for it may be damaged.
  struct Known {
    uint64_t bytes = 0;
    bool sound = false;
  };
  std::unordered_map<std::string, Known> known_;
  bool looked_around_ = false;
  bool spares_processor_ = false;
  uint64_t held_bytes_ = 0;       // of `known_`, and of what processes are at or never finished
  uint64_t written_bytes_ = 0;    // since it looked around
  std::vector<KvWanted> coming_;  // what is read next, most likely
  size_t next_ = 0;               // of it, what comes after what was read last
  size_t begun_ = 0;              // … and after what the disk was told of
  uint64_t beside_ = 0;           // files written, for their names before they are renamed
  int64_t resting_until_ns_ = 0;
  mutable std::mutex mutex_;
  KvStoreTotals totals_;
};

}  // namespace tenon
