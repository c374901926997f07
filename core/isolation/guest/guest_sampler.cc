#include <tenon/sampler.h>

#include <deque>
#include <vector>

#include "core/isolation/guest/guest.h"
#include "core/isolation/sampling_messages.h"

namespace tenon {
namespace {

// One thread's room, used again and again.
struct SamplingRoom {
  std::vector<SampleRow> rows;
  std::vector<SampleResult> results;
  std::vector<TokenLogprob> tops;
  std::vector<VerifyRows> verify_rows;
  std::vector<VerifyResult> verify_results;
  std::vector<uint32_t> paths;
  std::vector<float> probs;
};
SamplingRoom& room_of_this_lane() {
  thread_local SamplingRoom instance;
  return instance;
}

class SamplerServer final : public GuestServer {
 public:
  explicit SamplerServer(Sampler& plugin) : plugin_(plugin) {}

  void serve(GuestMethod method, WireReader& in, const Lane&, GuestReply& reply) override {
    switch (method) {
      case GuestMethod::begin_sampling:
        return begin(in, reply);
      case GuestMethod::end_sampling:
        reply.begin(plugin_.end(in.get<SeqId>()));
        return;
      case GuestMethod::sample:
        return sample(in, reply);
      case GuestMethod::verify:
        return verify(in, reply);
      default:
        return distribution(in, reply);
    }
  }

 private:
  void begin(WireReader& in, GuestReply& reply) {
    const auto seq = in.get<SeqId>(), parent = in.get<SeqId>();
    ReadSamplingParams read;
    read_sampling_params(in, read);
    reply.begin(plugin_.begin(seq, read.params, parent));
  }

  void sample(WireReader& in, GuestReply& reply) {
    SamplingRoom& room = room_of_this_lane();
    const auto count = in.get<uint32_t>();
    room.rows.clear();
    size_t tops = 0;
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      room.rows.push_back(read_sample_row(in));
      tops += in.get<uint32_t>();
      top_counts(i) = static_cast<uint32_t>(tops);
    }
    lay_out(room, room.rows.size());
    WireWriter& out = reply.begin(plugin_.sample(room.rows, room.results));
    for (const SampleResult& result : room.results) write_sample_result(result, out);
  }

  // Where a result's tops end.
  static uint32_t& top_counts(size_t i) {
    thread_local std::vector<uint32_t> ends;
    if (ends.size() <= i) ends.resize(i + 1);
    return ends[i];
  }
  static void lay_out(SamplingRoom& room, size_t count) {
    room.results.assign(count, {});
    room.tops.assign(count == 0 ? 0 : top_counts(count - 1), {});
    for (size_t i = 0; i < count; ++i) {
      const size_t first = i == 0 ? 0 : top_counts(i - 1);
      room.results[i].top = std::span(room.tops).subspan(first, top_counts(i) - first);
    }
  }

  void verify(WireReader& in, GuestReply& reply) {
    SamplingRoom& room = room_of_this_lane();
    const auto count = in.get<uint32_t>();
    room.rows.clear();
    room.verify_rows.clear();
    std::vector<size_t> row_counts;
    size_t tops = 0, drafts = 0;
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      const auto rows = in.get<uint32_t>();
      row_counts.push_back(rows);
      for (uint32_t r = 0; r < rows && in.ok(); ++r) {
        room.rows.push_back(read_sample_row(in));
        tops += in.get<uint32_t>();
        top_counts(room.rows.size() - 1) = static_cast<uint32_t>(tops);
      }
      VerifyRows& verified = room.verify_rows.emplace_back();
      verified.drafts = in.get_list<TokenId>();
      verified.parents = in.get_list<int32_t>();
      const std::span<const float> probs = in.get_list<float>();
      verified.draft_probs = probs.empty() ? nullptr : probs.data();
      drafts += verified.drafts.size();
    }
    lay_out(room, room.rows.size());
    room.paths.assign(drafts, 0);
    room.verify_results.assign(room.verify_rows.size(), {});
    size_t row = 0, path = 0;
    for (size_t i = 0; i < room.verify_rows.size(); ++i) {
      VerifyRows& verified = room.verify_rows[i];
      verified.rows = std::span(room.rows).subspan(row, row_counts[i]);
      VerifyResult& result = room.verify_results[i];
      result.tokens = std::span(room.results).subspan(row, row_counts[i]);
      result.path = std::span(room.paths).subspan(path, verified.drafts.size());
      row += row_counts[i];
      path += verified.drafts.size();
    }
    WireWriter& out = reply.begin(plugin_.verify(room.verify_rows, room.verify_results));
    for (const VerifyResult& result : room.verify_results) {
      out.put(result.count);
      out.put_list(std::span<const uint32_t>(result.path));
      for (const SampleResult& token : result.tokens) write_sample_result(token, out);
    }
  }

  void distribution(WireReader& in, GuestReply& reply) {
    SamplingRoom& room = room_of_this_lane();
    const SampleRow row = read_sample_row(in);
    room.probs.assign(row.vocabulary, 0.0f);
    WireWriter& out = reply.begin(plugin_.distribution(row, room.probs));
    out.put_list(room.probs);
  }

  Sampler& plugin_;
};

}  // namespace

std::unique_ptr<GuestServer> serve_sampler(Sampler& plugin) {
  return std::make_unique<SamplerServer>(plugin);
}

}  // namespace tenon
