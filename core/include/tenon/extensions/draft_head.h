// Extensions of the host (HostServices::extension) for drafters that run a head: a small model that
// drafts from the target's own hidden states, as model_runner/2. Each name has its version in it;
// null: the pipeline has none. What they lead to lives as long as the plugin.
#pragma once

#include <string_view>

namespace tenon {

// `const HiddenLayersOut*`: the layers of the target whose states the head reads, rising.
inline constexpr std::string_view kDraftHead = "draft_head/1";
// `int8_t* const*`: whether an EAGLE-3 head's first norm comes before the residual: 1 or 0, or -1
// where its checkpoint does not say; the drafter says it then.
inline constexpr std::string_view kHeadNormBeforeResidual = "head_norm_before_residual/1";
// `const std::string_view*`: which kind the head is: "eagle3" or "mtp".
inline constexpr std::string_view kDraftHeadKind = "draft_head_kind/1";
// `const ModelShape*`: of the second model, head or not.
inline constexpr std::string_view kModelRunnerShape = "model_runner_shape/1";

}  // namespace tenon
