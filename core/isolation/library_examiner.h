// Libraries looked at: what is in them, and whether it can run here. Each is loaded in a process of
// its own that ends with the answer, so one that crashes, exits or hangs while it is loaded is a
// sentence, and the others are looked at all the same.
#pragma once

#include <tenon/host.h>

#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/plugin/library.h"

namespace tenon {

class ExaminedLibrary;

class LibraryExaminer {
 public:
  explicit LibraryExaminer(const HostFacts& host);
  ~LibraryExaminer();

  // Several at once; none that was looked at before. [control]
  void look_at(std::span<const std::string> paths);
  // Of a path that was looked at: its descriptors, and scores for the host. Nothing of it can be
  // created. Error: why it cannot be loaded. Valid as long as this object.
  Result<const LoadedLibrary*> library(const std::string& path) const;

 private:
  struct Seen {
    std::unique_ptr<ExaminedLibrary> examined;
    const LoadedLibrary* library = nullptr;
    Status problem;
  };
  void look_at_one(const std::string& path, Seen& seen) const;

  const HostFacts host_;
  const bool has_guest_;  // else there is no program for such processes, and libraries are loaded
  std::map<std::string, Seen> seen_;
};

}  // namespace tenon
