// What <tenon/drafter.h> promises.
#include <algorithm>
#include <map>

#include "core/base/quote.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/watch/heap_growth.h"
#include "core/contract/checked_drafter.h"

namespace tenon {
namespace {

constexpr uint32_t kVocabulary = 50;
constexpr uint32_t kLongest = 200;

// Texts that repeat themselves, so that drafters which look things up find something.
class Text {
 public:
  explicit Text(uint64_t seed) : random_(seed) {
    for (uint32_t i = 0; i < 8; ++i) phrase_.push_back(token());
    for (uint32_t i = 0; i < 12; ++i) extend();
    // Room for drafts lies directly after what is known.
    history_.reserve(kLongest + 64);
  }
  void extend() {
    if (at_ < phrase_.size() && !random_.one_in(7)) {
      history_.push_back(phrase_[at_++]);
    } else {
      history_.push_back(token());
      at_ = random_.below(static_cast<uint32_t>(phrase_.size()));
    }
  }
  std::vector<TokenId>& history() { return history_; }
  CaseRandom& random() { return random_; }

 private:
  TokenId token() { return static_cast<TokenId>(random_.below(kVocabulary)); }

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

  // Offer and draft after a text; what was proposed.
  Result<std::vector<TokenId>> propose(SeqId seq, std::span<const TokenId> known, uint32_t most) {
    // What slots hold that nobody filled is anything.
    room_.assign(known.begin(), known.end());
    room_.resize(known.size() + most, static_cast<TokenId>(asked_++ % kVocabulary));
    DraftRequest request;
    request.seq = seq;
    request.history = std::span<const TokenId>(room_).first(known.size());
    request.max_tokens = most;
    request.key = {1, 0, static_cast<uint32_t>(known.size())};
    uint32_t offered = 0;
    TENON_RETURN_IF_ERROR(drafter_->offer({&request, 1}, {&offered, 1}));
    offered_ = offered;
    if (offered == 0) return std::vector<TokenId>();
    request.max_tokens = std::min(offered, most);
    DraftOut out;
    out.tokens = std::span(room_).subspan(known.size(), request.max_tokens);
    TENON_RETURN_IF_ERROR(drafter_->draft({&request, 1}, {&out, 1}));
    return std::vector<TokenId>(out.tokens.begin(), out.tokens.begin() + out.count);
  }
  uint32_t offered() const { return offered_; }

 private:
  PluginInstance<Drafter> plugin_;
  std::unique_ptr<CheckedDrafter> drafter_;
  KvGroup group_;
  LayerShape layer_;
  ModelShape shape_;
  std::vector<TokenId> room_;
  uint32_t offered_ = 0, asked_ = 0;
};

std::string text_of(std::span<const TokenId> tokens) {
  std::string text = "[";
  for (const TokenId token : tokens) text += (text.size() > 1 ? " " : "") + std::to_string(token);
  return text + "]";
}

// One text told to the end, with drafts judged against what came; each step is shown to `look`.
template <typename Look>
Status tell(Bench& bench, SeqId seq, uint64_t seed, Look look) {
  Text text(seed);
  TENON_RETURN_IF_ERROR(bench.drafter().begin(seq, kNoSeq));
  uint64_t step = 0;
  while (text.history().size() < kLongest) {
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

Finding keeps_to_its_room(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  for (uint32_t i = 0; i < 3 * subject.effort(); ++i) {
    const Status status = tell(**bench, 1, subject.seed() + i, [](const auto&, const auto&) {});
    if (!status.ok()) return broke(message_of(status));
  }
  CheckedDrafter& drafter = (*bench)->drafter();
  if (drafter.cut() == 0) return {};
  return broke(std::to_string(drafter.cut()) +
               " answers had to be cut; the first: " + drafter.first_cut());
}

Finding proposes_as_a_fresh_one_would(Subject& subject) {
  auto bench = Bench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  std::string problem;
  uint32_t step = 0;
  const Status status =
      tell(**bench, 1, subject.seed(), [&](const auto& known, const auto& drafts) {
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

// Sequences do not hear of each other.
Finding keeps_sequences_apart(Subject& subject) {
  auto alone = Bench::make(subject), busy = Bench::make(subject);
  if (!alone.ok() || !busy.ok()) return broke("an instance cannot be created or bound");
  std::map<size_t, std::vector<TokenId>> heard;
  Status status = tell(**alone, 1, subject.seed(), [&](const auto& known, const auto& drafts) {
    heard[known.size()] = drafts;
  });
  if (!status.ok()) return broke(message_of(status));
  if (!(*busy)->drafter().begin(2, kNoSeq).ok()) return broke("begin fails");
  std::string problem;
  Text other(subject.seed() + 31);
  status = tell(**busy, 1, subject.seed(), [&](const auto& known, const auto& drafts) {
    if (!heard.contains(known.size()) || !problem.empty()) return;
    const std::vector<TokenId>& before = heard[known.size()];
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
  Text text(subject.seed());
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
  Text text(subject.seed());
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
  Text text(subject.seed());
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

Result<Transcript> exercise_drafter(Subject& subject, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::make(subject));
  Transcript transcript;
  TENON_RETURN_IF_ERROR(tell(*bench, 1, seed, [&](const auto& known, const auto& drafts) {
    transcript.push_back("behind " + std::to_string(known.size()) + " tokens: " + text_of(drafts));
  }));
  return transcript;
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
