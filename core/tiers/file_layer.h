// The few operations on files that the disk tier needs, so that tests can make each of them fail,
// cut a write short, or lose what was never brought to the disk.
//
// Threads: one thread calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/tiers/kv_blob.h"

namespace tenon {

struct FileEntry {
  std::string name;  // below the folder, with a sub-folder: "ab/abcd….kv"
  uint64_t bytes = 0;
  int64_t used_ns = 0;  // when it was written or touched last
};

class FileLayer {
 public:
  virtual ~FileLayer() = default;

  // Makes a folder and those above it; fine where it is there already.
  virtual Status make_folder(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // Up to `limit_bytes` of a file. Errors: not_found, failed.
  virtual Result<KvBlob> read(const std::string& path, uint64_t limit_bytes) = 0;
  // Likewise, in a third of the processor's time where the system's cache of pages does not have
  // the file, and without reading ahead.
  virtual Result<KvBlob> read_sparingly(const std::string& path, uint64_t limit_bytes) {
    return read(path, limit_bytes);
  }
  // A read of the file follows soon: the disk may begin with it. It may be gone by then.
  virtual void will_read(const std::string& /*path*/) {}
  // A new file of these parts, one after the other. Errors: failed; a part may be there then.
  virtual Status write(const std::string& path,
                       std::span<const std::span<const std::byte>> parts) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;
  // Counts as used just now.
  virtual void touch(const std::string& path) = 0;
  // Regular files in `path` and its sub-folders, in no order; as far as they can be read.
  virtual std::vector<FileEntry> list(const std::string& path) = 0;
  virtual int64_t now_ns() = 0;  // by the clock of FileEntry::used_ns
};

// This machine's files.
std::unique_ptr<FileLayer> make_file_layer();

}  // namespace tenon
