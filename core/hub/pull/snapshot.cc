#include "core/hub/pull/snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

Status fault(const fs::path& path, const std::error_code& error) {
  return failed("cannot write " + path_in_quotes(path.string()) + ": " + error.message());
}

// ../../blobs/HASH, from as deep as the file lies: the cache may be moved.
fs::path target_of(const RemoteFile& file) {
  fs::path target = "../../blobs";
  for (const char c : file.path) {
    if (c == '/') target = ".." / target;
  }
  return target / file.digest;
}

// A link is there from one moment to the next, also where another one was.
Status link_file(const fs::path& folder, const RemoteFile& file) {
  std::error_code error;
  const fs::path link = folder / file.path, target = target_of(file);
  fs::create_directories(link.parent_path(), error);
  if (error) return fault(link.parent_path(), error);
  if (fs::read_symlink(link, error) == target) return {};
  const fs::path made = link.string() + "." + std::to_string(::getpid()) + ".new";
  fs::remove(made, error);
  fs::create_symlink(target, made, error);
  if (error) return fault(made, error);
  fs::rename(made, link, error);
  return error ? fault(link, error) : Status();
}

Status link_all(const fs::path& folder, std::span<const RemoteFile> files) {
  std::vector<const RemoteFile*> order;
  for (const RemoteFile& file : files) order.push_back(&file);
  // Whoever looks meanwhile takes a folder for a model once it has a config.json and an index.
  const auto rank = [](const RemoteFile* file) {
    return file->path == "config.json" ? 2 : file->path.ends_with(".index.json") ? 1 : 0;
  };
  std::ranges::stable_sort(order, {}, rank);
  for (const RemoteFile* file : order) TENON_RETURN_IF_ERROR(link_file(folder, *file));
  return {};
}

}  // namespace

Status publish(const std::string& model_folder, const std::string& commit,
               const std::string& revision, std::span<const RemoteFile> files) {
  std::error_code error;
  const fs::path snapshots = fs::path(model_folder) / "snapshots", snapshot = snapshots / commit;
  fs::create_directories(snapshots, error);
  if (error) return fault(snapshots, error);
  if (!fs::exists(snapshot, error)) {
    const fs::path made = fs::path(model_folder) / (".snapshot-" + std::to_string(::getpid()));
    fs::remove_all(made, error);
    Status linked = link_all(made, files);
    if (linked.ok()) fs::rename(made, snapshot, error);
    std::error_code ignored;
    fs::remove_all(made, ignored);
    TENON_RETURN_IF_ERROR(std::move(linked));
    // Where another program was faster, what is missing is added below.
    if (error && !fs::exists(snapshot, ignored)) return fault(snapshot, error);
  }
  TENON_RETURN_IF_ERROR(link_all(snapshot, files));
  if (revision == commit) return {};
  const fs::path ref = fs::path(model_folder) / "refs" / revision;
  fs::create_directories(ref.parent_path(), error);
  if (error) return fault(ref.parent_path(), error);
  return write_file(ref.string(), {commit});
}

}  // namespace tenon::hub
