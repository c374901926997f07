// A plugin's description of itself, and the interfaces that a descriptor can be for.
#pragma once

#include <tenon/facts.h>
#include <tenon/host.h>
#include <tenon/options.h>
#include <tenon/status.h>

#include <cstdint>
#include <string_view>

namespace tenon {

class Scheduler;
class KVCacheManager;
class AttentionKernel;
class LinearKernel;
class Sampler;
class Drafter;
class StateKernel;

// Interface ids: a name and a revision. The revision rises when the contract of a header changes,
// also if only its prose does. A host skips descriptors for interfaces that it does not know, so
// one library can serve several hosts. Third parties: "vendor.name/1".
inline constexpr std::string_view kSchedulerInterface = "scheduler/2";
inline constexpr std::string_view kKvCacheInterface = "kv_cache/2";
inline constexpr std::string_view kAttentionInterface = "attention/2";
inline constexpr std::string_view kLinearInterface = "linear/2";
inline constexpr std::string_view kSamplerInterface = "sampler/2";
inline constexpr std::string_view kDrafterInterface = "drafter/2";
inline constexpr std::string_view kStateInterface = "state/1";

// The id of the interface T. Third parties specialise it for theirs.
template <typename T>
inline constexpr std::string_view kInterfaceOf = {};
template <>
inline constexpr std::string_view kInterfaceOf<Scheduler> = kSchedulerInterface;
template <>
inline constexpr std::string_view kInterfaceOf<KVCacheManager> = kKvCacheInterface;
template <>
inline constexpr std::string_view kInterfaceOf<AttentionKernel> = kAttentionInterface;
template <>
inline constexpr std::string_view kInterfaceOf<LinearKernel> = kLinearInterface;
template <>
inline constexpr std::string_view kInterfaceOf<Sampler> = kSamplerInterface;
template <>
inline constexpr std::string_view kInterfaceOf<Drafter> = kDrafterInterface;
template <>
inline constexpr std::string_view kInterfaceOf<StateKernel> = kStateInterface;

// All pointers and views refer to static storage of the library. It grows at its end only: the host
// copies the members that both sides know, and what a library does not know keeps its default.
struct PluginDescriptor {
  uint32_t size = sizeof(PluginDescriptor);  // as the library was built
  std::string_view interface = {};           // `create` makes a pointer to exactly this interface
  std::string_view id = {};                  // [a-z][a-z0-9_]{0,31}; third parties: "vendor.name"
  std::string_view version = {};             // semantic version of this plugin
  std::string_view summary = {};             // one sentence
  std::string_view license = {};             // SPDX id

  const OptionSpec* options = nullptr;
  uint32_t option_count = 0;
  uint32_t options_bytes = 0;  // size and alignment of the option struct
  uint32_t options_alignment = 1;
  void (*construct_options)(void* memory) noexcept = nullptr;  // default values in place
  // Checks across options, after each was checked alone. May be null. [control]
  Status (*validate)(const void* options) noexcept = nullptr;

  const Fact* provides = nullptr;  // what this plugin can do …
  uint32_t provide_count = 0;
  const Fact* requirements = nullptr;  // … and what others must be able to do
  uint32_t requirement_count = 0;

  // For "auto": 0 = cannot run here (then `unavailable` says why), higher is preferred. Pure, fast.
  uint32_t (*score)(const HostFacts& host) noexcept = nullptr;  // null counts as 1
  std::string_view unavailable = {};

  // One instance. `host`, `facts` and `options` stay valid until `destroy` returns. [control]
  Status (*create)(const HostServices& host, const PipelineFacts& facts, const void* options,
                   void** instance) noexcept = nullptr;
  void (*destroy)(void* instance) noexcept = nullptr;

  // Extensions beyond the interface, by id ("acme.statistics/1"): a pointer whose type
  // the id names, valid until `destroy`. Null when it has none of that id. May be null. [control]
  const void* (*extension)(void* instance, std::string_view id) noexcept = nullptr;
};

inline constexpr uint32_t kPluginLibraryMagic = 0x4e4e4554;  // "TENN"
inline constexpr uint32_t kMostPlugins = 256;                // of one library

// Grows as PluginDescriptor does.
struct PluginLibrary {
  uint32_t magic = kPluginLibraryMagic;
  uint32_t size = sizeof(PluginLibrary);
  const PluginDescriptor* const* descriptors = nullptr;
  uint32_t descriptor_count = 0;
};
inline constexpr const char* kPluginLibrarySymbol = "tenon_plugin_library_v1";

}  // namespace tenon
