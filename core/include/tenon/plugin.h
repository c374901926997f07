// What a plugin library exports: one C data symbol, a table of descriptors, and one ELF note, the
// stamp, which the host reads without loading the file.
//
//   constexpr PluginDescriptor kChunked = { .interface = kSchedulerInterface, .id = "chunked", … };
//   TENON_PLUGIN_LIBRARY(&kChunked)
//
// The note has owner "TENON", type 1, and text of `key=value` lines: note, sdk, boundary, layout,
// cxxabi, arch, compiler, build, cuda, plugins. A difference in arch, cxxabi, boundary or layout
// refuses the file before any of its code runs. docs/formats/plugin-stamp.md has the details.
#pragma once

#include <tenon/abi_generated.h>
#include <tenon/facts.h>
#include <tenon/host.h>
#include <tenon/layout.h>
#include <tenon/options.h>
#include <tenon/status.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon {

// Interface ids: name and revision. `create` returns a pointer to exactly this interface.
inline constexpr std::string_view kSchedulerInterface = "scheduler/1";
inline constexpr std::string_view kKvCacheInterface = "kv_cache/1";
inline constexpr std::string_view kAttentionInterface = "attention/1";
inline constexpr std::string_view kLinearInterface = "linear/1";
inline constexpr std::string_view kSamplerInterface = "sampler/1";
inline constexpr std::string_view kDrafterInterface = "drafter/1";

// All pointers and views refer to static storage of the library.
struct PluginDescriptor {
  uint32_t size = sizeof(PluginDescriptor);
  std::string_view interface = {};
  std::string_view id = {};       // [a-z][a-z0-9_]{0,31}; third parties: "vendor.name"
  std::string_view version = {};  // semantic version of this plugin
  std::string_view summary = {};  // one sentence
  std::string_view license = {};  // SPDX id

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
};

inline constexpr uint32_t kPluginLibraryMagic = 0x4e4e4554;  // "TENN"
struct PluginLibrary {
  uint32_t magic = kPluginLibraryMagic;
  uint32_t size = sizeof(PluginLibrary);
  const PluginDescriptor* const* descriptors = nullptr;
  uint32_t descriptor_count = 0;
};
inline constexpr const char* kPluginLibrarySymbol = "tenon_plugin_library_v1";

namespace detail {

// The note's text, padded with zero bytes to a fixed size.
struct StampText {
  char text[1000] = {};
  uint32_t length = 0;
  bool overflow = false;
  constexpr void add(std::string_view part) noexcept {
    for (char c : part) {
      if (length + 1 >= sizeof(text)) {
        overflow = true;
        return;
      }
      text[length++] = c;
    }
  }
  constexpr void add_hex(uint64_t value) noexcept {
    for (int shift = 60; shift >= 0; shift -= 4) {
      const char digit = "0123456789abcdef"[(value >> shift) & 15];
      add(std::string_view(&digit, 1));
    }
  }
};

constexpr std::string_view build_kind() noexcept {
#if defined(__SANITIZE_ADDRESS__)
  return "asan";
#elif defined(__SANITIZE_THREAD__)
  return "tsan";
#elif defined(NDEBUG)
  return "release";
#else
  return "debug";
#endif
}
constexpr std::string_view cxx_abi() noexcept {
#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
  return "itanium-libstdc++-cxx11";
#elif defined(__GLIBCXX__)
  return "itanium-libstdc++-old";
#else
  return "itanium-libc++";
#endif
}
constexpr std::string_view architecture() noexcept {
#if defined(__x86_64__)
  return "x86_64-linux";
#elif defined(__aarch64__)
  return "aarch64-linux";
#else
  return "unknown";
#endif
}

// Every line but `plugins`, the same for host and plugin when they fit.
constexpr void add_stamp_head(StampText& stamp) noexcept {
  stamp.add("note=1\nsdk=" TENON_SDK_VERSION "\nboundary=" TENON_BOUNDARY_HASH "\nlayout=");
  stamp.add_hex(layout_hash());
  stamp.add("\ncxxabi=");
  stamp.add(cxx_abi());
  stamp.add("\narch=");
  stamp.add(architecture());
  stamp.add("\ncompiler=" __VERSION__ "\nbuild=");
  stamp.add(build_kind());
#ifdef TENON_PLUGIN_CUDA_MAJOR
  stamp.add("\ncuda=" TENON_PLUGIN_CUDA_MAJOR);
#else
  stamp.add("\ncuda=none");
#endif
}

template <size_t count>
constexpr StampText make_stamp(const PluginDescriptor* const (&descriptors)[count]) noexcept {
  StampText stamp;
  add_stamp_head(stamp);
  stamp.add("\nplugins=");
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) stamp.add(",");
    stamp.add(descriptors[i]->interface);
    stamp.add(":");
    stamp.add(descriptors[i]->id);
  }
  stamp.add("\n");
  return stamp;
}

// 32-bit members and chars only: a note is aligned to 4 bytes.
struct StampNote {
  uint32_t owner_bytes = 6;
  uint32_t text_bytes = sizeof(StampText::text);
  uint32_t type = 1;
  char owner[8] = {'T', 'E', 'N', 'O', 'N', 0, 0, 0};
  char text[sizeof(StampText::text)] = {};
};
constexpr StampNote make_note(const StampText& stamp) noexcept {
  StampNote note;
  for (size_t i = 0; i < sizeof(note.text); ++i) note.text[i] = stamp.text[i];
  return note;
}

}  // namespace detail
}  // namespace tenon

// Once a library, at namespace scope; arguments are addresses of constexpr descriptors.
#define TENON_PLUGIN_LIBRARY(...)                                                        \
  namespace {                                                                            \
  constexpr const ::tenon::PluginDescriptor* kTenonDescriptors[] = {__VA_ARGS__};        \
  constexpr auto kTenonStamp = ::tenon::detail::make_stamp(kTenonDescriptors);           \
  static_assert(!kTenonStamp.overflow, "too many plugins in one library for its stamp"); \
  [[gnu::used, gnu::section(".note.tenon"),                                              \
    gnu::aligned(4)]] constexpr ::tenon::detail::StampNote kTenonNote =                  \
      ::tenon::detail::make_note(kTenonStamp);                                           \
  }                                                                                      \
  extern "C" [[gnu::visibility("default"),                                               \
               gnu::used]] constexpr ::tenon::PluginLibrary tenon_plugin_library_v1 = {  \
      ::tenon::kPluginLibraryMagic, sizeof(::tenon::PluginLibrary), kTenonDescriptors,   \
      sizeof(kTenonDescriptors) / sizeof(kTenonDescriptors[0])};
