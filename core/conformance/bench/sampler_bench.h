// A sampler under test behind the host's own checks, with one sequence begun.
#pragma once

#include <memory>
#include <string>

#include "core/base/quote.h"
#include "core/conformance/battery.h"
#include "core/conformance/worlds/sampler_rows.h"
#include "core/contract/checked_sampler.h"

namespace tenon {

struct SamplerBench {
  PluginInstance<Sampler> plugin;
  std::unique_ptr<CheckedSampler> sampler;

  static Result<SamplerBench> make(Subject& subject) {
    SamplerBench made;
    TENON_ASSIGN_OR_RETURN(made.plugin, subject.make<Sampler>());
    made.sampler = std::make_unique<CheckedSampler>(*made.plugin, subject.name(), subject.checks());
    return made;
  }
};

inline SamplingParams params_of(float temperature, uint64_t seed) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  return params;
}

// Makes a sampler, begins sequence 1 with `params`, and lets `look` say what it finds of the bench.
template <typename Look>
Finding with_sampler_bench(Subject& subject, const SamplingParams& params, Look look) {
  auto made = SamplerBench::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  Sampler& sampler = *made->sampler;
  if (const Status status = sampler.begin(1, params, kNoSeq); !status.ok()) {
    return broke("begin fails: " + message_of(status));
  }
  Finding found = look(*made);
  const Status ended = sampler.end(1);
  if (found.verdict == CaseVerdict::pass && !ended.ok())
    return broke("end fails: " + message_of(ended));
  return found;
}

// The same of the sampler as the host uses it.
template <typename Look>
Finding with_sampler(Subject& subject, const SamplingParams& params, Look look) {
  return with_sampler_bench(subject, params,
                            [&](SamplerBench& bench) { return look(*bench.sampler); });
}

inline Finding failed_call(const Status& status) {
  return broke("sample fails: " + message_of(status));
}

}  // namespace tenon
