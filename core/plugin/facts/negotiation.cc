#include "core/plugin/facts/negotiation.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/base/text.h"
#include "core/plugin/facts/fact_set.h"

namespace tenon {
namespace {

// Keys of which a pipeline is as good as its weakest part: words from strong to weak.
struct WeakestKey {
  std::string_view key;
  std::string_view strong;
  std::string_view weak;
};
constexpr WeakestKey kWeakestKeys[] = {{"numerics.rows", "invariant", "batch"}};

const WeakestKey* weakest_key(std::string_view key) {
  for (const WeakestKey& known : kWeakestKeys) {
    if (known.key == key) return &known;
  }
  return nullptr;
}

using Participants = std::vector<Participant>;

std::vector<Fact> facts_about(std::string_view key, const std::vector<Fact>& facts) {
  std::vector<Fact> about;
  for (const Fact& fact : facts) {
    if (fact.key == key) about.push_back(fact);
  }
  return about;
}

bool mentions(const Participant& who, std::string_view key) {
  return !facts_about(key, who.provides).empty() || !facts_about(key, who.requirements).empty();
}

std::set<std::string_view> all_keys(const Participants& participants) {
  std::set<std::string_view> keys;
  for (const Participant& who : participants) {
    for (const Fact& fact : who.provides) keys.insert(fact.key);
    for (const Fact& fact : who.requirements) keys.insert(fact.key);
  }
  return keys;
}

FactSet said_by(const Participant& who, std::string_view key, int64_t context_tokens) {
  std::vector<Fact> about = facts_about(key, who.provides);
  const std::vector<Fact> needs = facts_about(key, who.requirements);
  if (about.empty()) return FactSet::of(needs, context_tokens);
  if (needs.empty()) return FactSet::of(about, context_tokens);
  return FactSet::of(about, context_tokens).intersect(FactSet::of(needs, context_tokens));
}

// What `participants` leave possible for `key`.
FactSet agreed(const Participants& participants, std::string_view key, int64_t context_tokens) {
  FactSet set;
  bool first = true;
  const WeakestKey* weakest = weakest_key(key);
  bool weak = false;
  for (const Participant& who : participants) {
    if (!mentions(who, key)) continue;
    FactSet said = said_by(who, key, context_tokens);
    if (weakest != nullptr) {
      const std::vector<Fact> offered = facts_about(key, who.provides);
      weak = weak ||
             (!offered.empty() && !FactSet::of(offered, context_tokens).allows(weakest->strong));
      const std::vector<Fact> needs = facts_about(key, who.requirements);
      if (needs.empty()) continue;
      said = FactSet::of(needs, context_tokens);
    }
    set = first ? said : set.intersect(said);
    first = false;
  }
  if (weakest == nullptr) return set;
  const Fact outcome{key, FactOp::in, 0, weak ? weakest->weak : weakest->strong};
  return set.intersect(FactSet::of(std::span(&outcome, 1), context_tokens));
}

// Someone needs it and nobody offers anything about it.
bool unanswered(const Participants& participants, std::string_view key) {
  const auto offers = [&](const Participant& who) {
    return !facts_about(key, who.provides).empty();
  };
  return std::none_of(participants.begin(), participants.end(), offers) &&
         weakest_key(key) == nullptr;
}

// What everyone together asks for side by side.
std::vector<std::string> demanded(const Participants& participants, std::string_view key) {
  std::vector<Fact> all;
  for (const Participant& who : participants) {
    for (const std::vector<Fact>* facts : {&who.provides, &who.requirements}) {
      const std::vector<Fact> about = facts_about(key, *facts);
      all.insert(all.end(), about.begin(), about.end());
    }
  }
  return demanded_by(all);
}

bool possible(const Participants& participants, std::string_view key, int64_t context_tokens) {
  const FactSet set = agreed(participants, key, context_tokens);
  if (set.empty()) return false;
  const std::vector<std::string> words = demanded(participants, key);
  return set.unlimited() ||
         std::ranges::all_of(words, [&](const std::string& word) { return set.admits(word); });
}

bool works(const Participants& participants, std::string_view key, int64_t context_tokens) {
  return !unanswered(participants, key) && possible(participants, key, context_tokens);
}

std::string title(const Participant& who) {
  return who.role == "config" ? "the setting " + who.name : who.role + " \"" + who.name + "\"";
}

ResolvedFacts::Saying saying(const Participant& who, std::string_view key, int64_t context_tokens) {
  const bool needs = facts_about(key, who.provides).empty() && who.role != "config";
  const FactSet set = said_by(who, key, context_tokens);
  const std::vector<std::string> words = demanded({who}, key);
  std::string what = set.unlimited() && !words.empty() ? "" : set.text();
  if (!words.empty()) what += (what.empty() ? "" : ", ") + join(words, " and ");
  return {who.role + " " + who.name, (needs ? "needs " : "") + what,
          who.origin.file.empty() ? "" : who.origin.text()};
}

std::vector<ResolvedFacts::Saying> sayings(const Participants& participants, std::string_view key,
                                           int64_t context_tokens) {
  std::vector<ResolvedFacts::Saying> all;
  for (const Participant& who : participants) {
    if (mentions(who, key)) all.push_back(saying(who, key, context_tokens));
  }
  return all;
}

std::string pad(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// One line a saying, the key before the first.
std::string lines(std::string_view key, const std::vector<ResolvedFacts::Saying>& all) {
  size_t who_width = 0;
  for (const auto& one : all) who_width = std::max(who_width, one.who.size());
  size_t what_width = 0;
  for (const auto& one : all) what_width = std::max(what_width, one.what.size());
  std::string text;
  for (const auto& one : all) {
    text += "\n  " + pad(&one == all.data() ? std::string(key) : "", 17) + " " +
            pad(one.who, who_width) + " : ";
    text += one.where.empty() ? one.what : pad(one.what, what_width) + "   (" + one.where + ")";
  }
  return text;
}

// The fewest to blame: two that cannot agree with each other, else everyone who has a say.
std::vector<const Participant*> opponents(const Participants& participants, std::string_view key,
                                          int64_t context_tokens) {
  std::vector<const Participant*> speakers;
  for (const Participant& who : participants) {
    if (mentions(who, key)) speakers.push_back(&who);
  }
  for (size_t i = 0; i < speakers.size(); ++i) {
    for (size_t j = i + 1; j < speakers.size(); ++j) {
      if (!possible({*speakers[i], *speakers[j]}, key, context_tokens)) {
        return {speakers[i], speakers[j]};
      }
    }
  }
  return speakers;
}

std::string choice_text(const FactSet& set) {
  if (set.is_numeric()) return std::to_string(set.smallest());
  return "\"" + set.first_word() + "\"";
}

// The same participants with those of `other`'s role replaced by it.
Participants with_instead(const Participants& participants, const Participant& other) {
  Participants changed;
  bool placed = false;
  for (const Participant& who : participants) {
    if (who.role != other.role) {
      changed.push_back(who);
    } else if (!placed) {
      changed.push_back(other);
      placed = true;
    }
  }
  return changed;
}

// A replacement helps when `key` works out and no key that it speaks about breaks.
bool helps(const Participants& changed, const Participant& other, std::string_view key,
           int64_t context_tokens) {
  if (!works(changed, key, context_tokens)) return false;
  const std::set<std::string_view> keys = all_keys({other});
  return std::all_of(keys.begin(), keys.end(), [&](std::string_view mentioned) {
    return works(changed, mentioned, context_tokens);
  });
}

std::vector<std::string> remedies(const NegotiationRequest& request, std::string_view key,
                                  const Participants& alternatives) {
  std::vector<std::string> found;
  for (const Participant& who : request.participants) {
    if (who.role != "config" || !mentions(who, key)) continue;
    Participants without = request.participants;
    std::erase_if(without,
                  [&](const Participant& p) { return p.role == "config" && p.name == who.name; });
    if (!works(without, key, request.context_tokens)) continue;
    const FactSet left = agreed(without, key, request.context_tokens);
    found.push_back(who.without.empty() ? who.name + " = " + choice_text(left) : who.without);
  }
  for (const Participant& other : alternatives) {
    const Participants changed = with_instead(request.participants, other);
    if (!helps(changed, other, key, request.context_tokens)) continue;
    const FactSet said = said_by(other, key, request.context_tokens);
    found.push_back(other.role + ".plugin = \"" + other.name + "\" (" + said.text() + ")");
  }
  return found;
}

std::string explain_conflict(const NegotiationRequest& request, std::string_view key,
                             const Participants& alternatives) {
  const auto blamed = opponents(request.participants, key, request.context_tokens);
  std::string where;
  std::vector<std::string> titles;
  for (const Participant* who : blamed) {
    if (where.empty() && !who->origin.file.empty()) where = who->origin.text() + ": ";
    titles.push_back(title(*who));
  }
  std::string text = where;
  if (unanswered(request.participants, key)) {
    text += join(titles, " and ") + " needs " + std::string(key) +
            ", about which no part of this pipeline says anything";
  } else if (titles.size() == 1) {
    text += titles[0] + " allows nothing for " + std::string(key);
  } else {
    text += join(titles, " and ") + " do not fit";
  }
  text += lines(key, sayings(request.participants, key, request.context_tokens));
  const std::vector<std::string> tries = remedies(request, key, alternatives);
  if (!tries.empty()) text += "\n  try: " + join(tries, ", or ");
  return text;
}

// The preferred value, else the first word or the smallest number.
ResolvedFact choose(const FactSet& set, std::string_view key,
                    const std::vector<FactPreference>& preferences,
                    std::deque<std::string>& texts) {
  ResolvedFact fact;
  fact.key = texts.emplace_back(key);
  for (const FactPreference& preference : preferences) {
    if (preference.key != key) continue;
    if (set.is_numeric() ? set.allows(preference.number) : set.allows(preference.word)) {
      fact.number = preference.number;
      fact.word = texts.emplace_back(preference.word);
      return fact;
    }
  }
  if (set.is_numeric()) {
    fact.number = set.smallest();
  } else {
    fact.word = texts.emplace_back(set.first_word());
  }
  return fact;
}

ResolvedFact all_together(const std::vector<std::string>& words, std::string_view key,
                          std::deque<std::string>& texts) {
  ResolvedFact fact;
  fact.key = texts.emplace_back(key);
  fact.word = texts.emplace_back(join(words, " "));
  for (const std::string& word : words) {
    int64_t number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    fact.number = std::max(fact.number, number);
  }
  return fact;
}

}  // namespace

Result<ResolvedFacts> negotiate(const NegotiationRequest& request) {
  ResolvedFacts resolved;
  std::vector<std::string_view> broken;
  const std::set<std::string_view> keys = all_keys(request.participants);
  // Pointers to facts stay good when `lower` adds one.
  resolved.facts_.reserve(keys.size() + std::size(kWeakestKeys));
  for (std::string_view key : keys) {
    if (!works(request.participants, key, request.context_tokens)) {
      broken.push_back(key);
      continue;
    }
    const FactSet set = agreed(request.participants, key, request.context_tokens);
    const std::vector<std::string> words = demanded(request.participants, key);
    const ResolvedFact fact = words.empty() ? choose(set, key, request.preferences, resolved.texts_)
                                            : all_together(words, key, resolved.texts_);
    resolved.facts_.push_back(fact);
    resolved.rows_.push_back(
        {std::string(key), fact.word.empty() ? std::to_string(fact.number) : std::string(fact.word),
         sayings(request.participants, key, request.context_tokens)});
  }
  if (broken.empty()) return resolved;
  const Participants alternatives = request.alternatives ? request.alternatives() : Participants();
  std::vector<std::string> texts;
  for (std::string_view key : broken) {
    texts.push_back(explain_conflict(request, key, alternatives));
  }
  return invalid_argument(join(texts, "\n"));
}

size_t conflicts(const std::vector<Participant>& participants, int64_t context_tokens) {
  const std::set<std::string_view> keys = all_keys(participants);
  return std::count_if(keys.begin(), keys.end(), [&](std::string_view key) {
    return !works(participants, key, context_tokens);
  });
}

void ResolvedFacts::lower(std::string_view key, std::string_view word, Saying saying) {
  auto row = std::lower_bound(rows_.begin(), rows_.end(), key,
                              [](const Row& a, std::string_view b) { return a.key < b; });
  if (row == rows_.end() || row->key != key) {
    row = rows_.insert(row, {std::string(key), "", {}});
    facts_.emplace_back().key = texts_.emplace_back(key);
  }
  row->chosen = word;
  row->sayings.push_back(std::move(saying));
  auto fact = std::find_if(facts_.begin(), facts_.end(), [&](auto& f) { return f.key == key; });
  fact->word = texts_.emplace_back(word);
}

std::string ResolvedFacts::table() const {
  std::string text;
  for (const Row& row : rows_) {
    text += pad(row.key, 18) + " = " + row.chosen;
    text += lines("", row.sayings) + "\n";
  }
  return text;
}

}  // namespace tenon
