#include "core/contract/checked_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/contract/lent_rows.h"

namespace tenon {
namespace {

// What rounding may add to a log probability of 0, or to a sum of probabilities.
constexpr float kRounding = 1e-3f;
constexpr double kSumTolerance = 1e-2;

std::string at(const SampleRow& row) {
  return " for position " + std::to_string(row.key.position) + " of sequence " +
         std::to_string(row.seq);
}
std::string vocabulary_of(const SampleRow& row) {
  return "0 to " + std::to_string(row.vocabulary - 1);
}
bool is_token(TokenId token, const SampleRow& row) {
  return token >= 0 && static_cast<uint32_t>(token) < row.vocabulary;
}
bool is_allowed(TokenId token, const SampleRow& row) {
  return row.allowed == nullptr || ((row.allowed[token / 64] >> (token % 64)) & 1) != 0;
}
bool is_logprob(float value) {
  return value <= kRounding;  // not NaN
}

Status check_top(std::string_view method, const SampleRow& row, const SampleResult& result) {
  if (result.top_count > result.top.size()) {
    return broken_promise(
        method, "reports " + std::to_string(result.top_count) + " alternatives" + at(row),
        "at most " + std::to_string(result.top.size()) + ", for which there was room");
  }
  for (uint32_t i = 0; i < result.top_count; ++i) {
    const TokenLogprob& entry = result.top[i];
    if (!is_token(entry.token, row)) {
      return broken_promise(
          method, "reports token " + std::to_string(entry.token) + " as an alternative" + at(row),
          vocabulary_of(row));
    }
    const bool falls = i == 0 || !(entry.logprob > result.top[i - 1].logprob);
    if (!is_logprob(entry.logprob) || !falls) {
      return broken_promise(
          method,
          "reports an alternative of log probability " + std::to_string(entry.logprob) + at(row),
          "0 or less, the most likely first");
    }
  }
  return {};
}

Status check_result(std::string_view method, const SampleRow& row, const SampleResult& result) {
  if (Status status = check_top(method, row, result); !status.ok()) return status;
  if (result.token == kNoToken) return {};
  if (!is_token(result.token, row)) {
    return broken_promise(method, "drew token " + std::to_string(result.token) + at(row),
                          vocabulary_of(row));
  }
  if (row.score != kNoToken && result.token != row.score) {
    return broken_promise(method, "answered token " + std::to_string(result.token) + at(row),
                          std::to_string(row.score) + ", which was to be scored");
  }
  if (row.score == kNoToken && !is_allowed(result.token, row)) {
    return broken_promise(method, "drew token " + std::to_string(result.token) + at(row),
                          "one of those that are allowed there");
  }
  if (!is_logprob(result.logprob) || result.rank > row.vocabulary) {
    return broken_promise(method,
                          "gave token " + std::to_string(result.token) + " log probability " +
                              std::to_string(result.logprob) + " and rank " +
                              std::to_string(result.rank) + at(row),
                          "0 or less, and at most " + std::to_string(row.vocabulary));
  }
  return {};
}

// A row without any finite logit that is allowed has no token, whatever its sampler says of it.
// Only where the token's own logit is not finite there is more to look at.
bool has_no_token(const SampleRow& row, TokenId token) {
  if (row.logits == nullptr || token == kNoToken) return false;
  if (std::isfinite(row.logits[token])) return false;
  for (uint32_t id = 0; id < row.vocabulary; ++id) {
    if (std::isfinite(row.logits[id]) && is_allowed(static_cast<TokenId>(id), row)) return false;
  }
  return true;
}

void take_token_back(const SampleRow& row, SampleResult& result) {
  if (!has_no_token(row, result.token)) return;
  result.token = kNoToken;
  result.top_count = 0;
}

// The rows after the tokens of a verification, as far as each has one.
void take_tokens_back(const VerifyRows& rows, VerifyResult& result) {
  for (uint32_t i = 0; i < result.count; ++i) {
    const size_t row = i == 0 || rows.parents.empty() ? i : size_t{result.path[i - 1]} + 1;
    if (!has_no_token(rows.rows[row], result.tokens[i].token)) continue;
    result.tokens[i].token = kNoToken;
    result.count = i;
    return;
  }
}

// Whether each token but the last is a draft that follows the one before it.
Status check_path(const VerifyRows& rows, const VerifyResult& result) {
  int32_t before = -1;
  for (uint32_t i = 0; i + 1 < result.count; ++i) {
    const uint32_t draft = rows.parents.empty() ? i : result.path[i];
    const bool follows =
        draft < rows.drafts.size() && (rows.parents.empty() || rows.parents[draft] == before);
    if (!follows) {
      return broken_promise("verify",
                            "accepted draft " + std::to_string(draft) + at(rows.rows.front()),
                            "one that follows the accepted ones before it");
    }
    if (result.tokens[i].token != rows.drafts[draft]) {
      return broken_promise("verify",
                            "answered token " + std::to_string(result.tokens[i].token) +
                                " for draft " + std::to_string(draft) + at(rows.rows.front()),
                            std::to_string(rows.drafts[draft]) + ", which was drafted");
    }
    before = static_cast<int32_t>(draft);
  }
  return {};
}

Status check_verified(const VerifyRows& rows, const VerifyResult& result) {
  const SampleRow& first = rows.rows.front();
  if (result.count > rows.drafts.size() + 1) {
    return broken_promise("verify",
                          "accepted " + std::to_string(result.count - 1) + " drafts" + at(first),
                          "at most " + std::to_string(rows.drafts.size()) + ", which there were");
  }
  for (uint32_t i = 0; i < result.count; ++i) {
    if (result.tokens[i].token == kNoToken) {
      return broken_promise("verify", "left out token " + std::to_string(i) + at(first),
                            "a token for each that it counts");
    }
    // Of a tree the path says which row is meant.
    SampleRow row = rows.parents.empty() ? rows.rows[i] : first;
    if (!rows.parents.empty()) row.allowed = nullptr;
    if (Status status = check_result("verify", row, result.tokens[i]); !status.ok()) return status;
  }
  return check_path(rows, result);
}

// What a plugin is given room with: guarded arrays with canaries after them. Of one thread, so that
// nothing is allocated once they are warm.
class SamplerRoom {
 public:
  static SamplerRoom& of_this_thread() {
    thread_local SamplerRoom instance;
    return instance;
  }

