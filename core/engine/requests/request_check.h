// What a request may ask for: everything that is wrong with one, in one message.
#pragma once

#include <tenon/scheduler.h>

#include <vector>

#include "core/engine/requests/request.h"
#include "core/engine/requests/request_fault.h"
#include "core/engine/requests/sampler_check.h"

namespace tenon {

// What a request must fit into.
struct RequestLimits {
  SchedulerLimits scheduler;
  uint32_t vocabulary = 0;
  uint32_t sequence_tokens = 0;       // that the KV cache holds of one sequence
  uint64_t kv_tokens = 0;             // … of all together
  uint64_t held_tokens = UINT64_MAX;  // … of one at once: others are evicted
  uint32_t kv_block_tokens = 1;       // 0: memory is counted in slots of state
  uint64_t state_slots = UINT64_MAX;  // … of all together; where no layer recurs: all
  bool forks_share = true;            // false: each beam has its own copy of the prompt
  std::span<const std::string> sampler_params = {};  // keys of third parties that it takes
  std::string_view sampler_name = "?";
  std::span<const std::string> sampler_stages = every_sampling_word();
  uint32_t sampler_logprobs = UINT32_MAX;
  std::span<const std::string> adapters = {};
  TokenId mask_token = kNoToken;  // of a diffusion model
  std::span<const TokenId> eos_tokens = {};
};

// All that is wrong with it; nothing for a request that can run.
std::vector<RequestFault> request_faults(const Request& request, const RequestLimits& limits);
// Error: invalid_argument with a line for each fault.
Status check_request(const Request& request, const RequestLimits& limits);

}  // namespace tenon
