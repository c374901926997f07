#include "core/hub/pull/blob.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/base/files/descriptor.h"
#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/hub/pull/digest.h"

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

Status cannot(std::string_view what, const std::string& path) {
  return failed("cannot " + std::string(what) + " " + path_in_quotes(path) + ": " +
                std::strerror(errno));
}

// Made where it is not there; below 0: it cannot be.
int open_or_make(const std::string& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC | O_CREAT, 0666);
}

// Another program that brings the same file is waited for; where a file system has no locks, there
// is none.
void take_lock(const Descriptor& lock, const RemoteFile& file) {
  if (lock.get() < 0 || ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) return;
  log(LogLevel::warning, "hub",
      "another program is bringing " + in_quotes(file.path) + "; waiting for it");
  while (::flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
}

uint64_t size_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

Status write_all(const Descriptor& out, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(out.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// "bytes 100-199/200" begins where it was asked to.
bool continues_at(const HttpAnswer& head, uint64_t at) {
  return head.header("content-range").starts_with("bytes " + std::to_string(at) + "-");
}

// A file on its way, of which `have` bytes are there.
struct Part {
  Endpoint& endpoint;
  const ModelName& name;
  const std::string& commit;
  const RemoteFile& file;
  const BlobProgress& progress;
  const std::string path;
  uint64_t have = 0;
  Status fault = {};

  // The first bytes of an answer: the rest, or, of a server that knows no parts, all of the file.
  void begin(const Descriptor& out, const HttpAnswer& head) {
    if (head.status == 206) {
      if (!continues_at(head, have)) fault = failed("the server sends another part than was asked");
    } else if (have > 0) {
      if (::ftruncate(out.get(), 0) != 0) fault = cannot("empty", path);
      have = 0;
    }
  }

  bool take(const Descriptor& out, std::string_view bytes) {
    if (bytes.size() > file.bytes - std::min(have, file.bytes)) {
      fault = failed(in_quotes(file.path) + " has more bytes than the " +
                     std::to_string(file.bytes) + " that the hub states");
      return false;
    }
    fault = write_all(out, bytes, path);
    have += bytes.size();
    progress(have);
    return fault.ok();
  }

  Result<bool> bring(const Descriptor& out) {
    bool begun = false;
    const HttpSink sink = [&](const HttpAnswer& head, std::string_view bytes) {
      if (!begun) begin(out, head);
      begun = true;
      return fault.ok() && take(out, bytes);
    };
    Result<bool> came = endpoint.read_file(name, commit, file, have, sink);
    if (!fault.ok()) return std::move(fault);
    return came;
  }
};

Status bring_bytes(Part& part, const Descriptor& out) {
  for (int n = 0; part.have < part.file.bytes; ++n) {
    const uint64_t before = part.have;
    TENON_ASSIGN_OR_RETURN(const bool came, part.bring(out));
    if (part.have >= part.file.bytes) break;
    if (part.have > before) n = 0;
    const int wait = patience_seconds(n);
    if (wait < 0) {
      return failed(in_quotes(part.file.path) + ": " +
                    (came ? "the server sends less than the hub states" : part.endpoint.trouble()) +
                    "; what came is kept, and the same command goes on from there");
    }
    std::this_thread::sleep_for(std::chrono::seconds(wait));
  }
  return {};
}

Status check_bytes(const RemoteFile& file, const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string digest, digest_of(path, file.digest));
  if (digest == file.digest) return {};
  ::unlink(path.c_str());
  return failed(in_quotes(file.path) + ": what came has the hash " + digest + ", not " +
                file.digest + " as the hub states; it was removed – bring it again");
}

}  // namespace

uint64_t bytes_there(const BlobPlace& place, const RemoteFile& file) {
  std::error_code error;
  if (fs::exists(place.blob(file), error)) return file.bytes;
  const uint64_t some = size_of(place.unfinished(file));
  return some <= file.bytes ? some : 0;
}

Status bring_blob(Endpoint& endpoint, const ModelName& name, const std::string& commit,
                  const RemoteFile& file, const BlobPlace& place, const BlobProgress& progress) {
  const Descriptor lock(open_or_make(place.lock_folder + "/" + file.digest + ".lock", O_RDWR));
  take_lock(lock, file);
  const std::string blob = place.blob(file), path = place.unfinished(file);
  std::error_code error;
  if (fs::exists(blob, error)) return {};
  {
    const Descriptor out(open_or_make(path, O_WRONLY | O_APPEND));
    if (out.get() < 0) return cannot("write", path);
    Part part{.endpoint = endpoint,
              .name = name,
              .commit = commit,
              .file = file,
              .progress = progress,
              .path = path,
              .have = size_of(path)};
    if (part.have > file.bytes) {
      if (::ftruncate(out.get(), 0) != 0) return cannot("empty", path);
      part.have = 0;
    }
    TENON_RETURN_IF_ERROR(bring_bytes(part, out));
    if (::fsync(out.get()) != 0) return cannot("write", path);
  }
  TENON_RETURN_IF_ERROR(check_bytes(file, path));
  if (::rename(path.c_str(), blob.c_str()) != 0) return cannot("rename", path);
  return {};
}

}  // namespace tenon::hub
