#include <tenon/sdk/drafter/adaptive_drafts.h>

#include <algorithm>

namespace tenon::sdk {

void PlaceShares::learn(uint32_t drafted, std::span<const uint32_t> kept, double keep) {
  if (shares_.size() < drafted) shares_.resize(drafted);
  for (uint32_t place = 0; place < drafted; ++place) {
    Share& share = shares_[place];
    const bool hit = std::ranges::find(kept, place) != kept.end();
    share.trials = share.trials * keep + 1.0;
    share.hits = share.hits * keep + (hit ? 1.0 : 0.0);
  }
}

double PlaceShares::share(uint32_t place) const {
  double least = 1.0;
  for (uint32_t i = 0; i <= place; ++i) {
    // Drawn to what would be expected untried, as if that had been seen twice.
    const double untried = least * kUntried;
    if (i >= shares_.size()) {
      least = untried;
      continue;
    }
    least = std::min(least, (shares_[i].hits + 2.0 * untried) / (shares_[i].trials + 2.0));
  }
  return least;
}

double PlaceShares::expected(uint32_t drafted) const {
  double sum = 0.0;
  for (uint32_t place = 0; place < drafted; ++place) sum += share(place);
  return sum;
}

void AdaptiveDrafts::learn_tree(SeqId seq, uint32_t drafted, std::span<const uint32_t> kept) {
  if (!adaptive_ || drafted == 0 || !sequences_.contains(seq)) return;
  likeness_[seq].learn_expected(places_.expected(drafted), static_cast<double>(kept.size()),
                                kKeepOfOne);
  places_.learn(drafted, kept, kKeepOfAll);
  judged_ = std::min(judged_ + 1, kFewProposals);
}

void AdaptiveDrafts::learn(SeqId seq, uint32_t trials, uint32_t hits) {
  if (!adaptive_) return;
  const auto found = sequences_.find(seq);
  if (found == sequences_.end()) return;
  found->second.acceptance.learn(trials, hits, kKeepOfOne);
  all_.learn(trials, hits, kKeepOfAll);
  if (trials > 0) judged_ = std::min(judged_ + 1, kFewProposals);
}

void AdaptiveDrafts::measured(const DraftStepCost& cost) {
  if (!adaptive_) return;
  reading_.learn(cost, unread_, times_.drafting(depth_));
  times_.learn(cost, depth_, unread_ == 0, asking_);
  if (depth_ > 0) check_ns_ += kChecks * static_cast<double>(cost.step.duration_ns);
  asking_ = false;
  depth_ = 0;
  unread_ = 0;
}

void AdaptiveDrafts::choose(std::span<const DraftRequest> requests, std::span<uint32_t> offered,
                            std::span<const uint64_t> unread) {
  if (!adaptive_) return;
  if (!times_.known() && costs_ != nullptr) times_.begin_with(*costs_);
  for (size_t i = 0; i < unread.size(); ++i) {
    lengths_.see(requests[i].seq, requests[i].history.size());
  }
  if (!times_.known()) {
    // Enough to learn from, whatever it turns out to cost.
    for (size_t i = kFirstTries; i < offered.size(); ++i) offered[i] = 0;
    return;
  }
  available_.assign(offered.begin(), offered.end());
  collect(requests, offered);
  const auto rows = static_cast<double>(requests.size());
  size_t best = best_count(rows);
  wanted_.assign(requests.size(), 0);
  for (size_t i = 0; i < best; ++i) ++wanted_[gains_[i].index];
  if (best > 0 && leave_unread(requests, offered, unread)) {
    collect(requests, offered);
    best = best_count(rows);
    if (best == 0 && keep_first(offered)) return note_gain(rows, true);
    if (best == 0) collect(requests, available_);
  }
  if (best > 0) pause_ = kFirstPause, waited_ = 0;
  if (!gains_.empty()) note_gain(rows, best > 0);
  const bool checks = best > 0 && check_due(rows);
  const bool probe = best == 0 && !gains_.empty() && (told_news() || due());
  tried_ = probe;
  asking_ = checks || probe;
  std::fill(offered.begin(), offered.end(), 0u);
  if (checks) return;
  if (probe) {
    promised_ = promise();
    return give_tries(unread, offered);
  }
  probes_ = kProbes;
  if (best == 0 && give_first(requests, unread, offered)) return;
  for (size_t i = 0; i < best; ++i) ++offered[gains_[i].index];
  if (best > 0) try_rested(requests, available_, unread, offered);
}

void AdaptiveDrafts::note_gain(double rows, bool given) {
  const auto follow = [](double& value, double seen) {
    value = kKeepOfSteps * value + (1 - kKeepOfSteps) * seen;
  };
  const auto could = std::ranges::count_if(available_, [](uint32_t slots) { return slots > 0; });
  follow(given_, given ? 1 : 0);
  follow(saving_, gained_ * times_.of(rows, 0) / static_cast<double>(could));
  follow(saving_known_, 1);
}

bool AdaptiveDrafts::sees_next() {
  if (!adaptive_ || (given_ > kSeldom && pays_to_see())) {
    unseen_ = 0;
    between_ = kFirstUnseen;
    return true;
  }
  if (++unseen_ < between_) return false;
  unseen_ = 0;
  between_ = std::min(2 * between_, kMostUnseen);
  return true;
}

bool AdaptiveDrafts::pays_to_see() const {
  const double prompt = lengths_.usual_prompt();
  if (judged_ < kFewProposals || saving_known_ == 0 || prompt == 0) return true;
  const double cost =
      seeing_ * reading_.of_prompt(prompt) + reading_.of(std::min(prompt, most_read_));
  return saving_ / saving_known_ * lengths_.usual() > cost;
}

bool AdaptiveDrafts::leave_unread(std::span<const DraftRequest> requests,
                                  std::span<uint32_t> offered, std::span<const uint64_t> unread) {
  // What drafts save of the time that a token takes. Those of all sequences come at once.
  const double rows = static_cast<double>(requests.size());
  const double saved = gained_ * times_.of(rows, 0) / rows;
  // As long as nothing is known of drafts, one text is enough to learn from.
  size_t read = 0;
  for (size_t i = 0; i < unread.size(); ++i) read += offered[i] > 0 && unread[i] <= kUsualLag;
  const size_t most = judged_ < kFewProposals ? 1 : unread.size();
  bool some = false;
  for (size_t i = 0; i < unread.size(); ++i) {
    if (offered[i] == 0 || unread[i] <= kUsualLag) continue;
    const bool pays =
        reading_.of(static_cast<double>(unread[i])) <= saved * lengths_.left(requests[i].seq);
    if (pays && ++read <= most) continue;
    offered[i] = 0;
    some = true;
  }
  return some;
}

bool AdaptiveDrafts::keep_first(std::span<uint32_t> offered) const {
  if (judged_ == kFewProposals) return false;
  bool some = false;
  for (size_t i = 0; i < offered.size(); ++i) {
    offered[i] = std::min(offered[i], std::max(wanted_[i], 1u));
    some = some || offered[i] > 0;
  }
  return some;
}

bool AdaptiveDrafts::give_first(std::span<const DraftRequest> requests,
                                std::span<const uint64_t> unread,
                                std::span<uint32_t> offered) const {
  if (judged_ == 0 || judged_ == kFewProposals || times_.knows_drafting()) return false;
  bool some = false;
  for (size_t i = 0; i < unread.size(); ++i) {
    if (unread[i] > kUsualLag || rate_of(requests[i].seq) < kMostlyRight) continue;
    offered[i] = std::min(available_[i], kFirstDrafts);
    some = some || offered[i] > 0;
  }
  return some;
}

bool AdaptiveDrafts::check_due(double rows) {
  ++unchecked_;
  const double loses = gained_ * times_.of(rows, 0);
  const bool first = checks_ < kFirstChecks;
  const bool is_due = unchecked_ >= kLeastBetween && (first || check_ns_ >= loses);
  if (times_.is_changing()) return false;
  if (!times_.take_doubt() && !times_.changed() && !is_due) return false;
  if (first) {
    ++checks_;
  } else {
    check_ns_ -= loses;
  }
  unchecked_ = 0;
  return true;
}

double AdaptiveDrafts::promise() const {
  double sum = 0;
  for (size_t i = 0; i < std::min(kProbes, gains_.size()); ++i) sum += gains_[i].tokens;
  return sum;
}

bool AdaptiveDrafts::told_news() {
  if (!tried_) return false;
  if (times_.take_doubt()) return true;
  if (times_.take_cheaper()) {
    probes_ = std::min(2 * probes_, kMostProbes);
    return true;
  }
  return promise() > promised_ + kNews;
}

void AdaptiveDrafts::give_tries(std::span<const uint64_t> unread, std::span<uint32_t> offered) {
  size_t given = 0;
  for (const Gain& gain : gains_) {
    if (given == probes_) return;
    const uint64_t missed = unread.empty() ? 0 : unread[gain.index];
    if (missed > kUsualLag && offered[gain.index] == 0) {
      if (!reading_.may_try(missed)) continue;
      reading_.tried(missed);
    }
    ++offered[gain.index];
    ++given;
  }
}

// Those that learn in the shadow need no try.
void AdaptiveDrafts::try_rested(std::span<const DraftRequest> requests,
                                std::span<const uint32_t> available,
                                std::span<const uint64_t> unread, std::span<uint32_t> offered) {
  Known* longest = nullptr;
  size_t who = 0;
  for (size_t i = 0; i < requests.size() && !shadowed_; ++i) {
    const auto found = sequences_.find(requests[i].seq);
    if (found == sequences_.end() || available[i] == 0) continue;
    Known& known = found->second;
    if (offered[i] > 0) {
      known.rested = 0;
      known.rest = kFirstRest;
    } else if (++known.rested >= known.rest &&
               (longest == nullptr || known.rested > longest->rested)) {
      longest = &known;
      who = i;
    }
  }
  if (longest == nullptr) return;
  if (!unread.empty() && unread[who] > kUsualLag) {
    if (!reading_.may_try(unread[who])) return;
    reading_.tried(unread[who]);
  }
  offered[who] = 1;
  longest->rested = 0;
  longest->rest = std::min(2 * longest->rest, kLongestPause);
}

double AdaptiveDrafts::rate_of(SeqId seq) const {
  const double general = all_.rate(kFirstRate, kFirstWeight);
  const auto found = sequences_.find(seq);
  return found == sequences_.end() ? general : found->second.acceptance.rate(general, kPriorWeight);
}

void AdaptiveDrafts::collect(std::span<const DraftRequest> requests,
                             std::span<const uint32_t> offered) {
  gains_.clear();
  for (uint32_t i = 0; i < requests.size(); ++i) {
    const double rate = std::min(rate_of(requests[i].seq), 0.999);
    double gain = 1.0;
    for (uint32_t depth = 1; depth <= offered[i]; ++depth) {
      gain = gain_of(requests[i].seq, depth, rate, gain);
      gains_.push_back({gain, depth, i});
    }
  }
  std::sort(gains_.begin(), gains_.end(), [](const Gain& a, const Gain& b) {
    if (a.tokens != b.tokens) return a.tokens > b.tokens;
    return a.depth != b.depth ? a.depth < b.depth : a.index < b.index;
  });
}

double AdaptiveDrafts::gain_of(SeqId seq, uint32_t depth, double rate, double before) const {
  if (!places_.known()) return before * rate;
  const auto found = likeness_.find(seq);
  const double likeness = found == likeness_.end() ? 1.0 : found->second.rate(1.0, kPriorWeight);
  return std::min({before, 0.999, places_.share(depth - 1) * likeness});
}

size_t AdaptiveDrafts::best_count(double rows) {
  const double base_time = times_.of(rows, 0);
  double best_speed = kMargin * rows / base_time;
  size_t best = 0;
  double tokens = rows, slowest = base_time;
  uint32_t depth = 0;
  for (size_t i = 0; i < gains_.size(); ++i) {
    tokens += gains_[i].tokens;
    depth = std::max(depth, passes(gains_[i].depth));
    slowest = std::max(slowest, times_.of(rows + static_cast<double>(i + 1), depth));
    if (tokens / slowest <= best_speed) continue;
    best_speed = tokens / slowest;
    best = i + 1;
  }
  gained_ = best > 0 ? 1 - rows / base_time / best_speed : 0;
  return best;
}

bool AdaptiveDrafts::due() {
  if (shadowed_ && gains_.front().tokens < 0.5) return false;
  ++waited_;
  if (times_.is_changing() || (!times_.changed() && waited_ < pause_)) return false;
  waited_ = 0;
  pause_ = std::min(2 * pause_, kLongestPause);
  return true;
}

}  // namespace tenon::sdk