  void begin() {
    tops_.clear();
    results_.clear();
    paths_.clear();
  }
  // Where the copy of an array begins: all are laid out before any is used, as arrays move.
  void add(std::span<const SampleResult> results) {
    for (const SampleResult& result : results) {
      tops_.insert(tops_.end(), result.top.begin(), result.top.end());
      tops_.insert(tops_.end(), kTopsBehind, kNoTop);
      results_.push_back(result);
    }
    results_.push_back(kNoResult);
  }
  void add_path(std::span<const uint32_t> path) {
    paths_.insert(paths_.end(), path.begin(), path.end());
    paths_.insert(paths_.end(), kPathBehind, kNoDraft);
  }
  // In the order in which they were added.
  void rewind() { next_top_ = next_result_ = next_path_ = 0; }
  std::span<SampleResult> give(size_t count) {
    const std::span<SampleResult> given(results_.data() + next_result_, count);
    for (SampleResult& result : given) {
      result.top = {tops_.data() + next_top_, result.top.size()};
      next_top_ += result.top.size() + kTopsBehind;
    }
    next_result_ += count + 1;
    return given;
  }
  std::span<uint32_t> give_path(size_t count) {
    const std::span<uint32_t> given(paths_.data() + next_path_, count);
    next_path_ += count + kPathBehind;
    return given;
  }
  // Copies the results back; the spans of `to` stay as they are. False: the plugin wrote beyond
  // them.
  bool take(std::span<SampleResult> to) {
    bool sound = true;
    for (SampleResult& result : to) {
      const SampleResult& given = results_[next_result_++];
      const TokenLogprob* top = tops_.data() + next_top_;
      const std::span<TokenLogprob> room = result.top;
      std::copy_n(top, room.size(), room.begin());
      result = given;
      result.top = room;
      for (size_t i = room.size(); i < room.size() + kTopsBehind; ++i) {
        sound = sound && top[i].token == kNoTop.token && top[i].logprob == kNoTop.logprob;
      }
      next_top_ += room.size() + kTopsBehind;
    }
    const SampleResult& behind = results_[next_result_++];
    return sound && behind.token == kNoResult.token && behind.rank == kNoResult.rank;
  }
  bool take_path(std::span<uint32_t> to) {
    std::copy_n(paths_.data() + next_path_, to.size(), to.begin());
    const uint32_t* behind = paths_.data() + next_path_ + to.size();
    next_path_ += to.size() + kPathBehind;
    return std::all_of(behind, behind + kPathBehind, [](uint32_t d) { return d == kNoDraft; });
  }

