#include <tenon/formats/lattices.h>
#include <tenon/sdk/linear/quant_lattices.h>

#include <array>
#include <cstdint>

namespace tenon::sdk {
namespace {

// kCount points of kValues values of kLevels levels, as bytes of a word.
template <uint32_t kCount, uint32_t kValues, uint32_t kLevels>
constexpr std::array<uint64_t, kCount> points_of(const char* steps) noexcept {
  std::array<uint64_t, kCount> points{};
  uint32_t code = 0;
  for (uint64_t& point : points) {
    for (; *steps == '~'; ++steps) code += 91;
    code += static_cast<uint32_t>(*steps++ - '#');
    uint32_t rest = code;
    for (uint32_t i = 0; i < kValues; ++i, rest /= kLevels) {
      point |= uint64_t{rest % kLevels} << (8 * i);
    }
  }
  return points;
}

constexpr auto kIq2Xxs = points_of<256, 8, 3>(kIq2XxsSteps);
constexpr auto kIq2Xs = points_of<512, 8, 3>(kIq2XsSteps);
constexpr auto kIq2S = points_of<1024, 8, 3>(kIq2SSteps);
constexpr auto kIq3Xxs = points_of<256, 4, 8>(kIq3XxsSteps);
constexpr auto kIq3S = points_of<512, 4, 8>(kIq3SSteps);
constexpr auto kIq1 = points_of<2048, 8, 3>(kIq1Steps);

template <size_t kCount>
uint64_t point_of(const std::array<uint64_t, kCount>& points, uint32_t index) noexcept {
  return points[index < kCount ? index : kCount - 1];
}

}  // namespace

uint64_t lattice_point(Lattice lattice, uint32_t index) noexcept {
  switch (lattice) {
    case Lattice::iq2_xxs:
      return point_of(kIq2Xxs, index);
    case Lattice::iq2_xs:
      return point_of(kIq2Xs, index);
    case Lattice::iq2_s:
      return point_of(kIq2S, index);
    case Lattice::iq3_xxs:
      return point_of(kIq3Xxs, index);
    case Lattice::iq3_s:
      return point_of(kIq3S, index);
    case Lattice::iq1:
      break;
  }
  return point_of(kIq1, index);
}

}  // namespace tenon::sdk
