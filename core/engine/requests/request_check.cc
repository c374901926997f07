#include "core/engine/requests/request_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/quote.h"
#include "core/base/result.h"
#include "core/base/text.h"
#include "core/engine/answers/beams/beam_memory.h"
#include "core/engine/answers/diffusion/diffusion_check.h"
#include "core/engine/answers/permitted.h"
#include "core/engine/requests/adapter_names.h"
#include "core/request/parameters.h"
#include "core/request/sampling_keys.h"

namespace tenon {
namespace {

constexpr size_t kMaxListed = 1 << 20;

std::string text_of(uint64_t number) {
  return std::to_string(number);
}

class RequestCheck {
 public:
  RequestCheck(const Request& request, const RequestLimits& limits)
      : request_(request), limits_(limits) {}

  std::vector<RequestFault> run() {
    check_room();
    check_numbers();
    check_counts();
    check_mirostat();
    check_lists();
    check_params();
    check_adapter();
    for (RequestFault& found : sampler_faults(request_, limits_)) faults_.push_back(found);
    for (RequestFault& found : diffusion_faults(request_, limits_)) faults_.push_back(found);
    if (request_.beams > 0) check_beams();
    if (request_.pooling != Pooling::none) check_pooling();
    if (faults_.empty()) check_what_is_left();
    return std::move(faults_);
  }

 private:
  void fault(std::string_view setting, std::string text) {
    faults_.push_back({setting, std::move(text)});
  }

  void check_room() {
    const uint64_t prompt = request_.prompt.size();
    const uint32_t context = limits_.scheduler.context_tokens;
    if (prompt == 0 && request_.pooling != Pooling::none) {
      return fault("prompt",
                   "the text is empty – a vector is made of its tokens, and it has none – give a "
                   "text, or leave it out");
    }
    if (prompt == 0) {
      return fault(
          "prompt",
          "the prompt has no tokens – at least one is needed – give a text, or the model's "
          "beginning-of-text token");
    }
    if (prompt + 1 > context) {
      return fault("prompt",
                   "the prompt has " + text_of(prompt) + " tokens – the context has " +
                       text_of(context) +
                       " and one must be left for the answer – shorten the prompt or raise "
                       "limits.context_tokens");
    }
    // What an answer by diffusion takes is another matter (diffusion_check.h).
    if (limits_.mask_token != kNoToken) return;
    const uint64_t wanted = std::min<uint64_t>(prompt + std::max(request_.max_tokens, 1u), context);
    if (wanted > limits_.sequence_tokens) {
      fault(prompt >= limits_.sequence_tokens ? "prompt" : "max_tokens",
            "prompt and answer take " + text_of(wanted) + " tokens – the KV cache has room for " +
                text_of(limits_.sequence_tokens) +
                " of one sequence – lower max_tokens or raise kv_cache.memory");
    }
  }

  void check_number(std::string_view name, const WrittenNumber& value) {
    std::string text = number_fault(parameter(name).number, value);
    if (!text.empty()) fault(name, std::move(text));
  }

  // A seed may be any of 64 bits.
  void check_numbers() {
    if (request_.max_tokens != 0) check_number("max_tokens", request_.max_tokens);
    check_number("min_tokens", request_.min_tokens);
    check_number("samples", request_.samples);
    check_number("best_of", request_.best_of);
    check_number("beams", request_.beams);
    if (request_.block_length != 0) check_number("block_length", request_.block_length);
    if (request_.steps != 0) check_number("steps", request_.steps);
    check_number("logprobs", request_.sampling.logprobs);
    check_number("length_penalty", shortest(request_.length_penalty));
    for (const SamplingKey& key : sampling_keys()) {
      std::string text = sampling_fault(key, request_.sampling);
      if (!text.empty()) fault(key.name, std::move(text));
    }
  }

