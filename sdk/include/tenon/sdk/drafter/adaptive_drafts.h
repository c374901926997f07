// How many tokens are worth proposing: an option of every drafter of ours.
//
// A draft that is kept saves a step; one that is not has cost a row. With acceptance a of a
// sequence's drafts, k of them are expected to bring a + a² + … + a^k tokens. The cost of a step as
// a function of its rows is learned from the steps themselves. Drafts are given to the sequences in
// the order of what they are expected to bring, as many as make the most tokens a second. A
// sequence that gets none is tried again now and then, and now and then a step has no drafts, so
// that what it takes stays known. A text that the drafter would have to read first is read where
// the rest of the answer is expected to pay for it.
#pragma once

#include <tenon/drafter.h>
#include <tenon/extensions/step_costs.h>
#include <tenon/host.h>
#include <tenon/sdk/drafter/missed_text.h>
#include <tenon/sdk/drafter/step_times.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon::sdk {

// Share of proposed tokens that were right, the recent ones counting more.
class Acceptance {
 public:
  // Of `trials` tokens in a row, all but the last of which were right if `hits` < `trials`.
  void learn(uint32_t trials, uint32_t hits, double keep) {
    if (trials == 0) return;
    trials_ = trials_ * keep + trials;
    hits_ = hits_ * keep + hits;
  }
  // Of trials whose hits were expected to be as many.
  void learn_expected(double expected, double hits, double keep) {
    trials_ = trials_ * keep + expected;
    hits_ = hits_ * keep + hits;
  }
  // Drawn to `prior` as if that had been seen in `weight` trials.
  double rate(double prior, double weight) const {
    return (hits_ + prior * weight) / (trials_ + weight);
  }

 private:
  double trials_ = 0;
  double hits_ = 0;
};

// Of drafts that form a tree: the share of each that is kept, by its place among those proposed.
// The first places have the most promising tokens, so the tokens that k drafts bring are the sum of
// the first k shares, whatever the shape of the tree.
class PlaceShares {
 public:
  // Of `drafted` tokens those in the places `kept` were.
  void learn(uint32_t drafted, std::span<const uint32_t> kept, double keep);
  bool known() const { return !shares_.empty(); }
  // How many of the first `drafted` are expected to be kept.
  double expected(uint32_t drafted) const;
  // A place that was never tried is worth a part of the one before it, and none is worth more.
  double share(uint32_t place) const;

 private:
  static constexpr double kUntried = 0.8;
  struct Share {
    double trials = 0;
    double hits = 0;
  };
  std::vector<Share> shares_;
};

class AdaptiveDrafts {
 public:
  // Without `adaptive` everything that is available is offered. `shadowed`: the drafter also learns
  // from proposals that were not made (it knows what they would have been), so no step has to be
  // spent on trying whether drafts have become right again. `in_one_pass`: the drafter's time does
  // not depend on how many tokens it proposes for a sequence.
  AdaptiveDrafts(bool adaptive, bool shadowed, bool in_one_pass = false)
      : adaptive_(adaptive), shadowed_(shadowed), in_one_pass_(in_one_pass) {}

  bool adaptive() const { return adaptive_; }

  // Takes what the host measured of steps before the first one, where it has done so.
  void ask_costs(const HostServices& host) {
    if (!adaptive_ || host.extension == nullptr) return;
    costs_ =
        static_cast<const std::span<const StepCost>*>(host.extension(host.context, kStepCosts));
  }

  void begin(SeqId seq) {
    if (adaptive_) sequences_.try_emplace(seq);
  }
  void end(SeqId seq) {
    sequences_.erase(seq);
    likeness_.erase(seq);
    lengths_.end(seq);
  }

  // Of `trials` proposed tokens the first `hits` were right.
  void learn(SeqId seq, uint32_t trials, uint32_t hits);

  // Of `drafted` tokens that form a tree those in the places `kept` were right.
  void learn_tree(SeqId seq, uint32_t drafted, std::span<const uint32_t> kept);