 private:
  static constexpr size_t kTopsBehind = 2, kPathBehind = 4;
  static constexpr uint32_t kNoDraft = 0xc5c5c5c5u;
  static constexpr TokenLogprob kNoTop{-0x3a3a3a3b, -12345.5f};
  static constexpr SampleResult kNoResult{-0x3a3a3a3b, -12345.5f, 0xc5c5c5c5u, {}, 0};

  GuardedVector<TokenLogprob> tops_;
  GuardedVector<SampleResult> results_;
  GuardedVector<uint32_t> paths_;
  size_t next_top_ = 0, next_result_ = 0, next_path_ = 0;
};

// Nothing that a grammar forbids has a probability.
Status check_allowed(const SampleRow& row, std::span<const float> probs) {
  for (size_t token = 0; row.allowed != nullptr && token < probs.size(); ++token) {
    const bool allowed = ((row.allowed[token / 64] >> token % 64) & 1) != 0;
    if (allowed || probs[token] == 0.0f) continue;
    return broken_promise(
        "distribution",
        "gave token " + std::to_string(token) + " the probability " + std::to_string(probs[token]),
        "0, as the row does not allow it");
  }
  return {};
}

// What the rows of a call are and what they lead to, where calls are looked at closely.
class ShownRows {
 public:
  // Empty.
  static ShownRows& of_this_thread() {
    thread_local ShownRows instance;
    instance.shown_.begin();
    instance.lent_.begin();
    return instance;
  }
  void add(std::span<const SampleRow> rows) {
    shown_.add(rows);
    for (const SampleRow& row : rows) lend(row);
  }
  void add(std::span<const VerifyRows> rows) {
    shown_.add(rows);
    for (const VerifyRows& one : rows) {
      add(one.rows);
      shown_.add(one.drafts);
      shown_.add(one.parents);
      if (one.draft_probs == nullptr || one.rows.empty()) continue;
      lent_.add(one.draft_probs, one.drafts.size() * one.rows[0].vocabulary * sizeof(float));
    }
  }
  Status unchanged(std::string_view method) const {
    if (!shown_.unchanged()) return wrote_into(method, "rows");
    if (!lent_.unchanged()) return wrote_into(method, "logits or history");
    return {};
  }

 private:
  void lend(const SampleRow& row) {
    lent_.add(row.logits, row.vocabulary * sizeof(float));
    lent_.add_part(row.history.data(), row.history.size_bytes());
    if (row.allowed != nullptr) lent_.add(row.allowed, (row.vocabulary + 63) / 64 * 8);
  }

  ShownCopy shown_;
  LentRows lent_;
};

}  // namespace

Status check_distribution(std::string_view method, std::span<const float> probs) {
  // Several sums side by side: one would wait for itself.
  std::array<float, 8> sums{}, least{};
  const size_t whole = probs.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    for (size_t j = 0; j < 8; ++j) {
      sums[j] += probs[i + j];
      least[j] = probs[i + j] < least[j] ? probs[i + j] : least[j];
    }
  }
  for (size_t i = whole; i < probs.size(); ++i) {
    sums[0] += probs[i];
    least[0] = probs[i] < least[0] ? probs[i] : least[0];
  }
  double sum = 0.0;
  float lowest = 0.0f;
  for (size_t j = 0; j < 8; ++j) {
    sum += static_cast<double>(sums[j]);
    lowest = least[j] < lowest ? least[j] : lowest;
  }
  if (lowest >= 0.0f && (sum == 0.0 || std::abs(sum - 1.0) <= kSumTolerance)) return {};
  return broken_promise(method,
                        "gave probabilities from " + std::to_string(lowest) + " on whose sum is " +
                            std::to_string(sum),
                        "none below 0 and a sum of 1");
}

