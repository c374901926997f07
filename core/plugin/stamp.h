// The stamp of a plugin file: what it was built for and what it contains, read from its ELF note
// without loading it. Format: docs/formats/plugin-stamp.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct PluginName {
  std::string interface;  // "scheduler/2"
  std::string id;         // "chunked"
  friend bool operator==(const PluginName&, const PluginName&) = default;
  friend bool operator<(const PluginName& a, const PluginName& b) {
    return std::tie(a.interface, a.id) < std::tie(b.interface, b.id);
  }
};

struct PluginStamp {
  uint16_t machine = 0;  // e_machine of the ELF header
  std::string sdk;       // version of the SDK it was built with
  std::string boundary;  // hash of the boundary headers' text
  std::string layout;    // hash of the boundary structs' layout
  std::string cxxabi;
  std::string arch;
  std::string compiler;
  std::string build;  // release, debug, asan, tsan
  std::string cuda;   // toolkit major, or "none"
  std::vector<PluginName> plugins;
};

// Errors name `path` first: unreadable, not an ELF library of this kind, truncated, a damaged note;
// unsupported when it is a library without a note, which is no plugin at all.
Result<PluginStamp> read_stamp(const std::string& path);
// The same over bytes in memory; `name` leads messages. Safe on any bytes.
Result<PluginStamp> parse_stamp(std::span<const std::byte> file, std::string_view name);

// The text of the note of type 2, which executors carry (core/exec/executor_library.h); empty when
// there is none.
Result<std::string> read_executor_stamp(const std::string& path);

// What a plugin built with exactly this program's headers and compiler would say.
PluginStamp host_stamp();

// Error when a plugin with `stamp` must not be loaded into a program with `host`: another
// architecture, C++ ABI, boundary or struct layout, or a newer SDK. One message has all faults,
// both versions and how to rebuild. A different sanitizer is only logged as a warning.
Status check_stamp(const PluginStamp& stamp, const PluginStamp& host, std::string_view name);

// [a-z][a-z0-9_]{0,31}, or "vendor.name" of two such words.
bool valid_plugin_id(std::string_view id);
// An id, a slash and a revision: "scheduler/2", "acme.thing/1".
bool valid_interface(std::string_view interface);
// "scheduler" of "scheduler/2".
std::string_view interface_word(std::string_view interface);

}  // namespace tenon
