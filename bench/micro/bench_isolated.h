// Plugins of the build folder in processes of their own, as engine.guard = "isolate" has
// strangers'.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/isolation/isolated_library.h"
#include "core/plugin/instance.h"

namespace tenon::bench {

// libtenon-<file>.so's plugin `id`, kept until the program ends; null, and why on standard error,
// where it cannot be had. The KV cache has blocks of so many tokens.
template <typename Interface>
Interface* isolated(const std::string& file, const std::string& id, int64_t block_tokens,
                    uint32_t workers) {
  static HostFacts host;
  static const WallClock kClock;
  static ResolvedFact fact{"kv.block_tokens", {}, 0};
  static const PipelineFacts kFacts{&fact, 1};
  static auto* const kInstances = new std::vector<PluginInstance<Interface>>;
  host.workers = workers;
  fact.number = block_tokens;
  const auto library =
      isolate_library(std::string(TENON_PLUGIN_FOLDER) + "/libtenon-" + file + ".so", {}, {});
  if (!library.ok()) {
    std::fputs(message_of(library.status()).c_str(), stderr);
    return nullptr;
  }
  const PluginDescriptor* plugin = (*library)->find(kInterfaceOf<Interface>, id);
  auto made = PluginInstance<Interface>::create({*library, plugin}, *fill_options(*plugin, {}),
                                                {&host, &kClock, &kFacts, nullptr});
  if (!made.ok()) {
    std::fputs(message_of(made.status()).c_str(), stderr);
    return nullptr;
  }
  kInstances->push_back(*std::move(made));
  return kInstances->back().get();
}

}  // namespace tenon::bench
