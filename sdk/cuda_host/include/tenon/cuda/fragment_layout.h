// Which lane holds which element of the matrices that mma.sync and ldmatrix work on (PTX ISA 8.0,
// section 9.7.14.4). `element` counts a lane's elements in the order of its registers, low bits
// first. tests/cuda_host holds this against a table made from CuTe's headers.
#pragma once

#include <cstdint>

namespace tenon::cuda {

struct FragmentPlace {
  uint32_t row = 0;
  uint32_t column = 0;
  friend constexpr bool operator==(FragmentPlace, FragmentPlace) = default;
};

// A [16, 16] of two-byte elements, 8 a lane.
constexpr FragmentPlace a_place_16(uint32_t lane, uint32_t element) {
  return {lane / 4 + element / 2 % 2 * 8, lane % 4 * 2 + element % 2 + element / 4 * 8};
}
// B [16, 8] of two-byte elements, 4 a lane: row is k, column is n.
constexpr FragmentPlace b_place_16(uint32_t lane, uint32_t element) {
  return {lane % 4 * 2 + element % 2 + element / 2 * 8, lane / 4};
}
// A [16, 32] of bytes, 16 a lane.
constexpr FragmentPlace a_place_8(uint32_t lane, uint32_t element) {
  return {lane / 4 + element / 4 % 2 * 8, lane % 4 * 4 + element % 4 + element / 8 * 16};
}
// B [32, 8] of bytes, 8 a lane.
constexpr FragmentPlace b_place_8(uint32_t lane, uint32_t element) {
  return {lane % 4 * 4 + element % 4 + element / 4 * 16, lane / 4};
}
// D [16, 8] of four-byte elements, 4 a lane.
constexpr FragmentPlace d_place(uint32_t lane, uint32_t element) {
  return {lane / 4 + element / 2 * 8, lane % 4 * 2 + element % 2};
}
// What ldmatrix gives a lane of an [8, 8] matrix of two-byte elements, 2 a lane; transposed, rows
// and columns change places.
constexpr FragmentPlace matrix_place(uint32_t lane, uint32_t element) {
  return {lane / 4, lane % 4 * 2 + element};
}

}  // namespace tenon::cuda
