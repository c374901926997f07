// What a request gets where nobody says: how many tokens, and how an embedding is made.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/engine/requests/request.h"

namespace tenon {

struct Pipeline;

namespace llm {

// Tokens of a single answer where neither the request nor the pipeline nor the model says.
inline constexpr uint32_t kDefaultMaxTokens = 256;
// Sets that number where `request` leaves it open. Answers by diffusion have exactly as many tokens
// as they are asked for, and the engine knows how many fit.
void bound_answer(const Pipeline& pipeline, Request& request);

struct EmbeddingWay {
  Pooling pooling = Pooling::last;
  bool normalise = true;
};
// How an embedding is made: as asked; else as the model's files want it; else by the last token's
// state, at length 1. Errors: unsupported, if no pooling is asked for and the files want one that
// does not exist here; those of read_embedding_advice.
Result<EmbeddingWay> embedding_way(const std::string& model_path,
                                   std::optional<Pooling> pooling = {},
                                   std::optional<bool> normalise = {});
// "last", "mean", "first".
std::optional<Pooling> pooling_of(std::string_view name);

}  // namespace llm
}  // namespace tenon