  void measured(const DraftStepCost& cost);

  // Tokens that the drafter may have to read before it drafts without that being a cost of its own:
  // what was verified last.
  static constexpr uint64_t kUsualLag = 40;

  // Lowers what could be offered to what is worth it. Call once a step, from `offer`. `unread`: the
  // tokens of each history that the drafter would have to read; empty: it reads none.
  void choose(std::span<const DraftRequest> requests, std::span<uint32_t> offered,
              std::span<const uint64_t> unread = {});
  // A sequence has been granted `tokens` slots, for which the drafter had to read so many tokens.
  void granted(uint32_t tokens, uint64_t unread = 0) {
    depth_ = std::max(depth_, passes(tokens));
    if (unread > kUsualLag) unread_ += unread;
  }

  double rate_of(SeqId seq) const;

  // Whether a text that begins now is worth seeing along its prompt, where that has a cost of its
  // own: as long as drafts were given in some of the last steps, and save more of a usual text than
  // seeing and reading its prompt takes. And now and then to try again.
  bool sees_next();
  // What is seen of a prompt takes this share of the target's time for it, and then so many of its
  // tokens are read, at most.
  void seeing_takes(double share, uint64_t most_read) {
    seeing_ = share;
    most_read_ = static_cast<double>(most_read);
  }

 private:
  static constexpr double kKeepOfOne = 0.9;  // about the last ten proposals of a sequence
  static constexpr double kKeepOfAll = 0.98;
  static constexpr double kFirstRate = 0.5;
  static constexpr double kFirstWeight = 2.0;
  static constexpr double kPriorWeight = 2.0;
  // A gain smaller than this is not told from noise.
  static constexpr double kMargin = 1.03;
  // Steps between two tries while nothing is worth proposing; doubled by each that changes nothing.
  static constexpr uint32_t kFirstPause = 64;
  static constexpr uint32_t kLongestPause = 1024;
  static constexpr size_t kProbes = 2;
  static constexpr size_t kMostProbes = 16;
  // A try tells something new if its slots are expected to bring so much more after it.
  static constexpr double kNews = 0.2;
  // Steps without drafts after which a sequence gets one while others get many; doubled likewise.
  static constexpr uint32_t kFirstRest = 32;
  static constexpr size_t kFirstTries = 4;  // sequences
  // Drafts are seldom given where fewer steps than that had some, of about the last twenty.
  static constexpr double kSeldom = 0.1;
  static constexpr double kKeepOfSteps = 0.95;
  // Texts between two that are seen then; doubled by each that changes nothing.
  static constexpr uint32_t kFirstUnseen = 8;
  static constexpr uint32_t kMostUnseen = 64;
  // Proposals whose fate is to be known before more than one text is read for drafts.
  static constexpr uint32_t kFewProposals = 16;
  // What such a text is given as long as so many of its drafts are right.
  static constexpr uint32_t kFirstDrafts = 4;
  static constexpr double kMostlyRight = 0.5;
  // Of the time of steps with drafts, what steps without may lose while drafts pay; steps from one
  // to the next, at least; and how many there are to begin with, whatever they lose.
  static constexpr double kChecks = 0.005;
  static constexpr uint32_t kLeastBetween = 16;
  static constexpr uint32_t kFirstChecks = 2;

  struct Known {
    Acceptance acceptance;
    uint32_t rested = 0;  // steps in a row in which it could have had drafts and had none
    uint32_t rest = kFirstRest;
  };
  struct Gain {
    double tokens = 0;  // expected
    uint32_t depth = 0;
    uint32_t index = 0;  // of the request
  };

  // Every slot that could be offered, the most promising first.
  void collect(std::span<const DraftRequest> requests, std::span<const uint32_t> offered);

  // What the draft after the first `depth` - 1 brings, `before` being what the one before it did.
  double gain_of(SeqId seq, uint32_t depth, double rate, double before) const;

