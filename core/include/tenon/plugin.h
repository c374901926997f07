// A plugin library exports one C data symbol, a table of descriptors, and one ELF note, the stamp,
// which the host reads without loading the file.
//
//   constexpr PluginDescriptor kChunked = sdk::descriptor<Scheduler, Chunked>({.id = "chunked",
//   …}); TENON_PLUGIN_LIBRARY(&kChunked)
//
// The note has owner "TENON", type 1, and text of `key=value` lines: note, sdk, boundary, layout,
// cxxabi, arch, compiler, build, cuda, plugins. A difference in arch, cxxabi, boundary or layout
// refuses the file before any of its code runs. docs/formats/plugin-stamp.md has the details.
#pragma once

#include <tenon/abi_generated.h>
#include <tenon/descriptor.h>
#include <tenon/layout.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon {

inline constexpr uint32_t kMostStampBytes = 65536;  // of a stamp's text

namespace detail {

// Counts what a stamp's text takes …
struct StampLength {
  uint32_t length = 0;
  constexpr void add(std::string_view part) noexcept {
    length += static_cast<uint32_t>(part.size());
  }
};
// … and holds it, padded with zero bytes to what a note is aligned to.
template <uint32_t bytes>
struct StampText {
  char text[(bytes + 4) / 4 * 4] = {};
  uint32_t length = 0;
  constexpr void add(std::string_view part) noexcept {
    for (char c : part) text[length++] = c;
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
template <typename Out>
constexpr void add_stamp_head(Out& out) noexcept {
  char layout[16] = {};
  for (int i = 0; i < 16; ++i) layout[i] = "0123456789abcdef"[(layout_hash() >> (60 - 4 * i)) & 15];
  out.add("note=1\nsdk=" TENON_SDK_VERSION "\nboundary=" TENON_BOUNDARY_HASH "\nlayout=");
  out.add(std::string_view(layout, sizeof(layout)));
  out.add("\ncxxabi=");
  out.add(cxx_abi());
  out.add("\narch=");
  out.add(architecture());
  out.add("\ncompiler=" __VERSION__ "\nbuild=");
  out.add(build_kind());
#ifdef TENON_PLUGIN_CUDA_MAJOR
  out.add("\ncuda=" TENON_PLUGIN_CUDA_MAJOR);
#else
  out.add("\ncuda=none");
#endif
}

template <typename Out, size_t count>
constexpr Out stamp_of(const PluginDescriptor* const (&descriptors)[count]) noexcept {
  Out out;
  add_stamp_head(out);
  for (size_t i = 0; i < count; ++i) {
    out.add(i == 0 ? "\nplugins=" : ",");
    out.add(descriptors[i]->interface);
    out.add(":");
    out.add(descriptors[i]->id);
  }
  out.add("\n");
  return out;
}

// 32-bit members and chars only: a note is aligned to 4 bytes.
template <uint32_t bytes>
struct StampNote {
  uint32_t owner_bytes = 6;
  uint32_t text_bytes = sizeof(StampText<bytes>::text);
  uint32_t type = 1;
  char owner[8] = {'T', 'E', 'N', 'O', 'N', 0, 0, 0};
  char text[sizeof(StampText<bytes>::text)] = {};
};
template <uint32_t bytes>
constexpr StampNote<bytes> make_note(const StampText<bytes>& stamp) noexcept {
  StampNote<bytes> note;
  for (size_t i = 0; i < sizeof(note.text); ++i) note.text[i] = stamp.text[i];
  return note;
}

}  // namespace detail
}  // namespace tenon

// Once a library, at namespace scope; arguments are addresses of constexpr descriptors.
#define TENON_PLUGIN_LIBRARY(...)                                                               \
  namespace {                                                                                   \
  constexpr const ::tenon::PluginDescriptor* kTenonDescriptors[] = {__VA_ARGS__};               \
  constexpr uint32_t kTenonCount = sizeof(kTenonDescriptors) / sizeof(kTenonDescriptors[0]);    \
  static_assert(kTenonCount <= ::tenon::kMostPlugins,                                           \
                "a library holds at most 256 plugins; build the others into a second library"); \
  constexpr uint32_t kTenonStampBytes =                                                         \
      ::tenon::detail::stamp_of<::tenon::detail::StampLength>(kTenonDescriptors).length;        \
  static_assert(kTenonStampBytes < ::tenon::kMostStampBytes,                                    \
                "the plugins' ids are too long for one stamp; build two libraries");            \
  [[gnu::used, gnu::section(".note.tenon"),                                                     \
    gnu::aligned(4)]] constexpr ::tenon::detail::StampNote<kTenonStampBytes>                    \
      kTenonNote = ::tenon::detail::make_note(                                                  \
          ::tenon::detail::stamp_of<::tenon::detail::StampText<kTenonStampBytes>>(              \
              kTenonDescriptors));                                                              \
  }                                                                                             \
  extern "C" [[gnu::visibility("default"),                                                      \
               gnu::used]] constexpr ::tenon::PluginLibrary tenon_plugin_library_v1 = {         \
      ::tenon::kPluginLibraryMagic, sizeof(::tenon::PluginLibrary), kTenonDescriptors,          \
      kTenonCount};
