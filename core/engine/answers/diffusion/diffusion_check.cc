#include "core/engine/answers/diffusion/diffusion_check.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/engine/answers/diffusion/canvas.h"
#include "core/request/sampling_keys.h"

namespace tenon {
namespace {

std::string text_of(uint64_t number) {
  return std::to_string(number);
}

// What belongs to answers that grow token by token.
class DiffusionCheck {
 public:
  DiffusionCheck(const Request& request, const RequestLimits& limits)
      : request_(request), limits_(limits) {}

  std::vector<RequestFault> run() {
    check_room();
    check_blocks();
    check_prompt();
    check_ways();
    check_sampling();
    return std::move(faults_);
  }

 private:
  void fault(std::string_view setting, std::string text) {
    faults_.push_back({setting, std::move(text)});
  }

  void refuse(std::string_view setting, bool asked, const std::string& what) {
    if (!asked) return;
    fault(setting,
          what + " – the model generates by diffusion, which has none of that – leave it out");
  }

  void check_room() {
    const uint32_t room = answer_room(request_.prompt.size(), limits_);
    if (room == 0) {
      return fault("prompt", "the prompt has " + text_of(request_.prompt.size()) +
                                 " tokens – a step has " + text_of(most()) +
                                 " at most, and an answer by diffusion is computed in one step "
                                 "with it – shorten the prompt, or raise limits.max_batch_tokens, "
                                 "limits.context_tokens or kv_cache.memory");
    }
    if (request_.max_tokens <= room) return;
    fault(
        "max_tokens",
        "prompt and answer take " +
            text_of(request_.prompt.size() + uint64_t{request_.max_tokens}) +
            " tokens – a step has " + text_of(most()) +
            " at most, and an answer by diffusion is computed in one step with the prompt – lower "
            "max_tokens, or raise limits.max_batch_tokens, limits.context_tokens or "
            "kv_cache.memory");
  }
  uint64_t most() const { return answer_room(0, limits_); }

  void check_blocks() {
    const DiffusionPlan plan =
        plan_diffusion(request_, answer_room(request_.prompt.size(), limits_));
    if (plan.answer == 0) return;
    if (plan.answer % plan.block_length != 0) {
      return fault("block_length",
                   "the answer has " + text_of(plan.answer) +
                       " tokens, which are no whole blocks "
                       "of " +
                       text_of(plan.block_length) +
                       " – change max_tokens or block_length so that one divides the other");
    }
    const uint32_t blocks = plan.answer / plan.block_length;
    if (request_.steps == 0) return;
    if (request_.steps % blocks != 0) {
      fault("steps", "steps is " + text_of(request_.steps) + ", which does not divide among " +
                         text_of(blocks) + " blocks – take a multiple of that");
    } else if (request_.steps > plan.answer) {
      fault("steps", "steps is " + text_of(request_.steps) + ", more than the " +
                         text_of(plan.answer) +
                         " tokens of the answer – each step makes one at least – lower it");
    }
  }

  void check_prompt() {
    const auto found = std::ranges::find(request_.prompt, limits_.mask_token);
    if (found == request_.prompt.end()) return;
    fault("prompt", "prompt token " +
                        text_of(static_cast<uint64_t>(found - request_.prompt.begin())) +
                        " is the model's mask, " + std::to_string(limits_.mask_token) +
                        " – only answers have masks – leave it out");
  }

  void check_ways() {
    refuse("prompt", request_.pooling != Pooling::none, "an embedding is asked for");
    refuse("beams", request_.beams != 0, "beams is " + text_of(request_.beams));
    refuse("best_of", request_.best_of != 0, "best_of is " + text_of(request_.best_of));
    refuse("prompt_logprobs", request_.prompt_logprobs, "prompt_logprobs is true");
    refuse("grammar", request_.grammar != nullptr, "a grammar is given");
    if (request_.samples > 1) {
      fault("samples",
            "samples is " + text_of(request_.samples) +
                " – a model that generates by diffusion makes one answer a request – send as many "
                "requests, each with a seed of its own");
    }
    const bool confident =
        request_.remasking.value_or(Remasking::low_confidence) == Remasking::low_confidence;
    if (confident && limits_.sampler_logprobs == 0) {
      fault(
          "remasking",
          "sampler " + in_quotes(limits_.sampler_name) +
              " reports no log probabilities – remasking low_confidence goes by them – use another "
              "sampler, or remasking = \"random\"");
    }
  }

  // Nothing may look back on what was drawn before: that is everywhere, and masks between it.
  void check_sampling() {
    const SamplingParams plain;
    for (std::string_view name : {"repetition_penalty", "presence_penalty", "frequency_penalty",
                                  "dry_multiplier", "mirostat", "watermark_delta"}) {
      const SamplingKey& key = sampling_keys()[*find_sampling_key(name)];
      if (key.get(request_.sampling) == key.get(plain)) continue;
      fault(name,
            std::string(name) + " is " + sampling_text(key, request_.sampling) +
                " – it looks back on a text, which diffusion makes in no order – leave it out");
    }
    if (request_.lists.bad_words.empty()) return;
    fault(
        "bad_words",
        "bad_words are given – they look back on a text, which diffusion makes in no order – leave "
        "them out");
  }

  const Request& request_;
  const RequestLimits& limits_;
  std::vector<RequestFault> faults_;
};

// Other models have no use for the settings.
std::vector<RequestFault> settings_without_diffusion(const Request& request) {
  std::vector<RequestFault> faults;
  const auto refuse = [&](std::string_view setting, bool set, const std::string& what) {
    if (!set) return;
    faults.push_back({setting, what + " – it belongs to diffusion models, and this one generates "
                                      "token by token – leave it out"});
  };
  refuse("block_length", request.block_length != 0,
         "block_length is " + text_of(request.block_length));
  refuse("steps", request.steps != 0, "steps is " + text_of(request.steps));
  refuse("remasking", request.remasking.has_value(), "remasking is set");
  return faults;
}

}  // namespace

uint32_t answer_room(size_t prompt_tokens, const RequestLimits& limits) {
  const uint64_t most = std::min<uint64_t>(
      {limits.scheduler.context_tokens, limits.scheduler.max_batch_tokens, limits.kv_tokens});
  return static_cast<uint32_t>(most - std::min<uint64_t>(most, prompt_tokens));
}

std::vector<RequestFault> diffusion_faults(const Request& request, const RequestLimits& limits) {
  if (limits.mask_token == kNoToken) return settings_without_diffusion(request);
  return DiffusionCheck(request, limits).run();
}

}  // namespace tenon