  void check_counts() {
    if (request_.grammar != nullptr && request_.ignore_eos) {
      fault(
          "ignore_eos",
          "ignore_eos is set beside a grammar – the grammar says where the answer ends – leave one "
          "of them out");
    }
    if (request_.best_of != 0 && request_.best_of < request_.samples) {
      fault("best_of", "best_of is " + text_of(request_.best_of) +
                           " – it must be at least the number of " + "samples, " +
                           text_of(request_.samples) + " – raise it or leave it out");
    }
    if (request_.max_tokens != 0 && request_.min_tokens > request_.max_tokens) {
      fault("min_tokens", "min_tokens is " + text_of(request_.min_tokens) +
                              ", more than max_tokens, " + text_of(request_.max_tokens) +
                              " – lower it");
    }
    const Request plain;
    if (request_.beams != 0) return;
    if (request_.length_penalty != plain.length_penalty) {
      fault("length_penalty",
            "length_penalty is " + format_real(shortest(request_.length_penalty)) +
                " – it ranks beams, and there are none – leave it out or set beams");
    }
    if (request_.beam_stop != plain.beam_stop) {
      fault(
          "early_stopping",
          "early_stopping is set – it ends beam searches, and there is none – leave it out or set "
          "beams");
    }
  }

  // What a grammar leaves of it is looked at where the vocabulary is known (Engine::faults_of).
  void check_what_is_left() {
    if (request_.grammar != nullptr) return;
    if (!request_.lists.has_bans() && request_.min_tokens == 0) return;
    auto found = first_token_fault(request_, limits_.eos_tokens, limits_.vocabulary);
    if (found) faults_.push_back(*std::move(found));
  }

  // Mirostat chooses how much is cut; nothing else may.
  void check_mirostat() {
    const SamplingParams& sampling = request_.sampling;
    if (sampling.mirostat == 0) return;
    if (sampling.temperature == 0.0f) {
      fault("mirostat",
            "mirostat needs randomness, but temperature is 0 – raise it, or leave mirostat out");
    }
    const SamplingParams plain;
    for (std::string_view name :
         {"top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability"}) {
      const SamplingKey& key = sampling_keys()[*find_sampling_key(name)];
      if (key.get(sampling) == key.get(plain)) continue;
      fault("mirostat", "mirostat decides how many tokens stay, but " + std::string(name) + " is " +
                            sampling_text(key, sampling) + " – leave one of them out");
    }
  }

  // `told` begins the sentence about entry i, up to its id.
  template <typename Told>
  void check_ids(std::string_view setting, std::span<const TokenId> ids, const Told& told,
                 std::string_view advice = "") {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < limits_.vocabulary) continue;
      return fault(setting, told(i) + " " + std::to_string(ids[i]) +
                                " – the vocabulary has ids 0 to " +
                                text_of(limits_.vocabulary - 1) + std::string(advice));
    }
  }

  // A list that the caller wrote: "stop_tokens[2] is 99".
  void check_list(std::string_view setting, std::span<const TokenId> ids) {
    check_ids(setting, ids,
              [&](size_t i) { return std::string(setting) + "[" + text_of(i) + "] is"; });
  }

