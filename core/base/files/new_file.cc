#include "core/base/files/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/quote.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPath = 4096;
constexpr int kSlots = 16;

// What a signal handler must find without a lock and without memory of its own. `path` is complete
// before `used` says so.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<bool> used{false};
  char path[kLongestPath] = {};
  const char* const* inside = nullptr;
  size_t inside_count = 0;
};
Slot slots[kSlots];

int occupy(const std::string& path, std::span<const char* const> inside) {
  if (path.size() >= kLongestPath) return -1;
  for (int i = 0; i < kSlots; ++i) {
    Slot& slot = slots[i];
    if (slot.taken.exchange(true)) continue;
    std::memcpy(slot.path, path.c_str(), path.size() + 1);
    slot.inside = inside.data();
    slot.inside_count = inside.size();
    slot.used = true;
    return i;
  }
  return -1;  // more at once than anybody writes: then only destructors remove it
}

void vacate(int index) {
  if (index < 0) return;
  slots[index].used = false;
  slots[index].taken = false;
}

// Async-signal-safe.
void remove_path(const char* path, std::span<const char* const> inside) {
  if (inside.empty()) {
    ::unlink(path);
    return;
  }
  const size_t length = std::strlen(path);
  for (const char* name : inside) {
    char file[kLongestPath + 256];
    const size_t bytes = std::strlen(name);
    if (length + bytes + 2 > sizeof(file)) continue;
    std::memcpy(file, path, length);
    file[length] = '/';
    std::memcpy(file + length + 1, name, bytes + 1);
    ::unlink(file);
  }
  ::rmdir(path);  // only where it is empty
}

// "model.gguf" → "model.gguf.0123456789abcdef.partial", cut so that it stays a possible name.
std::string name_beside(const fs::path& path) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    random = static_cast<uint64_t>(::getpid()) << 32 ^ reinterpret_cast<uintptr_t>(&random);
  }
  char ending[40];
  std::snprintf(ending, sizeof(ending), ".%016llx.partial",
                static_cast<unsigned long long>(random));
  return (path.parent_path() / (path.filename().string().substr(0, 200) + ending)).string();
}

// Where a symbolic link leads, so that the link stays one.
std::string target_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
}

// 0 or an errno.
int rename_without_replacing(const char* from, const char* to) {
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // Not every file system can; a second name of the file is refused where the name is taken.
  if (::link(from, to) == 0) {
    ::unlink(from);
    return 0;
  }
  if (errno == EEXIST || ::access(to, F_OK) == 0) return EEXIST;
  return ::rename(from, to) == 0 ? 0 : errno;
}

void sync_folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

void remove_unfinished() noexcept {
  // Files before the folders they lie in.
  for (const bool folders : {false, true}) {
    for (Slot& slot : slots) {
      if (!slot.used || (slot.inside_count > 0) != folders) continue;
      remove_path(slot.path, {slot.inside, slot.inside_count});
    }
  }
}

UnfinishedPath::UnfinishedPath(std::string path, std::span<const char* const> inside)
    : path_(std::move(path)), inside_(inside), slot_(occupy(path_, inside)) {}

UnfinishedPath::UnfinishedPath(UnfinishedPath&& other) noexcept
    : path_(std::move(other.path_)),
      inside_(other.inside_),
      slot_(std::exchange(other.slot_, -1)),
      kept_(std::exchange(other.kept_, true)) {}

UnfinishedPath::~UnfinishedPath() {
  if (!kept_) remove_path(path_.c_str(), inside_);
  vacate(slot_);
}

void UnfinishedPath::keep() noexcept {
  kept_ = true;
  vacate(std::exchange(slot_, -1));
}

NewFile::NewFile(std::string path, UnfinishedPath unfinished, int fd, bool direct)
    : path_(std::move(path)), unfinished_(std::move(unfinished)), fd_(fd), direct_(direct) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      unfinished_(std::move(other.unfinished_)),
      fd_(std::exchange(other.fd_, -1)),
      direct_(other.direct_) {}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status NewFile::error(std::string_view what) const {
  return failed("cannot " + std::string(what) + " " + path_in_quotes(path_) + ": " +
                std::strerror(errno));
}

Result<NewFile> NewFile::create(const std::string& path) {
  const std::string target = target_of(path);
  struct stat info {};
  const bool there = ::stat(target.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) {
    return failed("cannot write " + path_in_quotes(path) + ": it is a folder");
  }
  const bool direct = there && !S_ISREG(info.st_mode);
  const std::string partial = direct ? target : name_beside(target);
  UnfinishedPath unfinished(partial);
  if (direct) unfinished.keep();
  const int flags = O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_EXCL);
  NewFile file(target, std::move(unfinished), ::open(partial.c_str(), flags, 0644), direct);
  if (file.fd_ < 0) return file.error("create");
  if (there && !direct) static_cast<void>(::fchmod(file.fd_, info.st_mode & 07777));
  return file;
}

Status NewFile::reserve(uint64_t bytes) {
  errno = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
  if (errno == 0) return {};
  // Not every file system can; then room is found out while writing.
  if (errno != EOPNOTSUPP && errno != EINVAL) return error("reserve room for");
  return ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? Status() : error("reserve room for");
}

Status NewFile::write_at(uint64_t offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return error("write");
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status NewFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return error("write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status NewFile::keep(Existing existing) {
  if (!direct_ && ::fsync(fd_) != 0) return error("write");
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return error("write");
  if (direct_) return {};
  const char* partial = unfinished_.path().c_str();
  if (existing == Existing::refuse) {
    errno = rename_without_replacing(partial, path_.c_str());
    if (errno == EEXIST) {
      return invalid_argument(path_in_quotes(path_) +
                              " is already there; choose another name, or remove it first");
    }
    if (errno != 0) return error("rename");
  } else if (::rename(partial, path_.c_str()) != 0) {
    return error("rename");
  }
  unfinished_.keep();
  sync_folder_of(path_);
  return {};
}

Status write_file(const std::string& path, std::initializer_list<std::string_view> parts,
                  Existing existing) {
  TENON_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  for (const std::string_view part : parts) TENON_RETURN_IF_ERROR(file.append(part));
  return file.keep(existing);
}

Result<NewFolder> NewFolder::create(const std::string& path, std::span<const char* const> files) {
  const auto cannot = [&path](std::string_view reason) {
    return failed("cannot create the folder " + path_in_quotes(path) + ": " + std::string(reason));
  };
  std::error_code fault;
  const fs::path whole = fs::path(path) / "";  // "a" and "a/" have the same parent
  fs::create_directories(whole.parent_path().parent_path(), fault);
  UnfinishedPath folder(path, files);
  const bool made = ::mkdir(path.c_str(), 0777) == 0;
  const int reason = errno;
  // Of a folder that others may be writing into, nothing is ever removed.
  if (!made) folder.keep();
  if (!made && reason != EEXIST) return cannot(std::strerror(reason));
  NewFolder out(std::move(folder), ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (out.fd_ < 0) {
    out.keep();
    return cannot(std::strerror(errno));
  }
  if (::flock(out.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    out.keep();
    return failed("another program is writing into " + path_in_quotes(path) +
                  "; wait for its end, or choose another folder");
  }
  return out;
}

NewFolder::NewFolder(NewFolder&& other) noexcept
    : folder_(std::move(other.folder_)), fd_(std::exchange(other.fd_, -1)) {}

NewFolder::~NewFolder() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace tenon
