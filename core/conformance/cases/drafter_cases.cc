// What <tenon/drafter.h> promises.
#include <algorithm>
#include <map>

#include "core/base/quote.h"
#include "core/conformance/cases/acting.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/watch/guarded_memory.h"
#include "core/conformance/watch/heap_growth.h"
#include "core/contract/checked_drafter.h"

namespace tenon {
namespace {

constexpr uint32_t kVocabulary = 50;
constexpr uint32_t kUsual = 200, kLongest = 2000;  // tokens of a text
constexpr uint32_t kMostDrafts = 64;

// Texts of several kinds, so that drafters find what they act on: phrases that break off, one loop
// of some tokens, one token over and over, and ids that count up. The subject's scene chooses.
class Text {
 public:
  Text(uint32_t scene, uint64_t seed) : scene_(scene), random_(seed) {
    for (uint32_t i = 0; i < (scene == 1 ? 24 : 8); ++i) phrase_.push_back(token());
    for (uint32_t i = 0; i < 12; ++i) extend();
  }
  void extend() {
    const auto known = static_cast<uint32_t>(history_.size());
    switch (scene_) {
      case 1:
        return history_.push_back(phrase_[known % phrase_.size()]);
      case 2:
        return history_.push_back(phrase_[0]);
      case 3:
        return history_.push_back(static_cast<TokenId>(known % kVocabulary));
      default:
        break;
    }
    if (at_ < phrase_.size() && !random_.one_in(7)) {
      history_.push_back(phrase_[at_++]);
    } else {
      history_.push_back(token());
      at_ = random_.below(static_cast<uint32_t>(phrase_.size()));
    }
  }
  const std::vector<TokenId>& history() const { return history_; }
  CaseRandom& random() { return random_; }

 private:
  TokenId token() { return static_cast<TokenId>(random_.below(kVocabulary)); }

  const uint32_t scene_;
  CaseRandom random_;
  std::vector<TokenId> phrase_, history_;
  size_t at_ = 0;
};

// A drafter under test behind the host's own checks, bound to a small model.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> make(Subject& subject) {
    auto made = std::make_unique<Bench>();
    TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<Drafter>());
    made->drafter_ = std::make_unique<CheckedDrafter>(*made->plugin_, subject.name(), kVocabulary,
                                                      subject.checks());
    made->group_.kv_heads = 1;
    made->group_.k_dim = made->group_.v_dim = 8;
    made->group_.layers = 1;
    made->layer_.query_heads = 1;
    made->shape_.layer_count = made->shape_.group_count = 1;
    made->shape_.hidden = 8;
    made->shape_.vocabulary = kVocabulary;
    made->shape_.context_tokens = kLongest;
    made->shape_.groups = &made->group_;
    made->shape_.layers = &made->layer_;
    LayerId layers[2];
    HiddenLayersOut wanted;
    wanted.layers = layers;
    TENON_RETURN_IF_ERROR(made->drafter_->bind(made->shape_, wanted));
    return made;
  }
  CheckedDrafter& drafter() { return *drafter_; }
  uint64_t proposed() const { return proposed_; }  // tokens, so far

  // Offer and draft after a text; what was proposed.
  Result<std::vector<TokenId>> propose(SeqId seq, std::span<const TokenId> known, uint32_t most) {
    // The room for drafts ends where nobody may write. What slots hold that nobody filled is
    // anything.
    const std::span<TokenId> room =
        std::span(memory_.as<TokenId>(), kRoom).last(known.size() + most);
    std::copy(known.begin(), known.end(), room.begin());
    std::fill(room.begin() + static_cast<ptrdiff_t>(known.size()), room.end(),
              static_cast<TokenId>(asked_++ % kVocabulary));
    DraftRequest request;
    request.seq = seq;
    request.history = room.first(known.size());
    request.max_tokens = most;
    request.key = {1, 0, static_cast<uint32_t>(known.size())};
    uint32_t offered = 0;
    TENON_RETURN_IF_ERROR(drafter_->offer({&request, 1}, {&offered, 1}));
    if (offered == 0) return std::vector<TokenId>();
    request.max_tokens = std::min(offered, most);
    DraftOut out;
    out.tokens = room.subspan(known.size(), request.max_tokens);
    TENON_RETURN_IF_ERROR(drafter_->draft({&request, 1}, {&out, 1}));
    proposed_ += out.count;
    return std::vector<TokenId>(out.tokens.begin(), out.tokens.begin() + out.count);
  }

 private:
  PluginInstance<Drafter> plugin_;
  std::unique_ptr<CheckedDrafter> drafter_;
  KvGroup group_;
  LayerShape layer_;
  ModelShape shape_;
  static constexpr size_t kRoom = kLongest + kMostDrafts;
  GuardedMemory memory_{kRoom * sizeof(TokenId)};
  uint64_t proposed_ = 0;
  uint32_t asked_ = 0;
};