  void check_lists() {
    const SamplingLists& lists = request_.lists;
    const std::pair<std::string_view, size_t> sizes[] = {
        {"logit_bias", lists.logit_bias.size()},
        {"allowed_tokens", lists.allowed_tokens.size()},
        {"bad_words", lists.bad_words.size()},
        {"dry_breakers", lists.dry_breakers.size()},
        {"stop_tokens", request_.stop_tokens.size()},
        {"stop", request_.stop.size()}};
    for (const auto& [setting, size] : sizes) {
      if (size <= kMaxListed) continue;
      return fault(setting, std::string(setting) + " has more than " + text_of(kMaxListed) +
                                " entries – shorten it");
    }
    check_ids(
        "prompt", request_.prompt,
        [](size_t i) { return "prompt token " + text_of(i) + " has id"; },
        " – encode the text with this model's own tokenizer");
    check_list("stop_tokens", request_.stop_tokens);
    check_list("allowed_tokens", lists.allowed_tokens);
    check_list("dry_breakers", lists.dry_breakers);
    for (size_t i = 0; i < lists.bad_words.size(); ++i) {
      if (lists.bad_words[i].empty())
        fault("bad_words", "bad word " + text_of(i) + " has no tokens");
      check_ids("bad_words", lists.bad_words[i], [i](size_t token) {
        return "bad word " + text_of(i) + ": token " + text_of(token) + " has id";
      });
    }
    for (const std::string& stop : request_.stop) {
      std::string text = text_fault(parameter("stop"), stop);
      if (!text.empty()) fault("stop", std::move(text));
    }
    std::vector<TokenId> biased;
    for (const LogitBias& bias : lists.logit_bias) {
      biased.push_back(bias.token);
      if (std::isfinite(bias.bias)) continue;
      fault("logit_bias", "the bias of token " + std::to_string(bias.token) + " is " +
                              format_real(static_cast<double>(bias.bias)) + " – it must be finite");
    }
    check_ids("logit_bias", biased, [](size_t) { return std::string("logit_bias has token"); });
    for (size_t i = 0; i < lists.order.size(); ++i) {
      if (std::find(lists.order.begin(), lists.order.begin() + static_cast<std::ptrdiff_t>(i),
                    lists.order[i]) == lists.order.begin() + static_cast<std::ptrdiff_t>(i)) {
        continue;
      }
      fault("order", "the order of sampling names " +
                         std::string(sampling_stage_name(lists.order[i])) +
                         " twice – name each stage once at most");
    }
  }

  void check_params() {
    const std::vector<VendorSetting>& params = request_.lists.params;
    const std::span<const std::string> known = limits_.sampler_params;
    for (auto param = params.begin(); param != params.end(); ++param) {
      const std::string key = "\"" + param->key + "\"";
      if (std::any_of(params.begin(), param, [&](auto& p) { return p.key == param->key; })) {
        fault("params", "the parameter " + key + " is given twice – name it once");
      } else if (std::find(known.begin(), known.end(), param->key) == known.end()) {
        fault("params", "sampler " + in_quotes(limits_.sampler_name) + " has no parameter " + key +
                            " – it takes " +
                            (known.empty() ? "none of third parties" : join(known)) +
                            " – leave it out, or use a sampler that has it");
      } else if (!param->is_text && !std::isfinite(param->number)) {
        fault("params", "the parameter " + key + " is " + format_real(param->number) +
                            " – it must be finite");
      }
    }
  }

  void check_adapter() {
    const Result<uint64_t> found = find_adapter(request_.adapter, limits_.adapters);
    if (!found.ok()) fault("adapter", std::string(found.status().message()));
  }

  void check_beams() {
    const uint32_t beams = request_.beams;
    if (beams > limits_.scheduler.max_sequences || beams > limits_.scheduler.max_batch_tokens) {
      fault("beams", text_of(beams) + " beams were asked for – a step has room for " +
                         text_of(std::min(limits_.scheduler.max_sequences,
                                          limits_.scheduler.max_batch_tokens)) +
                         " sequences – ask for fewer, or raise limits.max_sequences");
    }
    if (request_.samples > beams) {
      fault("samples", "samples is " + text_of(request_.samples) + ", more than beams, " +
                           text_of(beams) +
                           " – a beam search keeps as many answers as it has beams");
    }
    if (request_.best_of != 0)
      fault("best_of", "best_of and beams exclude each other – leave one out");
    if (!request_.stop.empty()) {
      fault("stop",
            "a beam search ends at tokens, not at stop strings – leave stop out, or give "
            "stop_tokens");
    }
    check_beam_memory(beams);
    check_beam_sampling();
  }

