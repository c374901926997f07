#include "core/base/machine/cpu_features.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tenon {
namespace {

struct NamedSet {
  std::string_view name;
  CpuFeatures features;
};
// In the order of NamedIsa.
constexpr NamedSet kNamedSets[] = {{"portable", kCpuPortable},
                                   {"avx2", kCpuAvx2},
                                   {"avx_vnni", kCpuAvxVnni},
                                   {"avx512", kCpuAvx512},
                                   {"avx512_vnni", kCpuAvx512Vnni},
                                   {"avx512_bf16", kCpuAvx512Bf16},
                                   {"neon", kCpuNeon},
                                   {"neon_dotprod", kCpuNeonDotprod},
                                   {"neon_i8mm", kCpuNeonI8mm},
                                   {"neon_bf16", kCpuNeonBf16}};

// All AArch64 processors have neon, no other has.
bool same_kind(CpuFeatures host, CpuFeatures set) {
  return set == kCpuPortable || set.has(CpuFeature::neon) == host.has(CpuFeature::neon);
}

// "portable", "avx2", …: the sets for which `wanted` holds.
template <typename Wanted>
std::string names_of_sets(Wanted wanted) {
  std::string names;
  for (const NamedSet& set : kNamedSets) {
    if (wanted(set.features))
      names += (names.empty() ? "\"" : ", \"") + std::string(set.name) + "\"";
  }
  return names;
}

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
#elif defined(__aarch64__)
// What the system says in its auxiliary vector; the bits are of its own header, which older ones
// lack in part.
CpuFeatures detect_arm_features() {
  const uint64_t first = getauxval(AT_HWCAP);
  const uint64_t second = getauxval(AT_HWCAP2);
  CpuFeatures found;
  const auto add = [&found](CpuFeature feature, uint64_t word, int bit) {
    if ((word >> bit & 1) != 0) found.bits |= CpuFeatures{feature}.bits;
  };
  add(CpuFeature::neon, first, 1);
  add(CpuFeature::dotprod, first, 20);
  add(CpuFeature::sve, first, 22);
  add(CpuFeature::sve2, second, 1);
  add(CpuFeature::i8mm, second, 13);
  add(CpuFeature::bf16, second, 14);
  return found;
}

struct NamedPart {
  uint32_t implementer, part;
  std::string_view name;
};
// Of Arm (0x41), Ampere (0xc0) and Apple (0x61), as Linux's arch/arm64/include/asm/cputype.h.
constexpr NamedPart kParts[] = {{0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd07, "Arm Cortex-A57"},
                                {0x41, 0xd08, "Arm Cortex-A72"},  {0x41, 0xd09, "Arm Cortex-A73"},
                                {0x41, 0xd0b, "Arm Cortex-A76"},  {0x41, 0xd0c, "Arm Neoverse N1"},
                                {0x41, 0xd40, "Arm Neoverse V1"}, {0x41, 0xd49, "Arm Neoverse N2"},
                                {0x41, 0xd4f, "Arm Neoverse V2"}, {0xc0, 0xac3, "Ampere-1"},
                                {0x61, 0x022, "Apple M1"},        {0x61, 0x032, "Apple M2"}};

// The system lets programs read the register, and says so.
std::string arm_brand() {
  constexpr uint64_t kCpuid = 1u << 11;
  if ((getauxval(AT_HWCAP) & kCpuid) == 0) return {};
  uint64_t id = 0;
  __asm__("mrs %0, midr_el1" : "=r"(id));
  const uint32_t implementer = id >> 24 & 0xff, part = id >> 4 & 0xfff;
  for (const NamedPart& known : kParts) {
    if (known.implementer == implementer && known.part == part) return std::string(known.name);
  }
  char text[64];
  std::snprintf(text, sizeof(text), "AArch64 processor, implementer 0x%02x, part 0x%03x",
                implementer, part);
  return text;
}
#endif

}  // namespace

CpuFeatures detect_cpu_features() {
#if defined(__x86_64__)
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kAvx2 = 1u << 5;
  constexpr uint32_t kFoundation = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint32_t kYmmState = 0x6;       // SSE and AVX
  constexpr uint32_t kZmmState = 0xe6;      // … and masks, upper halves, registers 16 to 31
  constexpr uint32_t kTileState = 0x60000;  // tiles and their configuration
  CpuFeatures found;
  if (!has_all(cpuid(1).c, kFma | kOsxsave | kAvx | kF16c)) return found;
  const uint32_t saved = saved_register_sets();
  const CpuidLeaf extended = cpuid(7);
  const CpuidLeaf further = extended.a < 1 ? CpuidLeaf{} : cpuid(7, 1);
  const auto add = [&found](CpuFeature feature, uint32_t word, int bit) {
    if ((word >> bit & 1) != 0) found.bits |= CpuFeatures{feature}.bits;
  };
  if (!has_all(saved, kYmmState) || !has_all(extended.b, kAvx2)) return found;
  found = kCpuAvx2;
  add(CpuFeature::avx_vnni, further.a, 4);
  if (!has_all(saved, kZmmState) || !has_all(extended.b, kFoundation | kDq | kBw | kVl)) {
    return found;
  }
  found.bits |= kCpuAvx512.bits;
  add(CpuFeature::avx512_vnni, extended.c, 11);
  add(CpuFeature::avx512_bf16, further.a, 5);
  add(CpuFeature::avx512_fp16, extended.d, 23);
  if (!has_all(saved, kTileState)) return found;
  add(CpuFeature::amx_bf16, extended.d, 22);
  add(CpuFeature::amx_tile, extended.d, 24);
  add(CpuFeature::amx_int8, extended.d, 25);
  return found;
#elif defined(__aarch64__)
  return detect_arm_features();
#else
  return {};
#endif
}

bool detect_slow_bf16_dot() {
#if defined(__x86_64__)
  return vendor() != "AuthenticAMD";
#else
  return true;
#endif
}

CpuFeatures features_of(NamedIsa isa) {
  return kNamedSets[static_cast<size_t>(isa)].features;
}

CpuFeatures lowered(CpuFeatures host, CpuFeatures chosen) {
  host.bits &= chosen.bits;
  return host;
}

Status check_chosen_isa(CpuFeatures host, CpuFeatures chosen) {
  if (same_kind(host, chosen)) return {};
  return invalid_argument("instruction set \"" + std::string(cpu_isa_name(chosen)) +
                          "\" is another kind of processor's; choose one of " +
                          names_of_sets([&](CpuFeatures set) { return same_kind(host, set); }));
}

std::string_view cpu_isa_name(CpuFeatures features) {
  std::string_view name;
  for (const NamedSet& set : kNamedSets) {
    if (features.has_all(set.features)) name = set.name;
  }
  return name;
}

Result<CpuFeatures> parse_cpu_isa(std::string_view name) {
  for (const NamedSet& set : kNamedSets) {
    if (set.name == name) return set.features;
  }
  return invalid_argument("instruction set \"" + std::string(name) +
                          "\" is not known; choose one of " +
                          names_of_sets([](CpuFeatures) { return true; }));
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
#elif defined(__aarch64__)
  text = arm_brand();
#endif
  text.resize(std::strlen(text.c_str()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  text.erase(0, text.find_first_not_of(' '));
  return text.empty() ? "unknown processor" : text;
}

}  // namespace tenon
