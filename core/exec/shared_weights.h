// Packed weights that several executors of one process use: pipelines of one model that differ in
// strategy alone keep one copy.
//
// What makes two copies the same is their name: the files, each tensor, the kernel that packed it
// with its options and instruction sets, and where it lies. Kernels keep nothing about a weight but
// what they packed (<tenon/linear.h>), so that another instance of the same kernel multiplies by it
// as by its own.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/exec/host_memory.h"

namespace tenon {

class SharedWeights {
 public:
  // What was kept under that name; null where nobody holds it any more.
  std::shared_ptr<const HostMemory> find(const std::string& name) const;
  // Others find it as long as somebody holds it. `files`: as in WeightSharing.
  void keep(const std::string& name, const std::string& files,
            const std::shared_ptr<const HostMemory>& memory);
  // Whether somebody holds weights from these files, in whatever form.
  bool holds(const std::string& files) const;

 private:
  struct Kept {
    std::string files;
    std::weak_ptr<const HostMemory> memory;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Kept> kept_;
};

// What lets an executor share its model's weights.
struct WeightSharing {
  SharedWeights* with = nullptr;  // null: they are its own
  // Where they come from, with what tells a file that was changed: paths, sizes, times.
  std::string files = {};
};

}  // namespace tenon
