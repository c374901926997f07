// What reports take of a piece's requests: from its rows or, of a piece that had very many, from
// what was kept of them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/report/statistics/measured.h"

namespace tenon {

struct Spread {
  double least = std::numeric_limits<double>::infinity(), most = 0, sum = 0, count = 0;

  void add(double value);
  void add(const Spread& other);
  friend bool operator==(const Spread&, const Spread&) = default;
};

struct RequestTotals {
  uint64_t requests = 0, errors = 0;
  Spread prompt_tokens, tokens;
  double reused_tokens = 0;
  friend bool operator==(const RequestTotals&, const RequestTotals&) = default;
};

// What tells whether two answers are the same.
struct GivenAnswer {
  uint32_t index = 0, sample = 0;
  ShortText answer = {}, text = {}, digest = {};

  friend bool operator==(const GivenAnswer&, const GivenAnswer&) = default;
};

struct RequestsSummary {
  RequestTotals totals;
  uint64_t kept = 0;  // the plan's bounds
  bool saturated = false;
  std::map<std::string, double> values;  // of metrics, exactly those of the rows; absent: none
  // Of requests that got a token, rising, of equal distance in rank.
  std::vector<double> ttft_ms, latency_ms;
  // Pieces with equal answers share them.
  std::shared_ptr<const std::vector<GivenAnswer>> answers;
};

// Puts a summary in place of the piece's rows. `others`: pieces that may have given the same
// answers.
void summarise(MeasuredPiece& piece, const MeasuredPlan& plan,
               const std::vector<MeasuredPiece>& others);

RequestTotals totals_of(const MeasuredPiece& piece);
size_t request_count(const MeasuredPiece& piece);
GivenAnswer answer_at(const MeasuredPiece& piece, size_t at);
// Whether both are known to have given the same answers, without a look at each.
bool share_answers(const MeasuredPiece& a, const MeasuredPiece& b);
// Whether every figure of every request is the same.
bool same_requests(const MeasuredPiece& a, const MeasuredPiece& b);
// Of requests that got a token: `member` is ttft_ms or latency_ms.
std::vector<double> curve_of(const MeasuredPiece& piece, double RequestRow::*member);

}  // namespace tenon
