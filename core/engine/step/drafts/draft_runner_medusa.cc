// Medusa's drafts: products of the target's last state, which need no layers and no K/V.
#include <algorithm>
#include <limits>

#include "core/engine/step/drafts/draft_runner.h"
#include "core/exec/head_products.h"

namespace tenon {

Status DraftRunner::run_medusa(std::span<const RunnerBlock> blocks, std::span<const float*> logits,
                               std::span<const float*> hidden) {
  const Head& head = *parts_.head;
  const size_t width = head.features;
  std::vector<size_t> first(blocks.size());
  for (size_t i = 0, at = 0; i < blocks.size(); at += blocks[i++].tokens) {
    TENON_RETURN_IF_ERROR(check(blocks[i]));
    const TensorView& states = blocks[i].hidden;
    if (states.data == nullptr || states.shape[0] == 0 || states.shape[1] != width) {
      return invalid_argument("a block of sequence " + std::to_string(blocks[i].seq) +
                              " lacks the target's state after its last token but one");
    }
    first[i] = at;
  }
  logits_.assign(logits.size() * vocabulary(), -std::numeric_limits<float>::infinity());
  hidden_.resize(hidden.size() * width);
  std::vector<size_t> rows;  // of what is given out
  std::vector<float> x, made;
  for (uint32_t token = 0; token < head.block.tokens; ++token) {
    rows.clear();
    x.clear();
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].tokens <= token) continue;
      const TensorView& states = blocks[i].hidden;
      const float* last =
          static_cast<const float*>(states.data) + (states.shape[0] - 1) * states.stride[0];
      rows.push_back(first[i] + token);
      x.insert(x.end(), last, last + width);
    }
    if (rows.empty()) break;
    run_medusa_head(*parts_.executor, head.medusa[token], x, made);
    const size_t columns = made.size() / rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      float* to = &logits_[rows[i] * vocabulary()];
      for (size_t n = 0; n < columns; ++n) {
        to[head.token_ids.empty() ? n : static_cast<size_t>(head.token_ids[n])] =
            made[i * columns + n];
      }
      std::copy_n(&x[i * width], width, &hidden_[rows[i] * width]);
      logits[rows[i]] = to;
      hidden[rows[i]] = &hidden_[rows[i] * width];
    }
  }
  rows_computed_ += logits.size();
  return {};
}

}  // namespace tenon
