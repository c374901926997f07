// Any text as a pipeline file, and its last line as an override. What is accepted must print and
// read back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/config/pipeline_config.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(pipeline_toml, const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A file to extend would make this depend on the machine.
  if (size > 65536 || text.find("extends") != text.npos) return 0;
  const std::string folder = "/nowhere";
  const std::string last(text.substr(text.rfind('\n') + 1));
  const auto config = tenon::parse_pipeline_config(text, "fuzz.toml", folder, {last});
  const auto plain = tenon::parse_pipeline_config(text, "fuzz.toml", folder, {});
  for (const auto* parsed : {&config, &plain}) {
    if (!parsed->ok()) {
      if (parsed->status().message().empty()) std::abort();
      continue;
    }
    const std::string printed = tenon::resolved_toml(**parsed, {}, false);
    const auto again = tenon::parse_pipeline_config(printed, "again.toml", folder, {});
    if (!again.ok() || tenon::resolved_toml(*again, {}, false) != printed) std::abort();
    if (tenon::config_hash(*again, {}) != tenon::config_hash(**parsed, {})) std::abort();
  }
  return 0;
}
