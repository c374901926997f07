#include "core/compare/cluster/journey.h"

#include <algorithm>

#include "core/base/digest/sha256.h"
#include "core/report/pages/answer_text.h"

namespace tenon::compare {
namespace {

double ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

}  // namespace

Request Journey::next(uint32_t tokens) const {
  Request out = request_;
  out.prompt.insert(out.prompt.end(), ids_.begin(), ids_.end());
  const uint32_t left = request_.max_tokens - static_cast<uint32_t>(ids_.size());
  out.max_tokens = tokens == 0 ? left : std::min(left, tokens);
  return out;
}

void Journey::add(const ReplaySink::Sample& part) {
  ids_.insert(ids_.end(), part.ids.begin(), part.ids.end());
  text_ += part.text;
  token_ns_.insert(token_ns_.end(), part.record.token_ns.begin(), part.record.token_ns.end());
  if (!began_) reused_tokens_ = part.record.reused_tokens;
  began_ = true;
  preemptions_ += part.record.preemptions;
  reason_ = part.reason;
  end_ns_ = part.record.end_ns;
}

bool Journey::goes_on(FinishReason reason) const {
  return (reason == FinishReason::length || reason == FinishReason::cancelled) &&
         ids_.size() < request_.max_tokens;
}

RequestRow Journey::row(int64_t start_ns, QuantileSketch& gaps) const {
  RequestRow row;
  row.index = static_cast<uint32_t>(index_);
  row.prompt_tokens = static_cast<uint32_t>(request_.prompt.size());
  row.tokens = static_cast<uint32_t>(ids_.size());
  row.reused_tokens = reused_tokens_;
  row.preemptions = preemptions_;
  row.arrival_ms = ms(arrival_ns_ - start_ns);
  if (!token_ns_.empty()) row.ttft_ms = ms(token_ns_.front() - arrival_ns_);
  if (token_ns_.size() > 1) {
    row.tpot_ms =
        ms(token_ns_.back() - token_ns_.front()) / static_cast<double>(token_ns_.size() - 1);
  }
  row.latency_ms = ms(end_ns_ - arrival_ns_);
  for (size_t i = 1; i < token_ns_.size(); ++i) {
    const double gap = ms(token_ns_[i] - token_ns_[i - 1]);
    gaps.add(gap);
    row.longest_gap_ms = std::max(row.longest_gap_ms, gap);
  }
  row.finish = finish_reason_name(reason_);
  row.answer = sha256_hex(std::as_bytes(std::span(ids_))).substr(0, 16);
  row.text = text_hash(text_);
  return row;
}

}  // namespace tenon::compare