std::string text_of(std::span<const TokenId> tokens) {
  std::string text = "[";
  for (const TokenId token : tokens) text += (text.size() > 1 ? " " : "") + std::to_string(token);
  return text + "]";
}

// One text, told until it has so many tokens.
struct Story {
  uint32_t scene;
  uint64_t seed;
  uint32_t tokens = kUsual;
};

// Drafts are judged against what came; each step is shown to `look`.
template <typename Look>
Status tell(Bench& bench, SeqId seq, const Story& story, Look look) {
  Text text(story.scene, story.seed);
  TENON_RETURN_IF_ERROR(bench.drafter().begin(seq, kNoSeq));
  uint64_t step = 0;
  while (text.history().size() < story.tokens) {
    const std::vector<TokenId> known = text.history();
    const uint32_t most = text.random().below(9);
    TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> drafts, bench.propose(seq, known, most));
    look(known, drafts);
    uint32_t accepted = 0;
    do {
      text.extend();
      if (accepted == drafts.size() || text.history().back() != drafts[accepted]) break;
      ++accepted;
    } while (true);
    TENON_RETURN_IF_ERROR(bench.drafter().accept(seq, text.history(),
                                                 static_cast<uint32_t>(drafts.size()), accepted));
    DraftStepCost cost;
    cost.step = {++step, 1 + static_cast<uint32_t>(drafts.size()), 1, 1, 1'000'000};
    cost.draft_rows = static_cast<uint32_t>(drafts.size());
    TENON_RETURN_IF_ERROR(bench.drafter().measured(cost));
  }
  return bench.drafter().end(seq);
}

Story story_of(const Subject& subject) {
  return {subject.scene(), subject.seed()};
}

Finding keeps_to_its_room_in(Subject& subject, const Story& story) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  const Status status = tell(**bench, 1, story, [](const auto&, const auto&) {});
  if (!status.ok()) return broke(message_of(status));
  const CheckedDrafter& drafter = (*bench)->drafter();
  if (drafter.cut() == 0) return {};
  return broke(std::to_string(drafter.cut()) +
               " answers had to be cut; the first: " + drafter.first_cut());
}

// With the options that it is given, and with every value of the others.
Finding keeps_to_its_room(Subject& subject) {
  for (uint32_t i = 0; i < 3 * subject.effort(); ++i) {
    const Story story{(subject.scene() + i) % kDrafterScenes, subject.seed() + i};
    Finding found = keeps_to_its_room_in(subject, story);
    if (found.verdict != CaseVerdict::pass) return found;
  }
  for (const Way& way : ways_of(subject)) {
    for (uint32_t scene = 0; scene < kDrafterScenes; ++scene) {
      Subject tried = subject.with(way, scene);
      if (!Bench::make(tried).ok()) break;  // what it refuses is any.option_bounds' affair
      Finding found = keeps_to_its_room_in(tried, {scene, subject.seed()});
      if (found.verdict == CaseVerdict::pass) continue;
      found.what = "with " + way_text(way) + ": " + found.what;
      return found;
    }
  }
  return {};
}

