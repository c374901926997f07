#include "core/contract/checked_linear.h"

#include <algorithm>
#include <utility>

#include "core/base/quote.h"
#include "core/base/result.h"

namespace tenon {
namespace {

constexpr size_t kMostNumerics = 200;
// No form of a number takes more; and what any tile or table adds.
constexpr uint64_t kMostBytesAnElement = 64;
constexpr uint64_t kMostBytesBeside = uint64_t{64} << 20;

uint64_t most_bytes(uint64_t rows, uint64_t columns) {
  return rows * columns * kMostBytesAnElement + kMostBytesBeside;
}

}  // namespace

CheckedLinear::CheckedLinear(LinearKernel& plugin, const std::string& name, CallChecks checks)
    : plugin_(plugin),
      checks_(checks),
      name_("linear '" + name + "'"),
      bind_(name_call("bind", name_)),
      accepts_(name_call("accepts", name_)),
      pack_(name_call("pack", name_)),
      gather_(name_call("gather", name_)),
      prepare_(name_call("prepare", name_)),
      run_(name_call("run", name_)),
      numerics_(one_line(plugin.numerics(), kMostNumerics)) {}

// A plugin's own error, with its name.
Status CheckedLinear::named(Status status) const {
  return status.ok() ? std::move(status) : with_context(name_, readable(std::move(status)));
}

Status CheckedLinear::bind(const LinearLimits& limits) noexcept {
  CheckedCall call(bind_, checks_);
  if (Status status = named(call.readable(plugin_.bind(limits))); !status.ok()) return status;
  numerics_ = one_line(plugin_.numerics(), kMostNumerics);
  if (numerics_.empty()) return named(no_numerics());
  max_rows_ = std::max(limits.max_rows, 1u);
  on_host_ = limits.space.kind == SpaceKind::host;
  epilogues_ = plugin_.epilogues();
  if ((epilogues_ & epilogue_bit(Epilogue::store)) != 0) return {};
  return named(broken_promise("epilogues", "lack store", "at least that one"));
}

Status CheckedLinear::accepts(const WeightView& weight) const noexcept {
  CheckedCall call(accepts_, checks_);
  if (Status status = named(call.readable(plugin_.accepts(weight))); !status.ok()) return status;
  return named(check_sizes(weight));
}

Status CheckedLinear::check_sizes(const WeightView& weight) const {
  const std::string of = " for " + in_quotes(weight.name);
  const auto& [packed, preparation] = sizes_of(weight);
  if (const uint64_t most = most_bytes(weight.n_out, weight.k_in); packed > most) {
    return broken_promise("packed_bytes", "wants " + std::to_string(packed) + " bytes" + of,
                          "at most " + std::to_string(most));
  }
  if (preparation.k_in != weight.k_in) {
    return broken_promise("preparation",
                          "is for rows of " + std::to_string(preparation.k_in) + " numbers" + of,
                          std::to_string(weight.k_in));
  }
  const uint64_t one = prepared_bytes(preparation, 1);
  const uint64_t all = prepared_bytes(preparation, max_rows_);
  const uint64_t most = most_bytes(max_rows_, weight.k_in);
  if (one > most_bytes(1, weight.k_in) || all > most || all < one || (one == 0 && all != 0)) {
    return broken_promise("prepared_bytes",
                          "wants " + std::to_string(one) + " bytes for a row and " +
                              std::to_string(all) + " for " + std::to_string(max_rows_) + of,
                          "sizes that rise up to " + std::to_string(most) + ", or none for both");
  }
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = reads_x_.try_emplace(weight.k_in, all == 0);
  entry->second = entry->second && all == 0;
  return {};
}

bool CheckedLinear::reads_x(uint32_t k_in) const {
  const std::lock_guard lock(mutex_);
  const auto found = reads_x_.find(k_in);
  return found != reads_x_.end() && found->second;
}

// How prepared activations lie in memory only the kernel knows.
void CheckedLinear::lend(const LinearJob& job, LentRows& lent) const {
  if (job.row_scale != nullptr) lent.add(job.row_scale, job.row_count() * sizeof(float));
  if (job.bias != nullptr) lent.add_part(job.bias, job.n_out * sizeof(float));
  if (!reads_x(job.k_in)) return;
  const uint64_t bytes = dtype_bits(job.x_dtype) / 8;
  lent.add_rows(job.prepared, job.k_in * bytes, job.x_stride * bytes, job.x_rows);
}

const CheckedLinear::Sizes& CheckedLinear::sizes_of(const WeightView& weight) const {
  const void* data = weight.parts.empty() ? nullptr : weight.parts.front().data;
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = sizes_.try_emplace({data, std::string(weight.name)});
  if (is_new) entry->second = {plugin_.packed_bytes(weight), plugin_.preparation(weight)};
  return entry->second;
}

uint64_t CheckedLinear::packed_bytes(const WeightView& weight) const noexcept {
  return sizes_of(weight).packed_bytes;
}

Status CheckedLinear::pack(const WeightView& weight, void* packed, Slice slice) noexcept {
  CheckedCall call(pack_, checks_);
  return named(call.readable(plugin_.pack(weight, packed, slice)));
}

Status CheckedLinear::gather(const GatherCall& call, Slice slice) noexcept {
  CheckedCall running(gather_, checks_);
  return named(running.readable(plugin_.gather(call, slice)));
}

Preparation CheckedLinear::preparation(const WeightView& weight) const noexcept {
  return sizes_of(weight).preparation;
}

uint64_t CheckedLinear::prepared_bytes(Preparation preparation, uint32_t rows) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] =
      prepared_bytes_.try_emplace({preparation.key, preparation.k_in, rows});
  if (is_new) entry->second = plugin_.prepared_bytes(preparation, rows);
  return entry->second;
}

Status CheckedLinear::prepare(const PrepareCall& call, Slice slice) noexcept {
  // A slice's own rows: others may still be written.
  thread_local LentRows lent;
  lent.begin();
  if (checks_ == CallChecks::more && on_host_ && call.x_rows.empty()) {
    const uint64_t bytes = dtype_bits(call.x_dtype) / 8;
    const uint64_t first = uint64_t{call.rows} * slice.index / slice.count;
    const uint64_t last = uint64_t{call.rows} * (slice.index + 1) / slice.count;
    lent.add_rows(static_cast<const std::byte*>(call.x) + first * call.x_stride * bytes,
                  call.preparation.k_in * bytes, call.x_stride * bytes, last - first);
  }
  Status status;
  {
    CheckedCall running(prepare_, checks_);
    status = running.readable(plugin_.prepare(call, slice));
  }
  if (!lent.unchanged()) status = wrote_into("prepare", "activations");
  return named(std::move(status));
}

Status CheckedLinear::run(std::span<const LinearJob> jobs, WorkRange range,
                          DeviceQueue queue) noexcept {
  thread_local LentRows lent;
  lent.begin();
  if (checks_ == CallChecks::more && on_host_) {
    for (const LinearJob& job : jobs) lend(job, lent);
  }
  Status status;
  {
    CheckedCall call(run_, checks_);
    status = call.readable(plugin_.run(jobs, range, queue));
  }
  if (!lent.unchanged()) status = wrote_into("run", "activations, biases or factors");
  return named(std::move(status));
}

}  // namespace tenon
