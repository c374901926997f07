// Beam search by its definition, over the toy model and without an engine.
#pragma once

#include <span>
#include <vector>

#include "core/engine/requests/request.h"
#include "tests/fake_device/rig/toy_model.h"

namespace tenon {

struct Hypothesis {
  std::vector<TokenId> tokens;  // generated
  double sum = 0.0;
  double score = 0.0;
};

// The answers that a request must get, best first. Its max_tokens says how long they may be.
std::vector<Hypothesis> beam_reference(const ToyModel& model, const Request& request,
                                       std::span<const TokenId> eos);
// All its beams are asked for.
Request beam_request(std::vector<TokenId> prompt, uint32_t beams, uint32_t max_tokens);

}  // namespace tenon
