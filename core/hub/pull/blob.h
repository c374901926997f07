// One file's bytes in the cache: brought under another name, looked at, and then given their own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/hub/model_name.h"
#include "core/hub/pull/endpoint.h"

namespace tenon::hub {

// Where the bytes of a model lie: <cache>/models--…, and its locks.
struct BlobPlace {
  std::string model_folder;
  std::string lock_folder;

  std::string blob(const RemoteFile& file) const { return model_folder + "/blobs/" + file.digest; }
  // What came so far. Another run goes on there, and so do older programs of the hub.
  std::string unfinished(const RemoteFile& file) const { return blob(file) + ".incomplete"; }
};

// Bytes of `file` that need not be brought any more.
uint64_t bytes_there(const BlobPlace& place, const RemoteFile& file);

// Called with the bytes of this file that are there so far.
using BlobProgress = std::function<void(uint64_t bytes)>;

// Brings the file unless it is there, under the lock that other programs of the hub take as well,
// which it waits for. A connection that is lost is made anew, and goes on where it ended. Errors:
// those of Endpoint::read_file; failed (disk, connection, bytes that are not those of the digest:
// they are removed).
Status bring_blob(Endpoint& endpoint, const ModelName& name, const std::string& commit,
                  const RemoteFile& file, const BlobPlace& place, const BlobProgress& progress);

}  // namespace tenon::hub