  // After a step that could have had drafts.
  void note_gain(double rows, bool given);
  bool pays_to_see() const;

  // How many of the best slots make the most tokens a second.
  size_t best_count(double rows);

  // Takes back what was offered to those that would have to read more than it is worth, if `best`
  // slots are given. Whether there were any.
  bool leave_unread(std::span<const DraftRequest> requests, std::span<uint32_t> offered,
                    std::span<const uint64_t> unread);
  // Of `best` slots those of the text that is read to begin with: alone they may not be worth a
  // pass, and then nobody's would ever be judged. Whether there are any.
  bool keep_first(std::span<uint32_t> offered) const;
  // Whether this step is to have no drafts, though they pay, to see what such a step takes: as
  // often as what that loses, as far as is known, is a small part of all time.
  bool check_due(double rows);
  // Gives the text that is read to begin with a few drafts, though they do not seem to pay, as long
  // as what the drafter takes is not known and they are mostly right.
  bool give_first(std::span<const DraftRequest> requests, std::span<const uint64_t> unread,
                  std::span<uint32_t> offered) const;
  // Those of the best slots that a try may be made with: of sequences that need not be read, or not
  // for more than tries may cost.
  void give_tries(std::span<const uint64_t> unread, std::span<uint32_t> offered);

  // Lets a sequence that has rested long enough have a draft; `available` is what each could have.
  void try_rested(std::span<const DraftRequest> requests, std::span<const uint32_t> available,
                  std::span<const uint64_t> unread, std::span<uint32_t> offered);

  // Whether it is time for a try. Sequences that learn in the shadow only ask what rows cost, and
  // only where their drafts are mostly right.
  bool due();
  // Whether the step before was a try that told something new: then the next one comes at once,
  // with more slots if it was cheaper than was known.
  bool told_news();
  // What the slots of a try are expected to bring.
  double promise() const;
  uint32_t passes(uint32_t tokens) const { return in_one_pass_ ? std::min(tokens, 1u) : tokens; }

  const bool adaptive_;
  const bool shadowed_;
  const bool in_one_pass_;
  std::unordered_map<SeqId, Known> sequences_;
  Acceptance all_;
  PlaceShares places_;  // where drafts form trees
  // And how far a sequence's are kept more often than all sequences' are.
  std::unordered_map<SeqId, Acceptance> likeness_;
  StepTimes times_;
  uint32_t depth_ = 0;   // of the step at hand
  uint64_t unread_ = 0;  // that had to be read in it
  uint32_t judged_ = 0;  // proposals, up to kFewProposals
  bool asking_ = false;  // the step at hand is there to see what so many rows take
  bool tried_ = false;   // and it was a try
  double promised_ = 0;  // by the slots of that, before it
  size_t probes_ = kProbes;
  double check_ns_ = 0;     // that checks may lose
  uint32_t checks_ = 0;     // up to kFirstChecks
  uint32_t unchecked_ = 0;  // steps with drafts since the last check
  double given_ = 1;        // share of the steps that had drafts, of those that could have had some
  // Of the time of such a step, for each sequence that could have had drafts; and of how many steps
  // that is known, in the same measure.
  double saving_ = 0, saving_known_ = 0;
  double seeing_ = 0, most_read_ = 0;
  uint32_t unseen_ = 0;  // texts since the last that was seen
  uint32_t between_ = kFirstUnseen;
  double gained_ = 0;  // of the time without drafts, by the slots that were found best
  AnswerLengths lengths_;
  ReadingCost reading_;
  uint32_t waited_ = 0;
  uint32_t pause_ = kFirstPause;
  std::vector<Gain> gains_;
  std::vector<uint32_t> available_;  // [requests]
  std::vector<uint32_t> wanted_;     // [requests] of the best slots, whatever has to be read
  const std::span<const StepCost>* costs_ = nullptr;
};

}  // namespace tenon::sdk
