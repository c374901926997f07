#include "core/tokenizer/models/sentencepiece.h"

#include <algorithm>
#include <utility>

#include "core/tokenizer/stages/charsmap.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

constexpr size_t kLongestSurface = 1024;

// SentencePiece's own normalization (its src/normalizer.cc): the character map, runs of spaces, the
// space in front, and ▁ for spaces.
class SentencePieceNormalize final : public NormalizeStep {
 public:
  SentencePieceNormalize(const SentencePieceModel& model, std::optional<CharsMap> map)
      : map_(std::move(map)),
        add_dummy_prefix_(model.add_dummy_prefix),
        remove_extra_(model.remove_extra_whitespaces),
        space_(model.escape_whitespaces ? kMetaspace : " ") {
    for (size_t id = 0; id < model.pieces.size(); ++id) {
      if (model.pieces[id].type != PieceType::user_defined) continue;
      user_defined_.add(model.pieces[id].text, static_cast<TokenId>(id));
    }
    user_defined_.build();
  }

  Status apply(NormalizedText& text, Allowance& allowance) const override {
    TENON_ASSIGN_OR_RETURN(text.text, normalized(text.text, allowance));
    return Status();
  }

 private:
  struct Step {
    size_t bytes;  // of the input
    std::string_view output;
  };

  // What becomes of the text from `at` on. User-defined symbols stay as they are.
  Step step(std::string_view whole, size_t at, TextScan& symbols) const {
    const std::string_view text = whole.substr(at);
    const TextTrie::Match symbol = symbols.longest(at);
    if (symbol.bytes > 0) return {symbol.bytes, text.substr(0, symbol.bytes)};
    if (map_) {
      const CharsMap::Match match = map_->longest(text);
      if (match.bytes > 0) return {match.bytes, match.replacement};
    }
    const uint32_t bytes = rune_bytes(text[0]);
    return {bytes, text.substr(0, bytes)};
  }

  Result<std::string> normalized(std::string_view text, const Allowance& allowance) const {
    TextScan symbols(user_defined_, text);
    size_t at = 0;
    while (remove_extra_ && at < text.size()) {
      const Step next = step(text, at, symbols);
      if (next.output != " ") break;
      at += next.bytes;
    }
    std::string out;
    if (at == text.size()) return out;
    out.reserve((text.size() - at) / 4 * 5);
    if (add_dummy_prefix_) out += space_;
    bool follows_space = remove_extra_;
    while (at < text.size()) {
      Step next = step(text, at, symbols);
      at += next.bytes;
      if (next.output.size() > 4 * next.bytes) {
        TENON_RETURN_IF_ERROR(allowance.check_bytes(out.size() + next.output.size()));
      }
      while (follows_space && next.output.starts_with(' ')) next.output.remove_prefix(1);
      for (const char c : next.output) {
        if (c == ' ') {
          out += space_;
        } else {
          out.push_back(c);
        }
      }
      if (!next.output.empty()) follows_space = remove_extra_ && next.output.ends_with(' ');
    }
    while (remove_extra_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
    return out;
  }

  std::optional<CharsMap> map_;
  bool add_dummy_prefix_;
  bool remove_extra_;
  std::string_view space_;
  TextTrie user_defined_;
};

// User-defined symbols are looked for in normalised text, as they are spelled.
Status add_symbol(TokenId id, const SentencePieceModel& model, TokenizerParts& parts) {
  const SentencePieceModel::Piece& piece = model.pieces[static_cast<size_t>(id)];
  const bool is_special = piece.type == PieceType::control || piece.type == PieceType::unknown;
  if (!is_special && piece.type != PieceType::user_defined) return Status();
  AddedToken token;
  token.id = id;
  token.content = token.spelling = piece.text;
  token.special = is_special;
  token.normalized = !is_special;
  if (piece.type == PieceType::unknown) token.surface = model.unknown_surface;
  return parts.added.add(std::move(token));
}

Status add_vocabulary(const SentencePieceModel& model, TokenizerParts& parts) {
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(model.pieces.size());
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    entries.push_back({model.pieces[id].text, static_cast<int64_t>(id)});
  }
  TENON_ASSIGN_OR_RETURN(parts.vocabulary, Vocabulary::create(entries));
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    TENON_RETURN_IF_ERROR(add_symbol(static_cast<TokenId>(id), model, parts));
  }
  return Status();
}

Status add_model(const SentencePieceModel& model, TokenizerParts& parts) {
  BpeOptions options;
  options.byte_fallback = model.byte_fallback;
  options.fuse_unknown = true;
  std::vector<Bpe::ScoredPiece> mergeable;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.type == PieceType::unknown && options.unknown_piece.empty()) {
      options.unknown_piece = piece.text;
    }
    const bool is_unused = piece.type == PieceType::unused;
    if (piece.type != PieceType::normal && !is_unused) continue;
    mergeable.push_back({static_cast<TokenId>(id), piece.score, is_unused});
  }
  TENON_ASSIGN_OR_RETURN(parts.model, Bpe::from_scores(parts.vocabulary, mergeable, options));
  return Status();
}

Status add_decoder(const SentencePieceModel& model, TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(Pattern space, Pattern::literal(kMetaspace));
  parts.decoder.add(make_replace_decoder(std::move(space), " "), "the decoder of spaces");
  if (model.byte_fallback) parts.decoder.add(make_byte_fallback(), "the decoder of bytes");
  if (model.remove_extra_whitespaces) {
    parts.decoder.leading = Decoder::Leading::drop_until_text;
  } else if (model.add_dummy_prefix) {
    parts.decoder.leading = Decoder::Leading::drop_one;
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<TokenizerParts>> make_sentencepiece(const SentencePieceModel& model) {
  auto parts = std::make_unique<TokenizerParts>();
  parts->kind = "sentencepiece bpe";
  if (model.unknown_surface.size() > kLongestSurface) {
    return unsupported("unknown text is written as " +
                       std::to_string(model.unknown_surface.size()) + " bytes: at most " +
                       std::to_string(kLongestSurface) + " are supported");
  }
  std::optional<CharsMap> map;
  if (!model.charsmap.empty()) {
    TENON_ASSIGN_OR_RETURN(map, CharsMap::parse(model.charsmap));
  }
  // First, since it bounds the symbols that the normalization looks for.
  TENON_RETURN_IF_ERROR(add_vocabulary(model, *parts));
  parts->normalizer.add(std::make_unique<SentencePieceNormalize>(model, std::move(map)),
                        "the normalization of the SentencePiece model");
  TENON_RETURN_IF_ERROR(add_model(model, *parts));
  TENON_RETURN_IF_ERROR(add_decoder(model, *parts));
  for (const auto& id : {model.bos, model.eos}) {
    if (id && !parts->vocabulary.contains(*id)) {
      return invalid_argument("the model names the token " + std::to_string(*id) +
                              " to begin or end a sequence, but has no such piece");
    }
  }
  parts->bos = model.bos;
  parts->eos = model.eos;
  if (model.bos) parts->prefix = {*model.bos};
  return parts;
}

}  // namespace tenon::tok
