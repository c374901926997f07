#include "tools/tenon/generation_flags.h"

#include "core/engine/pipeline.h"

namespace tenon {
namespace {

// The first of these that says something.
template <typename T>
T first_of(std::initializer_list<std::optional<T>> values, T otherwise) {
  for (const std::optional<T>& value : values) {
    if (value) return *value;
  }
  return otherwise;
}

std::optional<float> as_float(const std::optional<double>& value) {
  return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

Result<std::vector<TokenId>> encode_prompt(const Pipeline& pipeline, const Prompt& prompt) {
  if (prompt.tokens) return *prompt.tokens;
  if (prompt.own.tokens > 0) {
    return drawn_prompt(prompt.prefix, prompt.own, pipeline.model->config.vocabulary);
  }
  if (pipeline.tokenizer == nullptr) {
    return invalid_argument("the model has no tokenizer, so a prompt must be token ids: " +
                            std::string(pipeline.tokenizer_problem.message()));
  }
  return pipeline.tokenizer->encode(prompt.text);
}

}  // namespace

void GenerationFlags::add_to(CLI::App& command) {
  const char* group = "Generation";
  const CLI::Range positive(1u, 1u << 30);
  command.add_option("--max-tokens", max_tokens, "tokens to generate at most")
      ->group(group)
      ->check(positive);
  command.add_option("--temperature", temperature, "0 = always the most likely token")
      ->group(group)
      ->check(CLI::Range(0.0, 100.0));
  command.add_option("--top-k", top_k, "choose among the k most likely; 0 = all")->group(group);
  command.add_option("--top-p", top_p, "choose among the most likely that together reach p")
      ->group(group)
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--seed", seed, "the same seed gives the same text (default: 0)")
      ->group(group);
  command.add_option("--stop", stop, "end before this text; may be repeated")
      ->group(group)
      ->allow_extra_args(false);
  command.add_option("--n", samples, "continuations of each prompt")
      ->group(group)
      ->check(CLI::Range(1u, 4096u));
  command.add_option("--logprobs", logprobs, "report the n most likely tokens (with --json)")
      ->group(group)
      ->check(CLI::Range(0u, 1000u));
  command.add_flag("--ignore-eos", ignore_eos, "go on behind the model's end of text")
      ->group(group);
}

Result<Request> make_request(const Pipeline& pipeline, const GenerationFlags& flags,
                             const Prompt& prompt) {
  const PipelineConfig& config = pipeline.config;
  const GenerationDefaults& model = pipeline.model->generation;
  Request request;
  TENON_ASSIGN_OR_RETURN(request.prompt, encode_prompt(pipeline, prompt));
  SamplingParams& sampling = request.sampling;
  sampling.temperature = first_of({prompt.temperature, flags.temperature,
                                   as_float(config.temperature.value), model.temperature},
                                  1.0f);
  sampling.top_k = first_of({flags.top_k, config.top_k.value, model.top_k}, 0u);
  sampling.top_p = first_of({flags.top_p, as_float(config.top_p.value), model.top_p}, 1.0f);
  sampling.seed = first_of({prompt.seed, flags.seed, config.seed.value}, uint64_t{0});
  sampling.logprobs = flags.logprobs;
  request.max_tokens = first_of({prompt.max_tokens, flags.max_tokens, config.max_tokens.value}, 0u);
  request.samples = prompt.samples.value_or(flags.samples);
  request.priority = prompt.priority;
  request.tenant = prompt.tenant;
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos || prompt.ignore_eos;
  return request;
}

}  // namespace tenon