CheckedSampler::CheckedSampler(Sampler& plugin, const std::string& name, CallChecks checks)
    : plugin_(plugin),
      checks_(checks),
      begin_(name_call("begin", "sampler '" + name + "'")),
      end_(name_call("end", "sampler '" + name + "'")),
      sample_(name_call("sample", "sampler '" + name + "'")),
      verify_(name_call("verify", "sampler '" + name + "'")),
      distribution_(name_call("distribution", "sampler '" + name + "'")) {}

Status CheckedSampler::begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept {
  CheckedCall call(begin_, checks_);
  return call.readable(plugin_.begin(seq, params, parent));
}

Status CheckedSampler::end(SeqId seq) noexcept {
  CheckedCall call(end_, checks_);
  return call.readable(plugin_.end(seq));
}

Status CheckedSampler::sample(std::span<const SampleRow> rows,
                              std::span<SampleResult> results) noexcept {
  SamplerRoom& room = SamplerRoom::of_this_thread();
  ShownRows& shown = ShownRows::of_this_thread();
  if (checks_ == CallChecks::more) shown.add(rows);
  room.begin();
  room.add(results);
  room.rewind();
  Status status;
  {
    const std::span<SampleResult> given = room.give(results.size());
    CheckedCall call(sample_, checks_);
    status = call.readable(plugin_.sample(rows, given));
  }
  room.rewind();
  if (!room.take(results)) return wrote_behind("sample", "results");
  if (Status wrote = shown.unchanged("sample"); !wrote.ok()) return wrote;
  for (size_t i = 0; i < rows.size() && status.ok(); ++i) {
    status = check_result("sample", rows[i], results[i]);
    if (status.ok()) take_token_back(rows[i], results[i]);
  }
  return status;
}

Status CheckedSampler::verify(std::span<const VerifyRows> rows,
                              std::span<VerifyResult> results) noexcept {
  SamplerRoom& room = SamplerRoom::of_this_thread();
  ShownRows& shown = ShownRows::of_this_thread();
  if (checks_ == CallChecks::more) shown.add(rows);
  room.begin();
  for (const VerifyResult& result : results) {
    room.add(result.tokens);
    room.add_path(result.path);
  }
  room.rewind();
  thread_local std::vector<VerifyResult> given;
  given.assign(results.begin(), results.end());
  for (VerifyResult& result : given) {
    result.tokens = room.give(result.tokens.size());
    result.path = room.give_path(result.path.size());
  }
  Status status;
  {
    CheckedCall call(verify_, checks_);
    status = call.readable(plugin_.verify(rows, given));
  }
  room.rewind();
  bool sound = true;
  for (size_t i = 0; i < results.size(); ++i) {
    sound = room.take(results[i].tokens) && sound;
    sound = room.take_path(results[i].path) && sound;
    results[i].count = given[i].count;
  }
  if (!sound) return wrote_behind("verify", "results");
  if (Status wrote = shown.unchanged("verify"); !wrote.ok()) return wrote;
  for (size_t i = 0; i < rows.size() && status.ok(); ++i) {
    status = check_verified(rows[i], results[i]);
    if (status.ok()) take_tokens_back(rows[i], results[i]);
  }
  return status;
}

Status CheckedSampler::distribution(const SampleRow& row, std::span<float> probs) noexcept {
  ShownRows& shown = ShownRows::of_this_thread();
  if (checks_ == CallChecks::more) shown.add(std::span(&row, 1));
  Status status;
  {
    CheckedCall call(distribution_, checks_);
    status = call.readable(plugin_.distribution(row, probs));
  }
  if (Status wrote = shown.unchanged("distribution"); !wrote.ok()) return wrote;
  if (!status.ok()) return status;
  if (checks_ == CallChecks::more) {
    if (Status forbidden = check_allowed(row, probs); !forbidden.ok()) return forbidden;
  }
  return check_distribution("distribution", probs);
}

}  // namespace tenon
