#include "core/capacity/candidates.h"

#include "core/base/text.h"
#include "core/report/pages/format.h"

namespace tenon::capacity {

std::string Candidate::replica() const {
  return ranks == 1 ? machine.name : std::to_string(ranks) + " joined " + machine.name;
}

std::string Candidate::strategy() const {
  return scheduler + ", " + kv_cache + ", " + std::to_string(batch_tokens) + " tokens a step";
}

std::string Candidate::name() const {
  return replica() + ", weights " + weights + ", K/V " + dtype + ", " + strategy();
}

std::vector<Candidate> candidates_of(const SearchSpace& space) {
  std::vector<Candidate> out;
  for (const sim::Machine& machine : space.machines) {
    for (const uint32_t ranks : space.ranks) {
      if (ranks > machine.joined.most) continue;
      for (const std::string& weights : space.weights) {
        for (const std::string& dtype : space.dtypes) {
          for (const std::string& scheduler : space.schedulers) {
            for (const std::string& kv_cache : space.kv_caches) {
              for (const uint32_t tokens : space.batch_tokens) {
                out.push_back({machine, ranks, weights, dtype, scheduler, kv_cache, tokens});
              }
            }
          }
        }
      }
    }
  }
  return out;
}

Result<MemoryFit> fit_memory(const Candidate& candidate, double share, uint64_t weight_bytes,
                             uint64_t sequence_bytes, uint32_t context_tokens) {
  const auto usable =
      static_cast<uint64_t>(share * static_cast<double>(candidate.machine.memory_bytes));
  const std::string has = format("%.0f %% of the %s of ", share * 100,
                                 approximate_bytes(candidate.machine.memory_bytes).c_str()) +
                          candidate.machine.name + ", " + approximate_bytes(usable);
  const std::string each = candidate.ranks == 1 ? "" : " on each machine";
  const std::string weights =
      "weights in " + candidate.weights + " take " + approximate_bytes(weight_bytes) + each;
  if (weight_bytes >= usable) {
    return out_of_memory(weights + ", more than " + has);
  }
  if (sequence_bytes > usable - weight_bytes) {
    return out_of_memory(weights + " and K and V of one sequence of " +
                         std::to_string(context_tokens) + " tokens " +
                         approximate_bytes(sequence_bytes) + ", together more than " + has);
  }
  return MemoryFit{weight_bytes, usable - weight_bytes, sequence_bytes};
}

}  // namespace tenon::capacity
