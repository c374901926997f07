// How the merge rules come about, from a list of merges or from scored pieces.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/quote.h"
#include "core/tokenizer/models/bpe.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

constexpr size_t kLongestScoredPiece = 512;
constexpr size_t kMostRules = size_t{8} << 20;

bool crosses_space(std::string_view left, std::string_view right) {
  return right.starts_with(kMetaspace) && !left.ends_with(kMetaspace);
}

Status check_rule_count(size_t count) {
  if (count <= kMostRules) return Status();
  return unsupported("the vocabulary has more than " + std::to_string(kMostRules) +
                     " merges, which is the most that is supported");
}

std::string byte_piece(uint32_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

struct PairRule {
  Symbol left;
  Symbol right;
  MergeRule rule;
};

// All ways to form pieces from two symbols. A symbol is a mergeable piece or a character.
class ScoredRules {
 public:
  ScoredRules(const Vocabulary& vocabulary, const RuneTable& runes,
              std::span<const Bpe::ScoredPiece> pieces)
      : vocabulary_(vocabulary), runes_(runes), is_mergeable_(vocabulary.size()) {
    for (const auto& piece : pieces) is_mergeable_[static_cast<size_t>(piece.id)] = true;
  }

  Status add(TokenId id, uint32_t rank) {
    const std::string_view text = vocabulary_.piece(id);
    for (size_t at = first_rune(text).bytes; at < text.size(); at += rune_bytes(text[at])) {
      const Symbol left = symbol_of(text.substr(0, at));
      const Symbol right = symbol_of(text.substr(at));
      if (left == RuneTable::kNone || right == RuneTable::kNone) continue;
      rules_.push_back({left, right, {rank, id}});
      crosses_space_ = crosses_space_ || crosses_space(text.substr(0, at), text.substr(at));
    }
    return check_rule_count(rules_.size());
  }

  Result<PairTable> table() const {
    PairTable table(rules_.size());
    for (const PairRule& pair : rules_) {
      TENON_RETURN_IF_ERROR(table.insert(pair.left, pair.right, pair.rule));
    }
    return table;
  }
  bool crosses_a_space() const { return crosses_space_; }

 private:
  Symbol symbol_of(std::string_view text) const {
    const Rune rune = first_rune(text);
    if (rune.bytes == text.size()) return runes_.find(rune.code);
    const auto id = vocabulary_.find(text);
    return id && is_mergeable_[static_cast<size_t>(*id)] ? *id : RuneTable::kNone;
  }

  const Vocabulary& vocabulary_;
  const RuneTable& runes_;
  std::vector<bool> is_mergeable_;
  std::vector<PairRule> rules_;
  bool crosses_space_ = false;
};

Status check_scored(const Vocabulary& vocabulary, const Bpe::ScoredPiece& piece) {
  const std::string_view text = vocabulary.piece(piece.id);
  if (std::isnan(piece.score)) {
    return invalid_argument("the score of the piece with id " + std::to_string(piece.id) +
                            " is not a number");
  }
  if (text.size() > kLongestScoredPiece) {
    return unsupported("the piece with id " + std::to_string(piece.id) + " has " +
                       std::to_string(text.size()) + " bytes: at most " +
                       std::to_string(kLongestScoredPiece) + " are supported");
  }
  return Status();
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, BpeOptions options)
    : vocabulary_(&vocabulary), options_(std::move(options)), whole_(vocabulary.size()) {
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view piece = vocabulary.piece(static_cast<TokenId>(id));
    if (piece.empty()) continue;
    const Rune rune = first_rune(piece);
    if (rune.bytes == piece.size()) runes_.set(rune.code, static_cast<Symbol>(id));
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = vocabulary.find(byte_piece(byte)).value_or(kNoToken);
  }
  unknown_ = vocabulary.find(options_.unknown_piece);
}

Result<Bpe> Bpe::from_merges(const Vocabulary& vocabulary, std::span<const Merge> merges,
                             const BpeOptions& options) {
  TENON_RETURN_IF_ERROR(check_rule_count(merges.size()));
  Bpe bpe(vocabulary, options);
  bpe.rules_ = PairTable(merges.size());
  bool cuts = vocabulary.find(kMetaspace).has_value();
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto left_id = vocabulary.find(left);
    const auto right_id = vocabulary.find(right);
    const auto result = vocabulary.find(left + right);
    if (!left_id || !right_id || !result) {
      const std::string& missing = !left_id ? left : !right_id ? right : left + right;
      return invalid_argument("merge " + std::to_string(rank + 1) + " joins " + in_quotes(left) +
                              " and " + in_quotes(right) + ", but the vocabulary has no piece " +
                              in_quotes(missing));
    }
    TENON_RETURN_IF_ERROR(
        bpe.rules_.insert(*left_id, *right_id, {static_cast<uint32_t>(rank), *result}));
    cuts = cuts && !crosses_space(left, right);
  }
  bpe.cuts_before_spaces_ = cuts;
  return bpe;
}

void Bpe::add_tokenless(char32_t code) {
  runes_.set(code, static_cast<Symbol>(vocabulary_->size() + tokenless_.size()));
  tokenless_.push_back(code);
}

// An unused piece of one character is no token for it; in longer ones it takes part like any.
void Bpe::set_unused(TokenId id) {
  is_unused_.resize(vocabulary_->size());
  is_unused_[static_cast<size_t>(id)] = true;
  const std::string_view text = vocabulary_->piece(id);
  if (first_rune(text).bytes == text.size()) add_tokenless(first_rune(text).code);
}

Result<Bpe> Bpe::from_scores(const Vocabulary& vocabulary, std::span<const ScoredPiece> mergeable,
                             const BpeOptions& options) {
  Bpe bpe(vocabulary, options);
  std::vector<ScoredPiece> pieces(mergeable.begin(), mergeable.end());
  for (const ScoredPiece& piece : pieces) {
    TENON_RETURN_IF_ERROR(check_scored(vocabulary, piece));
    if (piece.is_unused) bpe.set_unused(piece.id);
    const std::string_view text = vocabulary.piece(piece.id);
    for (size_t at = 0; at < text.size(); at += rune_bytes(text[at])) {
      const char32_t code = first_rune(text.substr(at)).code;
      if (bpe.runes_.find(code) == RuneTable::kNone) bpe.add_tokenless(code);
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  ScoredRules rules(vocabulary, bpe.runes_, pieces);
  uint32_t rank = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && pieces[i].score != pieces[i - 1].score) ++rank;
    TENON_RETURN_IF_ERROR(rules.add(pieces[i].id, rank));
  }
  TENON_ASSIGN_OR_RETURN(bpe.rules_, rules.table());
  bpe.cuts_before_spaces_ = vocabulary.find(kMetaspace).has_value() && !rules.crosses_a_space();
  return bpe;
}

}  // namespace tenon::tok
