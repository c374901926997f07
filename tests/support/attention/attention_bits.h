// What a row of attention may not depend on: how a prompt is cut, what else is in a tree, and
// blocks, slices and neighbours.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support/attention/attention_rig.h"

namespace tenon {

// A prompt at once and in chunks of several sizes.
inline void expect_same_bits_for_chunks(const Shape& shape, CpuFeatures isa) {
  constexpr uint32_t kTokens = 1100;
  Rig whole(shape, isa);
  const auto all = whole.step({{0, 0, kTokens}});
  for (uint32_t chunk : {1u, 7u, 64u, 500u}) {
    Rig rig(shape, isa);
    for (uint32_t begin = 0; begin < kTokens; begin += chunk) {
      const uint32_t count = std::min(chunk, kTokens - begin);
      const auto out = rig.step({{0, begin, count}}, 1 + begin % 3);
      ASSERT_TRUE(same_bits(out.data(), &all[begin * rig.row_floats()], out.size()))
          << "chunk " << chunk << " at " << begin << " window " << shape.window_tokens << " "
          << dtype_name(shape.dtype) << " head_dim " << shape.head_dim;
    }
  }
}

// A tree of twelve rows of three roots, after `before` tokens: each row has the bits that it has
// at the end of a chain of the rows that lead to it; so has what follows an accepted path.
inline void expect_same_bits_for_paths(const Shape& shape, uint32_t before, CpuFeatures isa) {
  const std::vector<int32_t> parents = {-1, 0, 0, -1, 1, 1, 4, 2, 6, 3, 8, -1};
  const auto rows = static_cast<uint32_t>(parents.size());
  std::vector<uint32_t> tokens(rows);
  std::iota(tokens.begin(), tokens.end(), 3000u);
  Rig tree(shape, isa);
  Rig chain(shape, isa);
  const size_t row_floats = tree.row_floats();
  if (before > 0) {
    tree.step({{0, 0, before}});
    chain.step({{0, 0, before}});
  }
  const auto out = tree.step({{{0, before, rows}}, tokens, parents}, 2);
  for (uint32_t row = 0; row < rows; ++row) {
    std::vector<uint32_t> path;
    for (auto at = static_cast<int32_t>(row); at >= 0; at = parents[static_cast<size_t>(at)]) {
      path.insert(path.begin(), static_cast<uint32_t>(at) + 3000u);
    }
    const auto depth = static_cast<uint32_t>(path.size());
    const auto expected = chain.step({{{0, before, depth}}, path, {}});
    ASSERT_TRUE(same_bits(&out[row * row_floats], &expected[(depth - 1) * row_floats], row_floats))
        << "row " << row << " behind " << before << " " << dtype_name(shape.dtype) << " head_dim "
        << shape.head_dim << " block " << shape.block_tokens << " window " << shape.window_tokens;
  }
  const std::vector<uint32_t> accepted = {0, 1, 4, 6, 8, 10};
  for (uint32_t i = 0; i < accepted.size(); ++i) tree.move(0, before + accepted[i], before + i);
  chain.step({{{0, before, 6}}, {3000, 3001, 3004, 3006, 3008, 3010}, {}});
  const auto next = tree.step({{0, before + 6, 1}});
  const auto expected = chain.step({{0, before + 6, 1}});
  ASSERT_TRUE(same_bits(next.data(), expected.data(), row_floats)) << "behind the accepted path";
}

// A long text's next row in blocks of several sizes that lie backwards, in one slice and in
// three, alone and with another sequence.
inline void expect_same_bits_for_blocks(const Shape& shape, CpuFeatures isa) {
  constexpr uint32_t kTokens = 1101;
  Rig first(shape, isa, 2, 1);
  first.step({{1, 0, kTokens}});
  const auto expected = first.step({{1, kTokens, 1}});
  for (uint32_t block : {1u, 16u, 100u, 2048u}) {
    Shape other = shape;
    other.block_tokens = block;
    Rig rig(other, isa, 2, 1 + block % 7);
    std::reverse(rig.table(1).begin(), rig.table(1).end());
    rig.step({{1, 0, kTokens}}, 2);
    const auto out = rig.step({{0, 0, 5}, {1, kTokens, 1}}, 3);
    EXPECT_TRUE(same_bits(&out[5 * rig.row_floats()], expected.data(), expected.size()))
        << "block " << block << " head_dim " << shape.head_dim << " " << dtype_name(shape.dtype);
  }
}

// NaN in one token: rows before it have their bits, those after it are NaN.
inline void expect_poison_unseen(const Shape& shape, uint32_t tokens, CpuFeatures isa) {
  const auto expected = Rig(shape, isa).step({{0, 0, tokens}});
  for (uint32_t token : {1u, 2u, 65u, 66u, 70u, 71u, 99u}) {
    Rig rig(shape, isa);
    rig.poison(0, token);
    const auto out = rig.step({{0, 0, tokens}});
    const size_t before = token * rig.row_floats();
    EXPECT_TRUE(same_bits(out.data(), expected.data(), before)) << token;
    for (size_t i = before; i < out.size(); ++i) {
      ASSERT_TRUE(std::isnan(out[i])) << dtype_name(shape.dtype) << " " << token << " " << i;
    }
  }
}

}  // namespace tenon