  // An embedding is made of the prompt alone.
  void check_pooling() {
    const Request plain;
    const bool answers = request_.samples != 1 || request_.best_of != 0 || request_.beams != 0 ||
                         request_.max_tokens != 0 || request_.min_tokens != 0 ||
                         request_.prompt_logprobs || !request_.stop.empty() ||
                         !request_.stop_tokens.empty() || request_.grammar != nullptr;
    if (answers) {
      fault(
          "",
          "an embedding is asked for, and something of an answer – leave samples, best_of, beams, "
          "max_tokens, min_tokens, stop, grammar and prompt_logprobs out");
    }
    for (const SamplingKey& key : sampling_keys()) {
      if (key.get(request_.sampling) == key.get(plain.sampling)) continue;
      fault(key.name, "an embedding is asked for, of which nothing is drawn, but " +
                          std::string(key.name) + " is " + sampling_text(key, request_.sampling) +
                          " – leave it out");
    }
    const SamplingLists& lists = request_.lists;
    if (!lists.logit_bias.empty() || !lists.allowed_tokens.empty() || !lists.bad_words.empty() ||
        !lists.params.empty()) {
      fault("",
            "an embedding is asked for, of which nothing is drawn – leave logit_bias, "
            "allowed_tokens, bad_words and params out");
    }
  }

  // All beams must be able to run together: in every memory that they take.
  void check_beam_memory(uint64_t beams) {
    if (beam_slots(beams) > limits_.state_slots) {
      fault("beams", text_of(beams) + " beams need " + text_of(beam_slots(beams)) +
                         " slots of recurrent state – the cache has " +
                         text_of(limits_.state_slots) +
                         " – ask for fewer beams, or raise kv_cache.memory");
    }
    if (limits_.kv_block_tokens > 0) check_beam_tokens(beams);
  }

  void check_beam_tokens(uint64_t beams) {
    const uint64_t prompt = request_.prompt.size();
    const uint64_t limit =
        std::min<uint64_t>(request_.max_tokens == 0 ? UINT32_MAX : prompt + request_.max_tokens,
                           limits_.sequence_tokens);
    const uint64_t most =
        limits_.held_tokens > UINT64_MAX / beams ? UINT64_MAX : beams * limits_.held_tokens;
    const uint64_t needed = std::min(beam_tokens(prompt, limit, beams, limits_.kv_block_tokens,
                                                 limits_.forks_share ? prompt : 0),
                                     most);
    if (needed <= limits_.kv_tokens) return;
    fault("beams", text_of(beams) + " beams may need " + text_of(needed) +
                       " tokens of K/V – the cache has room for " + text_of(limits_.kv_tokens) +
                       " – ask for fewer beams, lower max_tokens or raise kv_cache.memory");
  }

  // Beams rank by what the model itself says.
  void check_beam_sampling() {
    const SamplingParams plain;
    for (const SamplingKey& key : sampling_keys()) {
      if (key.name == "temperature" || key.get(request_.sampling) == key.get(plain)) continue;
      fault(key.name, "a beam search ranks by the model's own probabilities, but " +
                          std::string(key.name) + " is " + sampling_text(key, request_.sampling) +
                          " – leave it out");
    }
    const SamplingLists& lists = request_.lists;
    if (!lists.logit_bias.empty() || !lists.allowed_tokens.empty() || !lists.bad_words.empty() ||
        !lists.params.empty()) {
      fault("beams",
            "a beam search ranks by the model's own probabilities – leave logit_bias, "
            "allowed_tokens, bad_words and params out");
    }
  }

  const Request& request_;
  const RequestLimits& limits_;
  std::vector<RequestFault> faults_;
};

}  // namespace

std::vector<RequestFault> request_faults(const Request& request, const RequestLimits& limits) {
  return RequestCheck(request, limits).run();
}

Status check_request(const Request& request, const RequestLimits& limits) {
  std::vector<std::string> texts;
  for (RequestFault& fault : request_faults(request, limits))
    texts.push_back(std::move(fault.text));
  return texts.empty() ? Status() : invalid_argument(join(texts, "\n"));
}

}  // namespace tenon
