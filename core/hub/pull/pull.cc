#include "core/hub/pull/pull.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/hub/cache.h"
#include "core/hub/pull/blob.h"
#include "core/hub/pull/endpoint.h"
#include "core/hub/pull/listing.h"
#include "core/hub/pull/snapshot.h"

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

Result<std::vector<RemoteFile>> wanted_files(const PullRequest& request,
                                             std::span<const RemoteFile> all) {
  const ModelName& name = request.name;
  if (!request.patterns.empty()) return files_that_match(all, request.patterns, name.repository);
  if (!name.file.empty()) return files_of_gguf(all, name.file, name.repository);
  return files_of_model(all, name.repository);
}

Result<BlobPlace> make_place(const std::string& repository) {
  const std::string cache = cache_folder(), own = folder_of(repository);
  BlobPlace place{.model_folder = cache + "/" + own, .lock_folder = cache + "/.locks/" + own};
  for (const std::string& folder : {place.model_folder + "/blobs", place.lock_folder}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return failed("cannot make " + path_in_quotes(folder) + ": " + error.message());
  }
  return place;
}

Status check_room(const std::string& folder, uint64_t needed_bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= needed_bytes) return {};
  return failed("what is missing of the model takes " + approximate_bytes(needed_bytes) +
                ", but the disk of " + path_in_quotes(folder) + " has " +
                approximate_bytes(space.available) +
                " free; make room, or set HF_HUB_CACHE to a folder elsewhere");
}

}  // namespace

Result<Pulled> pull(const PullRequest& request) {
  const ModelName& name = request.name;
  TENON_ASSIGN_OR_RETURN(Endpoint endpoint, Endpoint::open());
  Pulled out;
  TENON_ASSIGN_OR_RETURN(out.commit, endpoint.commit_of(name));
  TENON_ASSIGN_OR_RETURN(const std::vector<RemoteFile> all, endpoint.files_of(name, out.commit));
  TENON_ASSIGN_OR_RETURN(const std::vector<RemoteFile> files, wanted_files(request, all));
  TENON_ASSIGN_OR_RETURN(const BlobPlace place, make_place(name.repository));

  uint64_t there = 0;
  std::set<std::string> counted;  // the same bytes may have several names
  for (const RemoteFile& file : files) {
    if (!counted.insert(file.digest).second) continue;
    out.bytes += file.bytes;
    there += bytes_there(place, file);
  }
  out.files = files.size();
  out.brought_bytes = out.bytes - std::min(out.bytes, there);
  TENON_RETURN_IF_ERROR(check_room(place.model_folder, out.brought_bytes));

  for (const RemoteFile& file : files) {
    if (counted.erase(file.digest) == 0) continue;
    const uint64_t before = there - bytes_there(place, file);
    const auto progress = [&](uint64_t bytes) {
      if (request.progress) request.progress(before + bytes, out.bytes);
    };
    TENON_RETURN_IF_ERROR(bring_blob(endpoint, name, out.commit, file, place, progress));
    there = before + file.bytes;
  }
  TENON_RETURN_IF_ERROR(publish(place.model_folder, out.commit, name.revision, files));
  out.path = place.model_folder + "/snapshots/" + out.commit;
  if (!name.file.empty()) out.path += "/" + name.file;
  return out;
}

}  // namespace tenon::hub
