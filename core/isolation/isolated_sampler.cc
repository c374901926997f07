#include "core/isolation/isolated_sampler.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/isolation/sampling_messages.h"

namespace tenon {
namespace {

constexpr uint32_t kMostLanes = 64;
constexpr uint64_t kSamplerRoom = uint64_t{256} << 20;
// Rows of one message: what is copied stays in a core's cache.
constexpr uint64_t kBytesAtOnce = uint64_t{4} << 20;

LaneSizes sampler_lanes(const IsolatedOrigin& origin) {
  return {.lanes = std::clamp(origin.host.workers, 1u, kMostLanes),
          .call_bytes = kSamplerRoom,
          .reply_bytes = kSamplerRoom};
}

// How many of the rows, at least one, one message takes.
size_t rows_at_once(std::span<const SampleRow> rows) {
  uint64_t bytes = 0;
  size_t count = 0;
  for (const SampleRow& row : rows) {
    bytes += uint64_t{row.vocabulary} * sizeof(float) + row.history.size_bytes();
    if (count > 0 && bytes > kBytesAtOnce) break;
    ++count;
  }
  return count;
}

void no_token_of(SampleResult& result) {
  result.token = kNoToken;
  result.logprob = 0.0f;
  result.rank = result.top_count = 0;
}

}  // namespace

IsolatedSampler::IsolatedSampler(IsolatedOrigin origin) : plugin_(origin, sampler_lanes(origin)) {
  for (uint32_t lane = sampler_lanes(origin).lanes; lane-- > 0;) free_lanes_.push_back(lane);
}

Result<std::unique_ptr<IsolatedSampler>> IsolatedSampler::create(IsolatedOrigin origin) {
  std::unique_ptr<IsolatedSampler> made(new IsolatedSampler(std::move(origin)));
  TENON_RETURN_IF_ERROR(made->plugin_.start());
  return made;
}

uint32_t IsolatedSampler::take_lane() {
  std::unique_lock lock(lanes_mutex_);
  lane_is_free_.wait(lock, [this] { return !free_lanes_.empty(); });
  const uint32_t lane = free_lanes_.back();
  free_lanes_.pop_back();
  return lane;
}

void IsolatedSampler::give_lane(uint32_t lane) {
  {
    const std::lock_guard lock(lanes_mutex_);
    free_lanes_.push_back(lane);
  }
  lane_is_free_.notify_one();
}

// With nobody else in a call.
Status IsolatedSampler::restart(const Status& why) {
  if (restarts_ >= kMostRestarts) {
    plugin_.note_sequel("it was started anew too often: its rows fail");
    return failed(message_of(why) + "; it was started anew " + std::to_string(restarts_) +
                  " times: use another sampler");
  }
  ++restarts_;
  plugin_.note_sequel("it was started anew and asked again");
  log(LogLevel::error, "sampler " + plugin_.id(),
      message_of(why) + "; it is started anew (" + std::to_string(restarts_) + " of " +
          std::to_string(kMostRestarts) + ") and asked again");
  TENON_RETURN_IF_ERROR(plugin_.start());
  for (const auto& [seq, begun] : begun_) {
    if (begun.remembers) lost_.insert(seq);
    TENON_RETURN_IF_ERROR(tell_begin(begun.message));
  }
  return {};
}

Status IsolatedSampler::tell_begin(const std::vector<std::byte>& message) {
  return plugin_.call(0, GuestMethod::begin_sampling, "begin", [&](WireWriter& out) {
    // As it was written, after the clock.
    out.put_raw(message);
  });
}

Status IsolatedSampler::begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept {
  Begun begun;
  begun.remembers = params.mirostat != 0 || !params.vendor.empty();
  WireWriter length({});
  const auto write = [&](WireWriter& out, SeqId from) {
    out.put(seq);
    out.put(from);
    write_sampling_params(params, out);
  };
  write(length, parent);
  begun.message.resize(length.bytes());
  WireWriter first(begun.message);
  write(first, parent);
  const std::unique_lock lock(process_mutex_);
  Status status = plugin_.runs() ? tell_begin(begun.message) : failed("its process is gone");
  if (!plugin_.runs()) {
    TENON_RETURN_IF_ERROR(restart(status));
    status = tell_begin(begun.message);
  }
  if (!status.ok()) return status;
  if (lost(parent)) lost_.insert(seq);
  // Told again, it follows from nobody: who forked may be over by then.
  WireWriter again(begun.message);
  write(again, kNoSeq);
  begun_[seq] = std::move(begun);
  return {};
}

Status IsolatedSampler::end(SeqId seq) noexcept {
  const std::unique_lock lock(process_mutex_);
  begun_.erase(seq);
  lost_.erase(seq);
  if (!plugin_.runs()) return {};
  Status status =
      plugin_.call(0, GuestMethod::end_sampling, "end", [&](WireWriter& out) { out.put(seq); });
  // The next call starts it anew; this sequence is over in any case.
  return plugin_.runs() ? std::move(status) : Status();
}

template <typename Ask, typename AskOne, typename FailOne>
Status IsolatedSampler::ask_or_restart(size_t count, const Ask& ask, const AskOne& ask_one,
                                       const FailOne& fail_one) {
  Status status;
  {
    const std::shared_lock lock(process_mutex_);
    const uint32_t lane = take_lane();
    status = ask(lane);
    give_lane(lane);
    if (status.ok() || plugin_.runs()) return status;
  }
  // Alone, so that what ends the process now is at fault for sure.
  const std::unique_lock lock(process_mutex_);
  for (size_t i = 0; i < count; ++i) {
    if (!plugin_.runs()) TENON_RETURN_IF_ERROR(restart(status));
    status = ask_one(i);
    if (status.ok()) continue;
    if (plugin_.runs()) return status;
    fail_one(i);
  }
  return {};
}

Status IsolatedSampler::ask_rows(uint32_t lane, std::span<const SampleRow> rows,
                                 std::span<SampleResult> results) {
  while (!rows.empty()) {
    const size_t count = rows_at_once(rows);
    TENON_RETURN_IF_ERROR(plugin_.call(
        lane, GuestMethod::sample, "sample",
        [&](WireWriter& out) {
          out.put(static_cast<uint32_t>(count));
          for (size_t i = 0; i < count; ++i) {
            write_sample_row(rows[i], out);
            out.put(static_cast<uint32_t>(results[i].top.size()));
          }
        },
        [&](WireReader& in) {
          for (size_t i = 0; i < count; ++i) read_sample_result(in, results[i]);
        }));
    rows = rows.subspan(count);
    results = results.subspan(count);
  }
  return {};
}

Status IsolatedSampler::sample(std::span<const SampleRow> rows,
                               std::span<SampleResult> results) noexcept {
  Status status = ask_or_restart(
      rows.size(), [&](uint32_t lane) { return ask_rows(lane, rows, results); },
      [&](size_t i) {
        if (!lost(rows[i].seq)) return ask_rows(0, rows.subspan(i, 1), results.subspan(i, 1));
        return Status();
      },
      [&](size_t i) { no_token_of(results[i]); });
  const std::shared_lock lock(process_mutex_);
  for (size_t i = 0; i < rows.size() && !lost_.empty(); ++i) {
    if (lost(rows[i].seq)) no_token_of(results[i]);
  }
  return status;
}

Status IsolatedSampler::ask_verified(uint32_t lane, std::span<const VerifyRows> rows,
                                     std::span<VerifyResult> results) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const VerifyRows& verified = rows[i];
    VerifyResult& result = results[i];
    TENON_RETURN_IF_ERROR(plugin_.call(
        lane, GuestMethod::verify, "verify",
        [&](WireWriter& out) {
          out.put(uint32_t{1});
          out.put(static_cast<uint32_t>(verified.rows.size()));
          for (size_t row = 0; row < verified.rows.size(); ++row) {
            write_sample_row(verified.rows[row], out);
            out.put(static_cast<uint32_t>(result.tokens[row].top.size()));
          }
          out.put_list(verified.drafts);
          out.put_list(verified.parents);
          const size_t probs = verified.draft_probs == nullptr
                                   ? 0
                                   : verified.drafts.size() * verified.rows.front().vocabulary;
          out.put_list(std::span(verified.draft_probs, probs));
        },
        [&](WireReader& in) {
          result.count = in.get<uint32_t>();
          const std::span<const uint32_t> path = in.get_list<uint32_t>();
          std::copy_n(path.begin(), std::min(path.size(), result.path.size()), result.path.begin());
          for (SampleResult& token : result.tokens) read_sample_result(in, token);
        }));
  }
  return {};
}

