#include "core/report/statistics/requests_summary.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/report/statistics/goodput.h"
#include "core/report/statistics/metrics.h"

namespace tenon {
namespace {

// Far more than a picture shows.
constexpr size_t kCurvePoints = 4000;

std::vector<double> thinned(std::vector<double> values) {
  std::ranges::sort(values);
  if (values.size() <= kCurvePoints) return values;
  std::vector<double> out(kCurvePoints);
  for (size_t i = 0; i < kCurvePoints; ++i) {
    out[i] = values[i * (values.size() - 1) / (kCurvePoints - 1)];
  }
  return out;
}

// Those of another piece where they are the same.
std::shared_ptr<const std::vector<GivenAnswer>> answers_of(
    const MeasuredPiece& piece, const std::vector<MeasuredPiece>& others) {
  const auto same = [&](const RequestRow& row, const GivenAnswer& known) {
    return row.index == known.index && row.sample == known.sample && row.answer == known.answer &&
           row.text == known.text && row.digest == known.digest;
  };
  for (const MeasuredPiece& other : others) {
    if (!other.summary || !other.summary->answers) continue;
    if (std::ranges::equal(piece.requests, *other.summary->answers, same)) {
      return other.summary->answers;
    }
  }
  std::vector<GivenAnswer> out;
  out.reserve(piece.requests.size());
  for (const RequestRow& row : piece.requests) {
    out.push_back({row.index, row.sample, row.answer, row.text, row.digest});
  }
  return std::make_shared<const std::vector<GivenAnswer>>(std::move(out));
}

}  // namespace

ShortText::ShortText(std::string_view text) {
  if (text.size() <= letters_.size()) {
    std::ranges::copy(text, letters_.begin());
    return;
  }
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 1099511628211ull;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  std::copy_n(digits, letters_.size(), letters_.begin());
}

std::string ShortText::text() const {
  return {letters_.data(), ::strnlen(letters_.data(), letters_.size())};
}

void Spread::add(double value) {
  least = std::min(least, value);
  most = std::max(most, value);
  sum += value;
  ++count;
}
void Spread::add(const Spread& other) {
  least = std::min(least, other.least);
  most = std::max(most, other.most);
  sum += other.sum;
  count += other.count;
}

void summarise(MeasuredPiece& piece, const MeasuredPlan& plan,
               const std::vector<MeasuredPiece>& others) {
  auto made = std::make_shared<RequestsSummary>();
  made->totals = totals_of(piece);
  made->kept = static_cast<uint64_t>(std::ranges::count_if(
      piece.requests, [&](const RequestRow& row) { return within_bounds(row, plan); }));
  made->saturated = is_saturated(piece);
  for (const Metric& metric : metrics()) {
    if (const auto value = value_of(metric, piece, plan)) {
      made->values.emplace(metric.name, *value);
    }
  }
  made->ttft_ms = thinned(curve_of(piece, &RequestRow::ttft_ms));
  made->latency_ms = thinned(curve_of(piece, &RequestRow::latency_ms));
  made->answers = answers_of(piece, others);
  piece.summary = std::move(made);
  piece.requests = {};
}

RequestTotals totals_of(const MeasuredPiece& piece) {
  if (piece.summary) return piece.summary->totals;
  RequestTotals out;
  out.requests = piece.requests.size();
  for (const RequestRow& row : piece.requests) {
    out.errors += row.finish == "error" ? 1 : 0;
    out.prompt_tokens.add(row.prompt_tokens);
    out.tokens.add(row.tokens);
    out.reused_tokens += row.reused_tokens;
  }
  return out;
}

size_t request_count(const MeasuredPiece& piece) {
  return piece.summary ? piece.summary->totals.requests : piece.requests.size();
}

GivenAnswer answer_at(const MeasuredPiece& piece, size_t at) {
  if (piece.summary) return (*piece.summary->answers)[at];
  const RequestRow& row = piece.requests[at];
  return {row.index, row.sample, row.answer, row.text, row.digest};
}

bool share_answers(const MeasuredPiece& a, const MeasuredPiece& b) {
  return a.summary && b.summary && a.summary->answers == b.summary->answers;
}

bool same_requests(const MeasuredPiece& a, const MeasuredPiece& b) {
  if (!a.summary || !b.summary) return !a.summary && !b.summary && a.requests == b.requests;
  const RequestsSummary &x = *a.summary, &y = *b.summary;
  return x.totals == y.totals && x.values == y.values && x.ttft_ms == y.ttft_ms &&
         x.latency_ms == y.latency_ms && (x.answers == y.answers || *x.answers == *y.answers);
}

std::vector<double> curve_of(const MeasuredPiece& piece, double RequestRow::*member) {
  if (piece.summary) {
    return member == &RequestRow::ttft_ms ? piece.summary->ttft_ms : piece.summary->latency_ms;
  }
  std::vector<double> out;
  for (const RequestRow& row : piece.requests) {
    if (row.ttft_ms >= 0) out.push_back(row.*member);
  }
  return out;
}

}  // namespace tenon
