// What can be found of plugins, for commands that only tell of it: each library is looked at in a
// process of its own, and none is loaded into this one.
#pragma once

#include <tenon/host.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/isolation/library_examiner.h"
#include "core/plugin/registry.h"

namespace tenon {

class LookedAtPlugins {
 public:
  // Opens `folders` and the usual places, which reads stamps alone.
  static Result<LookedAtPlugins> open(const std::vector<std::string>& folders,
                                      const HostFacts& host);

  // Looks at all files with plugins of `interface` (an id; empty: of any that this program knows)
  // side by side. `find` looks at what it needs by itself, one at a time.
  void look_at_all(std::string_view interface = {});
  // Why a file that was looked at cannot be loaded.
  Status problem(const PluginFile& file) const;

  // Its `find` gives descriptors to read, and no plugins to create.
  PluginRegistry& registry() { return registry_; }

 private:
  LookedAtPlugins(PluginRegistry registry, const HostFacts& host);

  PluginRegistry registry_;
  std::unique_ptr<LibraryExaminer> examiner_;
};

}  // namespace tenon
