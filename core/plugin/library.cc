#include "core/plugin/library.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/shared_library.h"

namespace tenon {
namespace {

// By real path and pinned digest. Never destroyed, and neither are its libraries.
struct Parking {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<LoadedLibrary>> libraries;
};
Parking& parking() {
  static Parking* instance = new Parking;
  return *instance;
}

// The descriptors of `theirs` that this program can use; all of them are held against the stamp.
Result<std::deque<PluginDescriptor>> read_table(const PluginLibrary& theirs,
                                                const PluginStamp& stamp) {
  TENON_ASSIGN_OR_RETURN(const PluginLibrary table, own_table(theirs));
  std::deque<PluginDescriptor> known;
  bool same = table.descriptor_count == stamp.plugins.size();
  for (uint32_t i = 0; i < table.descriptor_count; ++i) {
    if (table.descriptors[i] == nullptr) return invalid_argument("its plugin table has a gap");
    TENON_ASSIGN_OR_RETURN(const PluginDescriptor own, own_descriptor(*table.descriptors[i]));
    same = same && own.interface == stamp.plugins[i].interface && own.id == stamp.plugins[i].id;
    if (!knows_interface(own.interface)) continue;
    TENON_RETURN_IF_ERROR(check_descriptor(own));
    known.push_back(own);
  }
  if (same) return known;
  return invalid_argument(
      "its stamp lists other plugins than its table; rebuild it with TENON_PLUGIN_LIBRARY");
}

// `file` is what the system opens; `path` is what messages say.
Result<std::unique_ptr<LoadedLibrary>> open_library(const std::string& file,
                                                    const std::string& path,
                                                    const PluginStamp& stamp) {
  TENON_ASSIGN_OR_RETURN(const void* table, load_shared_library(file, path, kPluginLibrarySymbol));
  if (table == nullptr) {
    return invalid_argument(path + ": it has a stamp but does not export " +
                            in_quotes(kPluginLibrarySymbol) + "; rebuild it with tenon_add_plugin");
  }
  auto descriptors = read_table(*static_cast<const PluginLibrary*>(table), stamp);
  if (!descriptors.ok()) return with_context(path, descriptors.status());
  return std::make_unique<LoadedLibrary>(
      LoadedLibrary{path, stamp, *std::move(descriptors), nullptr});
}

// An anonymous sealed file with these bytes. It is never closed: the loader knows libraries by
// name, and the name of a reused descriptor would find the library before it.
Result<std::string> sealed_copy(std::span<const std::byte> bytes, const std::string& path) {
  const int fd = ::memfd_create("tenon-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return failed(path + ": cannot make a sealed copy: " + std::strerror(errno));
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t count = ::write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const std::string reason = std::strerror(errno);
      ::close(fd);
      return failed(path + ": cannot make a sealed copy: " + reason);
    }
    written += static_cast<size_t>(count);
  }
  ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  return "/proc/self/fd/" + std::to_string(fd);
}

// A private copy, so that what is checked cannot change afterwards.
Result<std::unique_ptr<LoadedLibrary>> open_pinned(const std::string& path,
                                                   const std::string& sha256) {
  TENON_ASSIGN_OR_RETURN(const std::string bytes, read_text_file(path));
  const std::string found = sha256_hex(bytes);
  if (found != sha256) {
    return failed(path + ": its sha256 is " + found + ", but it is pinned to " + sha256 +
                  "; restore the file, or pin it anew if you trust the change");
  }
  const std::span content = std::as_bytes(std::span(bytes));
  TENON_ASSIGN_OR_RETURN(const PluginStamp stamp, parse_stamp(content, path));
  TENON_RETURN_IF_ERROR(check_stamp(stamp, host_stamp(), path));
  TENON_ASSIGN_OR_RETURN(const std::string copy_name, sealed_copy(content, path));
  return open_library(copy_name, path, stamp);
}

Result<std::unique_ptr<LoadedLibrary>> open_plain(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const PluginStamp stamp, read_stamp(path));
  TENON_RETURN_IF_ERROR(check_stamp(stamp, host_stamp(), path));
  return open_library(path, path, stamp);
}

}  // namespace

const PluginDescriptor* LoadedLibrary::find(std::string_view interface, std::string_view id) const {
  for (const PluginDescriptor& descriptor : descriptors) {
    if (descriptor.interface == interface && descriptor.id == id) return &descriptor;
  }
  return nullptr;
}

Result<const LoadedLibrary*> load_library(const std::string& path, const std::string& sha256) {
  // A path without a slash would be looked up in the system's own library folders.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return not_found("cannot open " + path_in_quotes(path) + ": " + error.message());
  const std::lock_guard lock(parking().mutex);
  std::unique_ptr<LoadedLibrary>& place = parking().libraries[{real.string(), sha256}];
  if (place == nullptr) {
    auto opened = sha256.empty() ? open_plain(real.string()) : open_pinned(real.string(), sha256);
    if (!opened.ok()) return opened.take_status();
    place = *std::move(opened);
  }
  return place.get();
}

}  // namespace tenon