Status IsolatedSampler::verify(std::span<const VerifyRows> rows,
                               std::span<VerifyResult> results) noexcept {
  const auto seq_of = [&](size_t i) { return rows[i].rows.front().seq; };
  Status status = ask_or_restart(
      rows.size(), [&](uint32_t lane) { return ask_verified(lane, rows, results); },
      [&](size_t i) {
        if (!lost(seq_of(i))) return ask_verified(0, rows.subspan(i, 1), results.subspan(i, 1));
        return Status();
      },
      [&](size_t i) { results[i].count = 0; });
  const std::shared_lock lock(process_mutex_);
  for (size_t i = 0; i < rows.size() && !lost_.empty(); ++i) {
    if (lost(seq_of(i))) results[i].count = 0;
  }
  return status;
}

Status IsolatedSampler::distribution(const SampleRow& row, std::span<float> probs) noexcept {
  const auto ask = [&](uint32_t lane) {
    return plugin_.call(
        lane, GuestMethod::distribution, "distribution",
        [&](WireWriter& out) { write_sample_row(row, out); },
        [&](WireReader& in) { in.get_into(probs); });
  };
  return ask_or_restart(
      1, ask, [&](size_t) { return ask(0); }, [&](size_t) { std::ranges::fill(probs, 0.0f); });
}

}  // namespace tenon
