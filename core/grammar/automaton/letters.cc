#include "core/grammar/automaton/letters.h"

#include <algorithm>
#include <string>

#include "core/grammar/notation/text_form.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostLetters = 2000;  // two bytes of UTF-8 each at most
constexpr uint64_t kMostSetPlaces = 20'000'000;
constexpr uint32_t kFirstLead = 0xc0;

Status too_many_letters(const std::string& what) {
  return unsupported(what +
                     " – that is the limit where patterns are joined with each other or with "
                     "a length – make them simpler");
}

// Letters first to last lead to `target`.
struct LetterEdge {
  uint32_t first = 0, last = 0;
  uint32_t target = 0;
};

std::vector<LetterEdge> letter_edges(const ByteAutomaton& automaton, uint32_t node) {
  std::vector<LetterEdge> edges;
  for (const Edge& edge : automaton.nodes[node].edges) {
    for (uint32_t byte = edge.first; byte <= edge.last; ++byte) {
      if (byte < kFirstLead) {
        edges.push_back({byte, edge.last, edge.target});
        break;
      }
      const uint32_t begin = (byte & 0x1f) << 6;
      for (const Edge& rest : automaton.nodes[edge.target].edges) {
        edges.push_back({begin | (rest.first & 0x3fu), begin | (rest.last & 0x3fu), rest.target});
      }
    }
  }
  return edges;
}

class ToCharacters {
 public:
  ToCharacters(const ByteAutomaton& automaton, const Alphabet& alphabet, Expressions& expressions)
      : automaton_(automaton), alphabet_(alphabet), expressions_(expressions) {}

  CountedNodes run() {
    CountedNodes made;
    if (automaton_.nodes.empty()) return made;
    number(0);
    for (size_t at = 0; at < old_.size(); ++at) {
      edges_.push_back(letter_edges(automaton_, old_[at]));
      for (LetterEdge& edge : edges_.back()) edge.target = number(edge.target);
    }
    const std::vector<bool> takes_all = find_universal();
    std::vector<uint32_t> place(old_.size(), 0);
    std::vector<uint32_t> kept;
    uint32_t universal = kUnbounded;
    for (uint32_t id = 0; id < old_.size(); ++id) {
      const bool is_known = takes_all[id] && universal != kUnbounded;
      place[id] = is_known ? universal : static_cast<uint32_t>(kept.size());
      if (is_known) continue;
      if (takes_all[id]) universal = place[id];
      kept.push_back(id);
    }
    for (const uint32_t id : kept) {
      CountedNodes::Node& node = made.nodes.emplace_back();
      node.accepts = automaton_.nodes[old_[id]].accepts;
      std::map<uint32_t, std::vector<CodeRange>> by_target;
      for (const LetterEdge& edge : edges_[id]) {
        by_target[place[edge.target]].push_back({edge.first, edge.last});
      }
      for (const auto& [target, letters] : by_target) {
        node.edges.push_back({text_of(letters), target});
      }
    }
    return made;
  }

 private:
  uint32_t number(uint32_t old) {
    const auto [place, is_new] = numbers_.try_emplace(old, static_cast<uint32_t>(old_.size()));
    if (is_new) old_.push_back(old);
    return place->second;
  }

  // The largest set of nodes that accept and whose letters, all of them, lead into the set.
  std::vector<bool> find_universal() const {
    std::vector<bool> takes_all(old_.size(), false);
    std::vector<std::vector<uint32_t>> into(old_.size());
    std::vector<uint32_t> open;  // that are not in it
    for (uint32_t id = 0; id < old_.size(); ++id) {
      size_t letters = 0;
      for (const LetterEdge& edge : edges_[id]) {
        letters += edge.last - edge.first + 1;
        into[edge.target].push_back(id);
      }
      takes_all[id] = automaton_.nodes[old_[id]].accepts && alphabet_.is_complete() &&
                      letters == alphabet_.size();
      if (!takes_all[id]) open.push_back(id);
    }
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      for (const uint32_t from : into[id]) {
        if (!takes_all[from]) continue;
        takes_all[from] = false;
        open.push_back(from);
      }
    }
    return takes_all;
  }

  ExprId text_of(const std::vector<CodeRange>& letters) {
    std::vector<uint32_t> key;
    for (const CodeRange& range : letters) {
      key.push_back(range.first);
      key.push_back(range.last);
    }
    const auto [place, is_new] = texts_.try_emplace(std::move(key), 0);
    if (is_new) {
      place->second =
          write_character(expressions_, alphabet_.codes_of(letters), TextForm::json_string);
    }
    return place->second;
  }

  const ByteAutomaton& automaton_;
  const Alphabet& alphabet_;
  Expressions& expressions_;
  std::vector<uint32_t> old_;  // the nodes between letters
  std::map<uint32_t, uint32_t> numbers_;
  std::vector<std::vector<LetterEdge>> edges_;
  std::map<std::vector<uint32_t>, ExprId> texts_;
};

}  // namespace

