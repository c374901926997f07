// A file descriptor that is closed with its owner.
#pragma once

#include <unistd.h>

namespace tenon {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}  // below 0: there is none
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace tenon
