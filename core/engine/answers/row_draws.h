// Rows whose tokens an executor draws where their logits are, in place of a sampler that says that
// it would draw the same: logits stay on the device, and sampling waits for nothing.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

// What a sampler offers whose draws are those of docs/strategies/samplers.md ("Drawn elsewhere"): a
// `const std::string_view`, the stages in the order in which it applies them.
inline constexpr std::string_view kRowDraws = "row_draws/1";

// How a request's row is drawn; nothing where only the sampler can tell, as with stages that look
// back, or that need what no device rounds as the host does.
std::optional<RowDraw> row_draw_of(const Request& request, std::span<const SamplingStage> order,
                                   const RandomKey& key);

// The token that was drawn from a row of logits; kNoToken: none was, its logits are there.
inline TokenId drawn_token(const StepOutput& output, uint32_t row) {
  return output.drawn.empty() ? kNoToken : output.drawn[row];
}

class RowDraws {
 public:
  explicit RowDraws(const EngineContext& context) : context_(context) {}

  // Of a step that is to be launched; valid until the next call.
  std::span<const RowDraw> of(const Step& step);

 private:
  bool may_draw(const Share& share) const;
  void add(const Share& share);

  const EngineContext& context_;
  std::vector<RowDraw> draws_;
};

}  // namespace tenon