Finding proposes_as_a_fresh_one_would(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  std::string problem;
  uint32_t step = 0;
  const Status status =
      tell(**bench, 1, story_of(subject), [&](const auto& known, const auto& drafts) {
        if (drafts.empty() || !problem.empty() || ++step % 3 != 0) return;
        auto fresh = Bench::make(subject);
        if (!fresh.ok()) return;
        if (!(*fresh)->drafter().begin(9, kNoSeq).ok()) return;
        const auto other = (*fresh)->propose(9, known, 8);
        if (!other.ok()) return;
        const size_t both = std::min(other->size(), drafts.size());
        if (!std::equal(drafts.begin(), drafts.begin() + static_cast<ptrdiff_t>(both),
                        other->begin())) {
          problem = "behind " + std::to_string(known.size()) + " tokens it proposes " +
                    text_of(drafts) + ", a fresh drafter shown the same history " + text_of(*other);
        }
      });
  if (!status.ok()) return broke(message_of(status));
  return problem.empty() ? Finding() : broke(problem);
}

// Sequences do not hear of each other. How many drafts there are may follow what other steps took,
// and what is asked for next follows that: only equal histories are compared.
Finding keeps_sequences_apart(Subject& subject) {
  auto alone = Bench::make(subject), busy = Bench::make(subject);
  if (!alone.ok() || !busy.ok()) return broke("an instance cannot be created or bound");
  std::map<std::vector<TokenId>, std::vector<TokenId>> heard;
  Status status = tell(**alone, 1, story_of(subject),
                       [&](const auto& known, const auto& drafts) { heard[known] = drafts; });
  if (!status.ok()) return broke(message_of(status));
  if (!(*busy)->drafter().begin(2, kNoSeq).ok()) return broke("begin fails");
  std::string problem;
  Text other(subject.scene(), subject.seed() + 31);
  status = tell(**busy, 1, story_of(subject), [&](const auto& known, const auto& drafts) {
    if (!heard.contains(known) || !problem.empty()) return;
    const std::vector<TokenId>& before = heard[known];
    const size_t both = std::min(before.size(), drafts.size());
    if (!std::equal(drafts.begin(), drafts.begin() + static_cast<ptrdiff_t>(both),
                    before.begin())) {
      problem = "behind " + std::to_string(known.size()) + " tokens it proposes " +
                text_of(before) + " alone, and " + text_of(drafts) + " beside another sequence";
    }
    other.extend();
    static_cast<void>((*busy)->propose(2, other.history(), 4).ok());
  });
  if (!status.ok()) return broke(message_of(status));
  return problem.empty() ? Finding() : broke(problem);
}

Finding follows_forks(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  Text text(subject.scene(), subject.seed());
  while (text.history().size() < 40) text.extend();
  Drafter& drafter = (*bench)->drafter();
  Status status = drafter.begin(1, kNoSeq);
  if (status.ok()) status = (*bench)->propose(1, text.history(), 4).take_status();
  if (status.ok()) status = drafter.begin(2, 1);
  if (status.ok()) status = drafter.end(1);  // a parent may end first
  text.extend();
  if (status.ok()) status = (*bench)->propose(2, text.history(), 4).take_status();
  if (status.ok()) status = drafter.end(2);
  if (status.ok()) status = drafter.begin(1, kNoSeq);  // ids are used again
  if (status.ok()) status = (*bench)->propose(1, text.history(), 4).take_status();
  if (status.ok()) status = drafter.end(1);
  return status.ok() ? Finding() : broke(message_of(status));
}

Finding forgets_sequences(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  Text text(subject.scene(), subject.seed());
  while (text.history().size() < 40) text.extend();
  Drafter& drafter = (*bench)->drafter();
  return forgets_the_ended(subject.effort(), [&](SeqId seq) -> Status {
    TENON_RETURN_IF_ERROR(drafter.begin(seq, kNoSeq));
    TENON_ASSIGN_OR_RETURN(const auto drafts, (*bench)->propose(seq, text.history(), 4));
    TENON_RETURN_IF_ERROR(
        drafter.accept(seq, text.history(), static_cast<uint32_t>(drafts.size()), 0));
    return drafter.end(seq);
  });
}

