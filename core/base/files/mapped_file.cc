#include "core/base/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/files/descriptor.h"
#include "core/base/presence.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

Status open_error(const std::string& path) {
  const int why = errno;
  const bool missing = why == ENOENT || why == ENOTDIR;
  const std::string text = "cannot open " + path_in_quotes(path) + ": ";
  if (missing && is_there(path)) return failed(text + "it is a link to nothing");
  return missing ? not_found(text + std::strerror(why)) : failed(text + std::strerror(why));
}

// The size of a regular file behind `fd`.
Result<size_t> regular_size(const Descriptor& fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return open_error(path);
  if (!S_ISREG(info.st_mode)) return failed(path_in_quotes(path) + " is not a regular file");
  return static_cast<size_t>(info.st_size);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a FIFO given by mistake must not hang the program; regular files ignore it.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return open_error(path);
  TENON_ASSIGN_OR_RETURN(const size_t size, regular_size(fd, path));
  MappedFile file;
  file.path_ = path;
  file.size_ = size;
  if (size == 0) return file;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    file.size_ = 0;
    return failed("cannot map " + path_in_quotes(path) + ": " + std::strerror(errno));
  }
  file.data_ = static_cast<const std::byte*>(data);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty() || part.data() < data_ || part.size() > size_ ||
      static_cast<size_t>(part.data() - data_) > size_ - part.size()) {
    return;
  }
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = static_cast<size_t>(part.data() - data_) / page * page;
  const size_t end = static_cast<size_t>(part.data() - data_) + part.size();
  // A hint: where it fails, the memory stays.
  (void)::madvise(const_cast<std::byte*>(data_) + first, end - first, MADV_DONTNEED);
}

Result<std::string> read_text_file(const std::string& path, size_t limit_bytes) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > limit_bytes) {
    return failed(path_in_quotes(path) + " has " + std::to_string(file.bytes().size()) +
                  " bytes; at most " + std::to_string(limit_bytes) + " are read for this kind");
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace tenon
