#include "plugins/linear/onednn/library.h"

#include <cstdio>
#include <string>

// OpenMP's own declarations need a header of the compiler's version of it; these two never change.
extern "C" {
int omp_get_max_threads() noexcept;
void omp_set_num_threads(int count) noexcept;
}

namespace tenon::onednn {
namespace {

std::string_view name_of(dnnl::cpu_isa isa) noexcept {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "any";
  }
}

dnnl::cpu_isa limit_for(CpuFeatures cpu) noexcept {
  if (cpu.has_all(kCpuAvx512Bf16)) return dnnl::cpu_isa::all;
  if (cpu.has_all(kCpuAvx512Vnni)) return dnnl::cpu_isa::avx512_core_vnni;
  if (cpu.has_all(kCpuAvx512)) return dnnl::cpu_isa::avx512_core;
  if (cpu.has_all(kCpuAvx2)) return dnnl::cpu_isa::avx2;
  return dnnl::cpu_isa::sse41;
}

// oneDNN's sets are masks of bits; each holds those of the sets below it.
bool exceeds(dnnl::cpu_isa used, dnnl::cpu_isa limit) noexcept {
  return (static_cast<unsigned>(used) & ~static_cast<unsigned>(limit)) != 0;
}

}  // namespace

OneThread::OneThread() noexcept : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

void limit_instruction_set(const HostServices& host) noexcept {
  const dnnl::cpu_isa limit = limit_for(host.facts->cpu);
  if (limit == dnnl::cpu_isa::all) return;
  static_cast<void>(dnnl_set_max_cpu_isa(static_cast<dnnl_cpu_isa_t>(limit)));
  const auto used = static_cast<dnnl::cpu_isa>(dnnl_get_effective_cpu_isa());
  if (!exceeds(used, limit)) return;
  const std::string text = "oneDNN was first used in this process with " +
                           std::string(name_of(used)) + " and cannot go back to " +
                           std::string(name_of(limit)) + "; start again for the lower set";
  host.log(host.context, LogLevel::warning, text);
}

std::string_view numerics_name() noexcept {
  struct Text {
    char text[64] = {};
    Text() noexcept {
      const dnnl_version_t* version = dnnl_version();
      const auto used = static_cast<dnnl::cpu_isa>(dnnl_get_effective_cpu_isa());
      std::snprintf(text, sizeof(text), "onednn-%d.%d.%d/%s", version->major, version->minor,
                    version->patch, name_of(used).data());
    }
  };
  static const Text kName;
  return kName.text;
}

}  // namespace tenon::onednn
