#include "core/engine/answers/parallel_sampler.h"

#include <algorithm>
#include <utility>

namespace tenon {

// `body` takes the first item of a run and the one behind its last.
template <typename SequenceOf, typename Body>
Status ParallelSampler::run(size_t count, const SequenceOf& sequence_of, const Body& body) {
  Stopwatch watch(*context_.parts.clock, context_.times.sampler_ns);
  Executor& executor = *context_.parts.executor;
  const auto runs = static_cast<uint32_t>(std::min<size_t>(executor.workers(), count));
  // Where a run begins: at its part of the items, moved on to where a sequence begins.
  const auto begin_of = [&](uint32_t run) {
    size_t at = count * run / runs;
    while (at > 0 && at < count && sequence_of(at) == sequence_of(at - 1)) ++at;
    return at;
  };
  status_.clear();
  status_.resize(runs);
  const auto work = [&](uint32_t run) {
    const size_t first = begin_of(run), end = begin_of(run + 1);
    if (first < end) status_[run] = body(first, end);
  };
  executor.share_out(runs, [&work](uint32_t run) { work(run); });
  for (Status& status : status_) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

Status ParallelSampler::sample(std::span<const SampleRow> rows, std::span<SampleResult> results) {
  return run(
      rows.size(), [&](size_t i) { return rows[i].seq; },
      [&](size_t first, size_t end) {
        return context_.parts.sampler->sample(rows.subspan(first, end - first),
                                              results.subspan(first, end - first));
      });
}

Status ParallelSampler::verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results) {
  return run(
      rows.size(), [&](size_t i) { return rows[i].rows.front().seq; },
      [&](size_t first, size_t end) {
        return context_.parts.sampler->verify(rows.subspan(first, end - first),
                                              results.subspan(first, end - first));
      });
}

void ParallelSampler::failed(const std::vector<Share*>& shares, const Status& status) {
  context_.fail_sequences(sequences_of(shares),
                          plugin_fault("sampler", context_.parts.sampler_name, "failed", status));
}

}  // namespace tenon
