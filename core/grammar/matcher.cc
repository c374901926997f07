#include "core/grammar/matcher.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {

Matcher::Matcher(std::shared_ptr<const Grammar> grammar,
                 std::shared_ptr<const Vocabulary> vocabulary, std::vector<TokenId> ends)
    : Matcher(std::make_shared<Runtime>(std::move(grammar), std::move(vocabulary)),
              std::move(ends)) {}

Matcher::Matcher(std::shared_ptr<Runtime> runtime, std::vector<TokenId> ends)
    : runtime_(std::move(runtime)) {
  std::sort(ends.begin(), ends.end());
  ends_ = std::make_shared<const Ends>(Ends{std::move(ends)});
  const auto lock = runtime_->lock();
  findings_ = runtime_->findings();
  trail_.push_back(findings_->machine.start());
}

// Carries what is remembered over to findings that were begun anew. The lock is held.
void Matcher::catch_up() {
  const std::shared_ptr<Findings>& now = runtime_->findings();
  if (now == findings_) return;
  for (ConfigId& config : trail_) config = now->machine.import(findings_->machine, config);
  findings_ = now;
}

void Matcher::append(ConfigId config, bool ends) {
  if (trail_.size() > 2 * kRollback) {
    trail_.erase(trail_.begin(), trail_.begin() + kRollback);
  }
  trail_.push_back(config);
  ++length_;
  if (ends) ended_at_ = length_;
}

bool Matcher::accept(TokenId token) {
  if (ended_at_ > 0) return false;
  const std::string_view bytes = runtime_->vocabulary().bytes(token);
  const bool may_end = std::binary_search(ends_->tokens.begin(), ends_->tokens.end(), token);
  const auto lock = runtime_->lock();
  catch_up();
  if (may_end && findings_->machine.accepts(here())) {
    append(here(), true);
    return true;
  }
  if (bytes.empty()) return false;
  const ConfigId next = findings_->machine.walk(here(), bytes);
  (void)findings_->machine.take_overflow();  // a mask, which is asked for first, tells of it
  if (next == kDeadConfig) return false;
  // A stop token that is also text ends the answer, whatever it says.
  append(next, false);
  return true;
}

void Matcher::rollback(size_t tokens) {
  tokens = std::min(tokens, trail_.size() - 1);
  trail_.resize(trail_.size() - tokens);
  length_ -= tokens;
  if (ended_at_ > length_) ended_at_ = 0;
}

Status Matcher::fill_mask(std::span<uint64_t> mask) {
  if (ended_at_ > 0) {
    std::fill(mask.begin(), mask.end(), 0);
    return {};
  }
  const auto lock = runtime_->lock();
  catch_up();
  TENON_RETURN_IF_ERROR(runtime_->fill_mask(here(), mask));
  if (!findings_->machine.accepts(here())) return {};
  for (const TokenId end : ends_->tokens) {
    const auto id = static_cast<uint32_t>(end);
    if (id / 64 < mask.size()) mask[id / 64] |= uint64_t{1} << (id % 64);
  }
  return {};
}

bool Matcher::accepts() const {
  const auto lock = runtime_->lock();
  return findings_->machine.accepts(here());
}

bool Matcher::is_finished() const {
  if (ended_at_ > 0) return true;
  const auto lock = runtime_->lock();
  return findings_->machine.is_finished(here());
}

}  // namespace tenon::grammar
