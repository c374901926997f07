// The kinds of recurrences that state kernels are asked to run (docs/futures.md, "State kinds"), in
// small odd sizes, with their formulas in double precision.
#pragma once

#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

struct StateKind {
  using Arrays = std::vector<std::vector<float>>;

  std::string_view what;        // for messages: "mamba"
  std::string_view state_kind;  // LayerShape::state_kind
  std::vector<uint32_t> dims;
  uint32_t channels = 0, width = 0;  // of the convolution
  uint64_t state_floats = 0;         // after the rows that it keeps
  uint32_t out = 0;                  // elements of a row
  std::vector<uint32_t> inputs;      // elements of a row of each
  bool twice = false;  // a layer is called with the first input, then with what came of it and the
                       // others
  std::vector<uint64_t> parameters;  // elements of each
  // Turns numbers in [-1, 1] into what the kind's parameters may be.
  void (*settle)(Arrays& parameters) = nullptr;
  // y [rows, out] from nothing.
  std::vector<double> (*rows)(const StateKind& kind, const Arrays& parameters, const Arrays& inputs,
                              uint32_t rows) = nullptr;

  uint64_t kept_floats() const { return uint64_t{width - 1} * channels; }
  uint64_t all_floats() const { return kept_floats() + state_floats; }
};

std::span<const StateKind> state_kinds();

}  // namespace tenon
