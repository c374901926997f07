// Brings a model from the hub into the cache of this machine (core/hub/cache.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/hub/model_name.h"

namespace tenon::hub {

struct PullRequest {
  ModelName name;
  std::vector<std::string> patterns;  // of files, "*.gguf"; empty: what the model consists of
  // Called on the caller's thread: bytes of all wanted files that are there, and that there are.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct Pulled {
  std::string commit;
  std::string path;  // the snapshot, or the GGUF file of it that was named
  size_t files = 0;
  uint64_t bytes = 0;          // of all of them
  uint64_t brought_bytes = 0;  // of them, those that were not there yet
};

// What is visible in the cache is whole at any time: bytes come under other names, are held against
// their hashes, and a snapshot appears when all of its files are there. What came of a file before
// an error or a signal stays, and the next call goes on there. Waits for other programs that bring
// the same files. Errors: those of Endpoint and of the choice of files; failed, also where the disk
// has too little room.
Result<Pulled> pull(const PullRequest& request);

}  // namespace tenon::hub
