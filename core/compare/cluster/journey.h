// A request that more than one machine has a part in: what it asked for, what was answered so far
// and when, and what the next machine is asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/compare/replay/replay_sink.h"
#include "core/engine/requests/request.h"
#include "core/report/statistics/measured.h"
#include "core/report/statistics/quantile_sketch.h"

namespace tenon::compare {

class Journey {
 public:
  // `arrival_ns`: by the clocks of all machines.
  Journey(size_t index, Request request, int64_t arrival_ns)
      : index_(index), request_(std::move(request)), arrival_ns_(arrival_ns) {}

  size_t index() const { return index_; }
  int64_t arrival_ns() const { return arrival_ns_; }
  const std::vector<TokenId>& prompt() const { return request_.prompt; }
  uint32_t samples() const { return request_.samples; }
  // The prompt and what was answered so far, for at most `tokens` more (0: all that are wanted).
  Request next(uint32_t tokens) const;
  // Of the prompt and what was answered so far.
  size_t known_tokens() const { return request_.prompt.size() + ids_.size(); }
  // What a machine answered of it.
  void add(const ReplaySink::Sample& part);
  // Whether the answer goes on after such an end.
  bool goes_on(FinishReason reason) const;
  // As one machine's row would be, times after `start_ns`.
  RequestRow row(int64_t start_ns, QuantileSketch& gaps) const;

 private:
  size_t index_;
  Request request_;
  int64_t arrival_ns_;
  std::vector<TokenId> ids_;
  std::string text_;
  std::vector<int64_t> token_ns_;
  uint32_t reused_tokens_ = 0, preemptions_ = 0;
  bool began_ = false;
  FinishReason reason_ = FinishReason::length;
  int64_t end_ns_ = 0;
};

}  // namespace tenon::compare