Finding offers_nothing_in_no_room(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  Text text(subject.scene(), subject.seed());
  Drafter& drafter = (*bench)->drafter();
  if (const Status status = drafter.begin(1, kNoSeq); !status.ok())
    return broke(message_of(status));
  for (uint32_t i = 0; i < 100; ++i, text.extend()) {
    const auto drafts = (*bench)->propose(1, text.history(), 0);
    if (!drafts.ok()) return broke(message_of(drafts.status()));
    if ((*bench)->drafter().cut() > 0) return broke((*bench)->drafter().first_cut());
  }
  return {};
}

Finding takes_short_histories(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  const std::vector<TokenId> same(12, 3);
  for (size_t known = 1; known < same.size(); ++known) {
    Drafter& drafter = (*bench)->drafter();
    Status status = drafter.begin(1, kNoSeq);
    const std::span<const TokenId> history = std::span(same).first(known);
    if (status.ok()) status = (*bench)->propose(1, history, 4).take_status();
    if (status.ok()) status = drafter.end(1);
    if (!status.ok()) {
      return broke("behind " + std::to_string(known) + " tokens: " + message_of(status));
    }
  }
  if ((*bench)->drafter().cut() > 0) return broke((*bench)->drafter().first_cut());
  return {};
}

}  // namespace

namespace {

Result<Transcript> exercise_with(Subject& subject, const Story& story) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::make(subject));
  Transcript transcript;
  TENON_RETURN_IF_ERROR(tell(*bench, 1, story, [&](const auto& known, const auto& drafts) {
    transcript.push_back("behind " + std::to_string(known.size()) + " tokens: " + text_of(drafts));
  }));
  return transcript;
}

Result<Transcript> exercise_in_all_scenes(Subject& subject, uint64_t seed, uint32_t tokens) {
  Transcript all;
  for (uint32_t scene = 0; scene < kDrafterScenes; ++scene) {
    TENON_ASSIGN_OR_RETURN(const Transcript one, exercise_with(subject, {scene, seed, tokens}));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace

bool drafter_acts(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return false;
  // What fails, fails in the cases as well.
  static_cast<void>(tell(**bench, 1, story_of(subject), [](const auto&, const auto&) {}).ok());
  return (*bench)->proposed() > 0;
}

Result<Transcript> exercise_drafter(Subject& subject, uint64_t seed) {
  return exercise_with(subject, {subject.scene(), seed});
}
Result<Transcript> exercise_drafter_widely(Subject& subject, uint64_t seed) {
  return exercise_in_all_scenes(subject, seed, kUsual);
}
Result<Transcript> exercise_drafter_at_length(Subject& subject, uint64_t seed) {
  return exercise_in_all_scenes(subject, seed, kLongest);
}

CaseList drafter_cases() {
  constexpr std::string_view kOf = "drafter", kHeader = "drafter.h";
  return {
      {"drafter.room", kOf, kHeader,
       "`tokens` has room for the request's max_tokens; fewer, or none, is always legal.",
       &keeps_to_its_room},
      {"drafter.no_room", kOf, kHeader, "offered[i] <= requests[i].max_tokens.",
       &offers_nothing_in_no_room},
      {"drafter.short_histories", kOf, kHeader, "fewer, or none, is always legal.",
       &takes_short_histories},
      {"drafter.fresh", kOf, kHeader,
       "after any sequence of accepts it proposes what a fresh drafter that is shown the same "
       "history "
       "would.",
       &proposes_as_a_fresh_one_would},
      {"drafter.apart", kOf, kHeader,
       "Which tokens a drafter proposes follows from the histories it is given alone",
       &keeps_sequences_apart},
      {"drafter.forks", kOf, kHeader, "`bind` is [control], every other method is [step].",
       &follows_forks},
      {"drafter.ended_sequences", kOf, "types.h", "Nothing is kept across calls",
       &forgets_sequences},
  };
}

}  // namespace tenon
