#include "tests/fake_device/rig/strict_sampler.h"

#include <algorithm>

#include "tests/fake_device/rig/fake_device.h"

namespace tenon {

void StrictSampler::complain(const std::string& text) {
  if (complaint_.empty()) complaint_ = text;
}

void StrictSampler::look_at(SeqId seq) {
  const std::optional<SharedWork> work = shared_work();
  if (!work)
    return complain("sequence " + std::to_string(seq) + " was sampled outside the workers");
  if (work->call != call_) seen_.clear();
  call_ = work->call;
  const auto found =
      std::find_if(seen_.begin(), seen_.end(), [&](const auto& seen) { return seen.first == seq; });
  if (found == seen_.end()) {
    seen_.emplace_back(seq, work->part);
  } else if (found->second != work->part) {
    complain("rows of sequence " + std::to_string(seq) + " were given to two workers at once");
  }
}

Status StrictSampler::sample(std::span<const SampleRow> rows,
                             std::span<SampleResult> results) noexcept {
  for (const SampleRow& row : rows) look_at(row.seq);
  return inner_->sample(rows, results);
}

Status StrictSampler::verify(std::span<const VerifyRows> rows,
                             std::span<VerifyResult> results) noexcept {
  for (const VerifyRows& each : rows) {
    for (const SampleRow& row : each.rows) look_at(row.seq);
  }
  return inner_->verify(rows, results);
}

Status StrictSampler::distribution(const SampleRow& row, std::span<float> probs) noexcept {
  look_at(row.seq);
  return inner_->distribution(row, probs);
}

}  // namespace tenon
