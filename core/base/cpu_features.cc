#include "core/base/cpu_features.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tenon {
namespace {

constexpr std::string_view kIsaNames[] = {"portable", "avx2", "avx512", "avx512_vnni",
                                          "avx512_bf16"};

#if defined(__x86_64__)
struct CpuidLeaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

// All zero for a leaf that the processor does not have.
CpuidLeaf cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  CpuidLeaf out;
  __get_cpuid_count(leaf, subleaf, &out.a, &out.b, &out.c, &out.d);
  return out;
}

constexpr bool has_all(uint32_t value, uint32_t bits) {
  return (value & bits) == bits;
}

// Register sets that the operating system saves: XCR0.
uint32_t saved_register_sets() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

std::string vendor() {
  const CpuidLeaf leaf = cpuid(0);
  char text[12];
  std::memcpy(text, &leaf.b, 4);
  std::memcpy(text + 4, &leaf.d, 4);
  std::memcpy(text + 8, &leaf.c, 4);
  return std::string(text, sizeof(text));
}
#endif

}  // namespace

CpuIsa detect_cpu_isa() {
#if defined(__x86_64__)
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kAvx2 = 1u << 5;
  constexpr uint32_t kFoundation = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint32_t kVnni = 1u << 11;
  constexpr uint32_t kBf16 = 1u << 5;
  constexpr uint32_t kYmmState = 0x6;   // SSE and AVX
  constexpr uint32_t kZmmState = 0xe6;  // … and masks, upper halves, registers 16 to 31
  if (!has_all(cpuid(1).c, kFma | kOsxsave | kAvx | kF16c)) return CpuIsa::portable;
  const uint32_t saved = saved_register_sets();
  const CpuidLeaf extended = cpuid(7);
  if (!has_all(saved, kYmmState) || !has_all(extended.b, kAvx2)) return CpuIsa::portable;
  if (!has_all(saved, kZmmState) || !has_all(extended.b, kFoundation | kDq | kBw | kVl)) {
    return CpuIsa::avx2;
  }
  if (!has_all(extended.c, kVnni)) return CpuIsa::avx512;
  if (extended.a < 1 || !has_all(cpuid(7, 1).a, kBf16)) return CpuIsa::avx512_vnni;
  return CpuIsa::avx512_bf16;
#else
  return CpuIsa::portable;
#endif
}

bool detect_slow_bf16_dot() {
#if defined(__x86_64__)
  return vendor() != "AuthenticAMD";
#else
  return true;
#endif
}

std::string_view cpu_isa_name(CpuIsa isa) {
  const auto index = static_cast<size_t>(isa);
  return index < std::size(kIsaNames) ? kIsaNames[index] : "?";
}

Result<CpuIsa> parse_cpu_isa(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < std::size(kIsaNames); ++i) {
    if (kIsaNames[i] == name) return static_cast<CpuIsa>(i);
    known += (i == 0 ? "\"" : ", \"") + std::string(kIsaNames[i]) + "\"";
  }
  return invalid_argument("instruction set \"" + std::string(name) +
                          "\" is not known; choose one of " + known);
}

std::string cpu_brand() {
  std::string text;
#if defined(__x86_64__)
  if (cpuid(0x80000000u).a >= 0x80000004u) {
    for (uint32_t leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf) {
      const CpuidLeaf part = cpuid(leaf);
      text.append(reinterpret_cast<const char*>(&part), sizeof(part));
    }
  }
#endif
  text.resize(std::strlen(text.c_str()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  text.erase(0, text.find_first_not_of(' '));
  return text.empty() ? "unknown processor" : text;
}

}  // namespace tenon
