// Any bytes as a plugin file: the one thing that reads untrusted files before a decision.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/plugin/stamp.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(stamp, const uint8_t* data, size_t size) {
  const auto stamp = tenon::parse_stamp(std::as_bytes(std::span(data, size)), "fuzz.so");
  if (!stamp.ok()) {
    if (stamp.status().message().empty()) std::abort();
    return 0;
  }
  // What was accepted keeps the promises that the registry builds upon.
  if (stamp->plugins.empty() || stamp->boundary.empty() || stamp->layout.empty()) std::abort();
  for (const tenon::PluginName& plugin : stamp->plugins) {
    if (!tenon::valid_plugin_id(plugin.id) || !tenon::valid_interface(plugin.interface)) {
      std::abort();
    }
  }
  const tenon::Status ignored = tenon::check_stamp(*stamp, tenon::host_stamp(), "fuzz.so");
  return 0;
}
