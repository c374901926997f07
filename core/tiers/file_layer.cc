#include "core/tiers/file_layer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "core/base/files/descriptor.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

Status file_error(const char* what, const std::string& path, int error) {
  const std::string text =
      std::string(what) + " " + path_in_quotes(path) + " failed: " + std::strerror(error);
  return error == ENOENT ? not_found(text) : failed(text);
}

// Where, and in what units, files can be read past the cache of pages on every disk.
constexpr size_t kSector = 4096;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void add_files(const fs::path& folder, const std::string& name, std::vector<FileEntry>& to) {
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    struct stat status = {};
    if (::lstat(file.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    to.push_back({name + file.path().filename().string(), static_cast<uint64_t>(status.st_size),
                  nanoseconds(status.st_mtim)});
  }
}

int open_to_read(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

// Of a file that was just opened, or could not be.
Result<uint64_t> bytes_of(int file, const std::string& path) {
  if (file < 0) return file_error("opening", path, errno);
  struct stat status = {};
  if (::fstat(file, &status) != 0) return file_error("reading", path, errno);
  if (!S_ISREG(status.st_mode)) return failed(path_in_quotes(path) + " is no regular file");
  return static_cast<uint64_t>(status.st_size);
}

Result<KvBlob> read_all(int file, const std::string& path, uint64_t bytes) {
  KvBlob blob(bytes);
  size_t have = 0;
  while (have < blob.size()) {
    const ssize_t got = ::read(file, blob.data() + have, blob.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("reading", path, errno);
    if (got == 0) break;  // cut meanwhile
    have += static_cast<size_t>(got);
  }
  blob.resize(have);
  return blob;
}

// Past the cache of pages, if that does not have all of it. False: neither works for this file.
bool is_read_at_once(int file, uint64_t bytes, KvBlob& blob) {
  blob = KvBlob((bytes + kSector - 1) / kSector * kSector);
  if (bytes == 0 || reinterpret_cast<uintptr_t>(blob.data()) % kSector != 0) return false;
  const iovec cached = {blob.data(), bytes};
  ssize_t got = ::preadv2(file, &cached, 1, 0, RWF_NOWAIT);
  if (got != static_cast<ssize_t>(bytes)) {
    const int flags = ::fcntl(file, F_GETFL);
    if (flags < 0 || ::fcntl(file, F_SETFL, flags | O_DIRECT) != 0) return false;
    got = ::pread(file, blob.data(), blob.size(), 0);
    (void)::fcntl(file, F_SETFL, flags);
  }
  if (got < static_cast<ssize_t>(bytes)) return false;
  blob.resize(bytes);
  return true;
}

class SystemFiles final : public FileLayer {
 public:
  Status make_folder(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    std::error_code ignored;  // where it cannot be told, none could be made
    if (!error || fs::is_directory(path, ignored)) return {};
    return file_error("making the folder", path, error.value());
  }

  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }

  Result<KvBlob> read(const std::string& path, uint64_t limit_bytes) override {
    const Descriptor file(open_to_read(path));
    TENON_ASSIGN_OR_RETURN(const uint64_t bytes, bytes_of(file.get(), path));
    return read_all(file.get(), path, std::min(bytes, limit_bytes));
  }

  Result<KvBlob> read_sparingly(const std::string& path, uint64_t limit_bytes) override {
    const Descriptor file(open_to_read(path));
    TENON_ASSIGN_OR_RETURN(const uint64_t bytes, bytes_of(file.get(), path));
    KvBlob blob;
    if (is_read_at_once(file.get(), std::min(bytes, limit_bytes), blob)) return blob;
    return read_all(file.get(), path, std::min(bytes, limit_bytes));
  }

  void will_read(const std::string& path) override {
    const Descriptor file(open_to_read(path));
    if (file.get() >= 0) (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED);
  }

  Status write(const std::string& path,
               std::span<const std::span<const std::byte>> parts) override {
    const Descriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (file.get() < 0) return file_error("creating", path, errno);
    for (std::span<const std::byte> part : parts) {
      while (!part.empty()) {
        const ssize_t written = ::write(file.get(), part.data(), part.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return file_error("writing", path, errno);
        part = part.subspan(static_cast<size_t>(written));
      }
    }
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return file_error("renaming to", to, errno);
  }

  void remove(const std::string& path) override { ::unlink(path.c_str()); }
  void touch(const std::string& path) override { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

  std::vector<FileEntry> list(const std::string& path) override {
    std::vector<FileEntry> entries;
    std::error_code error;
    add_files(path, "", entries);
    for (const auto& folder : fs::directory_iterator(path, error)) {
      if (!folder.is_directory(error) || folder.is_symlink(error)) continue;
      add_files(folder.path(), folder.path().filename().string() + "/", entries);
    }
    return entries;
  }

  int64_t now_ns() override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
};

}  // namespace

std::unique_ptr<FileLayer> make_file_layer() {
  return std::make_unique<SystemFiles>();
}

}  // namespace tenon
