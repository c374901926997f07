#include "core/report/machine_use.h"

#include <algorithm>

#include "core/report/pages/format.h"

namespace tenon {
namespace {

// A limit that is passed by more than that is none.
constexpr double kCredible = 1.05;
constexpr double kLeastShare = 0.01;  // of a piece, for a phase to be spoken of

double counter(const MeasuredPiece& piece, std::string_view phase, const char* name) {
  const auto found = piece.counters.find(std::string(phase) + "_" + name);
  return found == piece.counters.end() ? 0.0 : found->second;
}

// 0 where a rate that is needed was not measured.
double limit_of(const MeasuredPiece& piece, std::string_view phase) {
  const auto rate = [&](double MachineState::*of) {
    return (piece.before.*of + piece.after.*of) / 2 * 1e9;
  };
  const MachineRates rates = {.read_bytes = rate(&MachineState::read_gbps),
                              .f32 = rate(&MachineState::fma_gflops),
                              .bf16 = rate(&MachineState::bf16_gflops),
                              .int8 = rate(&MachineState::int8_gops)};
  if (rates.read_bytes <= 0 || rates.f32 <= 0) return 0;
  const auto need = [&](const char* name) { return counter(piece, phase, name); };
  return least_seconds({.weight_bytes = need("weight_bytes"),
                        .kv_bytes = need("kv_bytes"),
                        .int8_operations = need("int8_operations"),
                        .bf16_operations = need("bf16_operations"),
                        .f32_operations = need("f32_operations")},
                       rates);
}

std::string use_text(const PhaseUse& use) {
  return format("%.2f GB of weights, %.2f GB of K and V and %.3f TOP a piece",
                use.weight_bytes / 1e9, use.kv_bytes / 1e9, use.operations / 1e12);
}

}  // namespace

double least_seconds(const MachineNeeds& needs, const MachineRates& rates) {
  const double computing = needs.int8_operations / std::max(rates.int8, rates.f32) +
                           needs.bf16_operations / std::max(rates.bf16, rates.f32) +
                           needs.f32_operations / rates.f32;
  return std::max(needs.weight_bytes / rates.read_bytes, computing) +
         needs.kv_bytes / rates.read_bytes;
}

PhaseUse use_of(std::span<const MeasuredPiece* const> pieces, std::string_view phase) {
  PhaseUse use;
  const double count = std::max<double>(1, static_cast<double>(pieces.size()));
  bool known = true;
  for (const MeasuredPiece* piece : pieces) {
    use.weight_bytes += counter(*piece, phase, "weight_bytes") / count;
    use.kv_bytes += counter(*piece, phase, "kv_bytes") / count;
    for (const char* kind : {"int8_operations", "bf16_operations", "f32_operations"}) {
      use.operations += counter(*piece, phase, kind) / count;
    }
    use.seconds += (phase == "prefill" ? piece->prefill : piece->decode)[0] / count;
    const double limit = limit_of(*piece, phase);
    known = known && limit > 0;
    use.limit_seconds += limit / count;
  }
  if (!known) use.limit_seconds = 0;
  return use;
}

std::vector<std::string> machine_use(std::span<const MeasuredPiece* const> base,
                                     std::span<const MeasuredPiece* const> arm,
                                     const std::string& base_name, bool simulated) {
  std::vector<std::string> out;
  double whole = 0;
  for (const MeasuredPiece* piece : arm) whole += piece->seconds / static_cast<double>(arm.size());
  for (const char* phase : {"prefill", "decode"}) {
    const PhaseUse of_base = use_of(base, phase), of_arm = use_of(arm, phase);
    if (of_arm.limit_seconds <= 0 || of_arm.seconds < kLeastShare * whole) continue;
    std::string text = std::string(phase) + " needs " + use_text(of_arm);
    if (std::max(of_arm.fraction(), of_base.fraction()) > kCredible) {
      text += simulated ? "; no part of the limit is given, since steps read faster than the "
                          "machine's file says of its memory"
                        : "; no part of the limit is given, since steps read faster than memory "
                          "was measured to: weights stay in the caches, or others used the memory "
                          "meanwhile";
    } else {
      text += format(": %.2f of the limit", of_arm.fraction());
      if (of_base.limit_seconds > 0) {
        text += "; " + base_name + format(": %.2f", of_base.fraction());
      }
    }
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace tenon
