// A process of our own that answers lines with lines.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon {

class ChildProcess {
 public:
  // `command[0]` is a path. The child has this program's standard error, and a process group of its
  // own, so that an interrupt reaches this program alone.
  static Result<ChildProcess> start(const std::vector<std::string>& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Closes its standard input, which ends it, and kills it after a second; at once where a line was
  // written and not yet answered.
  ~ChildProcess();

  // Error: it reads no more, because it ended.
  Status write_line(std::string_view line);
  // The next line without its end; null once `go_on` says no, which is asked ten times a second.
  // Error: it ended, and how.
  Result<std::optional<std::string>> read_line(const std::function<bool()>& go_on);
  pid_t id() const { return pid_; }

 private:
  ChildProcess(pid_t pid, int in, int out) : pid_(pid), in_(in), out_(out) {}
  Status ended();

  pid_t pid_;
  int in_, out_;  // our ends of its standard input and output
  std::string read_;
  bool busy_ = true;  // until it has said something
};

}  // namespace tenon
