#include "core/base/files/left_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/files/descriptor.h"

namespace tenon {

void remove_left_socket(const std::string& path) {
  struct stat found = {};
  sockaddr_un name = {};
  if (path.size() >= sizeof(name.sun_path)) return;
  if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, path.size());
  // Who has too many that wait answers with EAGAIN, and is there.
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return;
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0) return;
  if (errno == ECONNREFUSED) ::unlink(path.c_str());
}

}  // namespace tenon
