// What drafters have in common that run a second model (model_runner/2) token by token.
#pragma once

#include <tenon/drafter.h>
#include <tenon/facts.h>
#include <tenon/host.h>
#include <tenon/model_runner.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::sdk {

inline constexpr Fact kModelDraftNeeds[] = {
    {.key = "draft.needs", .op = FactOp::in, .number = 0, .words = "model"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact rejection typical"},
};

// An extension of the host; null: it has none of that name.
inline const void* extension_of(const HostServices& host, std::string_view id) {
  return host.extension == nullptr ? nullptr : host.extension(host.context, id);
}

// Tokens that can be proposed: `most`, what is asked for, and what fits the model's context.
inline uint32_t room_for(const DraftRequest& request, const ModelRunner& runner, int64_t most) {
  const size_t known = request.history.size(), context = runner.context_tokens();
  const size_t room = context > known ? context - known : 0;
  return static_cast<uint32_t>(
      std::min({static_cast<size_t>(most), room, size_t{request.max_tokens}}));
}

// Draws a token of each row and adds it to drafts[who[row]], with the distribution where that is
// wanted. A row without a token adds none. rows: [who.size()], as ModelRunner::draw has them; draws
// is room for them.
inline Status draw_next(ModelRunner& runner, std::span<const RunnerRow> rows,
                        std::span<const float* const> logits, std::span<const uint32_t> who,
                        std::span<DraftOut> drafts, std::vector<RunnerDraw>& draws) {
  draws.assign(rows.size(), {});
  for (size_t i = 0; i < who.size(); ++i) {
    const DraftOut& out = drafts[who[i]];
    if (out.probs != nullptr)
      draws[i].probs = out.probs + uint64_t{out.count} * runner.vocabulary();
  }
  if (Status status = runner.draw(rows, logits, draws); !status.ok()) return status;
  for (size_t i = 0; i < who.size(); ++i) {
    DraftOut& out = drafts[who[i]];
    if (draws[i].token == kNoToken) continue;
    out.tokens[out.count++] = draws[i].token;
    out.has_probs = out.probs != nullptr;
  }
  return {};
}

}  // namespace tenon::sdk