Alphabet::Ranges Alphabet::ranges_of(const CodeSet& codes) {
  Ranges ranges;
  for (const CodeRange& range : codes.ranges()) ranges.emplace_back(range.first, range.last);
  return ranges;
}

// Between two places where a set begins or ends, all characters belong to the same sets.
Result<Alphabet> Alphabet::of(const Expressions& patterns) {
  Alphabet made;
  std::vector<Ranges> sets;
  std::vector<uint32_t> places;
  for (ExprId id = 0; id < patterns.size(); ++id) {
    if (patterns[id].op != Op::character) continue;
    Ranges ranges = ranges_of(patterns[id].codes);
    if (!made.by_set_.try_emplace(ranges).second) continue;
    for (const auto& [first, last] : ranges) {
      places.push_back(first);
      places.push_back(last + 1);
    }
    sets.push_back(std::move(ranges));
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<std::vector<uint32_t>> sets_at(places.size());  // … from this place to the next
  uint64_t work = 0;
  for (uint32_t set = 0; set < sets.size(); ++set) {
    for (const auto& [first, last] : sets[set]) {
      const auto begin = std::lower_bound(places.begin(), places.end(), first);
      for (auto at = begin; *at <= last; ++at) {
        sets_at[static_cast<size_t>(at - places.begin())].push_back(set);
        if (++work > kMostSetPlaces)
          return too_many_letters("patterns name too many sets of characters");
      }
    }
  }
  std::map<std::vector<uint32_t>, uint32_t> known;
  std::vector<std::vector<CodeRange>> letters_of_set(sets.size());
  std::vector<CodeRange> covered;
  for (size_t at = 0; at + 1 < places.size(); ++at) {
    if (sets_at[at].empty()) continue;
    const CodeRange range{places[at], places[at + 1] - 1};
    const auto [place, is_new] =
        known.try_emplace(sets_at[at], static_cast<uint32_t>(made.letters_.size()));
    if (is_new) {
      made.letters_.emplace_back();
      const uint32_t letter = place->second;
      for (const uint32_t set : sets_at[at]) letters_of_set[set].push_back({letter, letter});
    }
    made.letters_[place->second].push_back(range);
    covered.push_back(range);
  }
  if (made.letters_.size() > kMostLetters) {
    return too_many_letters("patterns tell more than " + std::to_string(kMostLetters) +
                            " kinds of characters apart");
  }
  for (uint32_t set = 0; set < sets.size(); ++set) {
    made.by_set_[sets[set]] = CodeSet(std::move(letters_of_set[set]));
  }
  made.is_complete_ = CodeSet(std::move(covered)).contains(CodeSet::all());
  return made;
}

CodeSet Alphabet::codes_of(std::span<const CodeRange> letters) const {
  std::vector<CodeRange> codes;
  for (const CodeRange& range : letters) {
    for (uint32_t letter = range.first; letter <= range.last; ++letter) {
      codes.insert(codes.end(), letters_[letter].begin(), letters_[letter].end());
    }
  }
  return CodeSet(std::move(codes));
}

Expressions in_letters(const Expressions& patterns, const Alphabet& alphabet) {
  Expressions made;
  std::vector<ExprId> place;
  for (ExprId id = 0; id < patterns.size(); ++id) {
    const Expr& expr = patterns[id];
    std::vector<ExprId> parts;
    for (const ExprId part : expr.parts) parts.push_back(place[part]);
    switch (expr.op) {
      case Op::character:
        place.push_back(made.character(alphabet.letters_of(expr.codes)));
        break;
      case Op::literal:
        place.push_back(made.literal(expr.bytes));
        break;
      case Op::sequence:
        place.push_back(made.sequence(std::move(parts)));
        break;
      case Op::choice:
        place.push_back(made.choice(std::move(parts)));
        break;
      case Op::repeat:
        place.push_back(made.repeat(parts.front(), expr.least, expr.most));
        break;
      default:
        place.push_back(made.nothing());
    }
  }
  return made;
}

CountedNodes in_characters(const ByteAutomaton& automaton, const Alphabet& alphabet,
                           Expressions& expressions) {
  return ToCharacters(automaton, alphabet, expressions).run();
}

}  // namespace tenon::grammar
