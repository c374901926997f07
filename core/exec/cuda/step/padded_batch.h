// A step in which every sequence has one row, filled up to one of a few sizes, so that the launches
// of a captured step serve it. Each row of padding is a sequence of its own, of token 0 at position
// 0, whose K and V go to a block behind those of the cache that is the padding's, and whose state
// goes nowhere. So padding is computed as any row is, by kernels that know nothing of it, and no
// row sees another one's.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::cuda {

// Above it a step's launches cost little beside what they compute.
inline constexpr uint32_t kMostPaddedRows = 256;

// The next power of two, or the most rows that there may be.
uint32_t padded_size(uint32_t rows, uint32_t most);
// The most rows of padding that a step of a size up to `most` can have.
uint32_t most_padding(uint32_t most);
// Blocks that so many rows of padding need in a group.
constexpr uint32_t padding_blocks(uint32_t rows, uint32_t block_tokens) {
  return (rows + block_tokens - 1) / block_tokens;
}

class PaddedBatch {
 public:
  // Whether `batch` may be padded and captured: one row for each sequence, and nothing is wanted of
  // what stands between its layers.
  static bool fits(const BatchView& batch, uint32_t most);

  // `batch` filled up to `rows`. Valid until the next call, and while what `batch` shows is.
  const BatchView& pad(const BatchView& batch, std::span<const KvGroupGeometry> groups,
                       uint32_t rows);

 private:
  struct Group {
    std::vector<uint32_t> slots, kv_tokens;
    std::vector<KvTableView> tables;
    std::vector<BlockId> blocks;  // of the padding
  };
  void pad_group(const BatchGroup& from, const KvGroupGeometry& geometry, uint32_t padding,
                 Group& to);

  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_, logits_rows_;
  std::vector<BatchSequence> sequences_;
  std::vector<Group> groups_;
  std::vector<BatchGroup> views_;
  BatchView batch_;
};

}  // namespace tenon::cuda
