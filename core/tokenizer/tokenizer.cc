#include "core/tokenizer/tokenizer.h"

#include <utility>

#include "core/base/utf8.h"
#include "core/tokenizer/parts.h"
#include "core/unicode/utf8.h"

namespace tenon {
namespace {

constexpr size_t kLongestText = size_t{1} << 30;

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const tok::TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::unique_ptr<Tokenizer> Tokenizer::from_parts(std::unique_ptr<tok::TokenizerParts> parts) {
  parts->added.build();
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  if (text.size() > kLongestText) {
    return invalid_argument("a text of " + std::to_string(text.size()) + " bytes; at most " +
                            std::to_string(kLongestText) + " are encoded at once");
  }
  std::vector<TokenId> ids;
  if (options.add_special) ids = parts_->prefix;
  tok::Allowance allowance(text.size());
  const bool is_valid = is_utf8(text);
  const std::string escaped = is_valid ? std::string() : tok::escape_bytes(text);
  TENON_RETURN_IF_ERROR(encode_text(is_valid ? text : escaped,
                                    {.everywhere = options.parse_special, .trusted = {}}, allowance,
                                    ids));
  if (options.add_special) {
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode_trusted(std::string_view text,
                                                       std::span<const TextSpan> trusted) const {
  if (text.size() > kLongestText || !is_utf8(text)) {
    return invalid_argument("a text of " + std::to_string(text.size()) +
                            " bytes; it must be UTF-8 and have at most " +
                            std::to_string(kLongestText));
  }
  std::vector<TokenId> ids;
  tok::Allowance allowance(text.size());
  const tok::SpecialPlaces places{.everywhere = false, .trusted = trusted};
  TENON_RETURN_IF_ERROR(encode_text(text, places, allowance, ids));
  return ids;
}

Status Tokenizer::encode_text(std::string_view text, const tok::SpecialPlaces& places,
                              tok::Allowance& allowance, std::vector<TokenId>& ids) const {
  std::vector<tok::Segment> raw;
  parts_->added.split(text, /*normalized=*/false, places, raw);
  for (const tok::Segment& outer : raw) {
    if (outer.id != kNoToken) {
      ids.push_back(outer.id);
      continue;
    }
    tok::SpecialPlaces inside = places;
    inside.offset = static_cast<size_t>(outer.text.data() - text.data());
    const bool starts_text = inside.offset == 0;
    TENON_RETURN_IF_ERROR(encode_raw(outer.text, starts_text, inside, allowance, ids));
  }
  return Status();
}

Status Tokenizer::encode_raw(std::string_view part, bool starts_text,
                             const tok::SpecialPlaces& places, tok::Allowance& allowance,
                             std::vector<TokenId>& ids) const {
  TENON_ASSIGN_OR_RETURN(const tok::NormalizedText clean,
                         parts_->normalizer.apply(part, allowance));
  const bool is_partial = !places.everywhere && parts_->added.has_normalized_special();
  if (is_partial && !places.trusted.empty() && clean.text != part) {
    // Nothing says where a normalised text came from, so each stretch is normalised by itself.
    size_t end = 0;
    for (size_t begin = 0; begin < part.size(); begin = end) {
      const bool is_trusted = places.allow(begin, begin + 1);
      end = begin + 1;
      while (end < part.size() && places.allow(end, end + 1) == is_trusted) ++end;
      const tok::SpecialPlaces all{.everywhere = is_trusted, .trusted = {}};
      TENON_RETURN_IF_ERROR(encode_raw(part.substr(begin, end - begin), starts_text && begin == 0,
                                       all, allowance, ids));
    }
    return Status();
  }
  const bool starts_input = starts_text && clean.keeps_front;
  std::vector<tok::Segment> normalized;
  parts_->added.split(clean.text, /*normalized=*/true, places, normalized);
  for (const tok::Segment& inner : normalized) {
    if (inner.id != kNoToken) {
      ids.push_back(inner.id);
      continue;
    }
    const bool is_front = starts_input && inner.text.data() == clean.text.data();
    TENON_RETURN_IF_ERROR(encode_normalized(std::string(inner.text), is_front, allowance, ids));
  }
  return Status();
}

Status Tokenizer::encode_normalized(std::string text, bool starts_input, tok::Allowance& allowance,
                                    std::vector<TokenId>& ids) const {
  TENON_ASSIGN_OR_RETURN(const tok::Pieces words,
                         parts_->pre_tokenizer.apply(std::move(text), starts_input, allowance));
  allowance.keep(words.text.size());
  for (const tok::Piece& word : words.pieces) {
    TENON_RETURN_IF_ERROR(parts_->model->encode(words.view(word), ids));
  }
  return Status();
}

void Tokenizer::decode_next(tok::DecodeRun& run, TokenId id, bool skip_special,
                            std::string& out) const {
  tok::TokenText token = parts_->decodable(id);
  // One with a text of its own stands for text, whatever else it is.
  if (skip_special && is_special(id) && !token.is_final) return;
  if (!token.text.empty()) run.push(std::move(token), out);
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  tok::DecodeRun run(parts_->decoder);
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size()) {
      return invalid_argument("token id " + std::to_string(id) +
                              " is outside of the vocabulary; ids run from 0 to " +
                              std::to_string(static_cast<int64_t>(vocab_size()) - 1));
    }
    decode_next(run, id, skip_special, out);
  }
  return out;
}

uint32_t Tokenizer::vocab_size() const {
  return parts_->size();
}

std::string_view Tokenizer::piece(TokenId id) const {
  return parts_->piece(id);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  tok::TokenText token = parts_->decodable(id);
  // What fails was refused when the tokenizer was loaded.
  (void)parts_->decoder.apply(token).ok();
  return std::move(token.text);
}

bool Tokenizer::is_special(TokenId id) const {
  const tok::AddedToken* token = parts_->added.find(id);
  return token != nullptr && token->special;
}

std::optional<TokenId> Tokenizer::bos() const {
  return parts_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return parts_->eos;
}

std::span<const TextEnd> Tokenizer::ends() const {
  return parts_->ends;
}

std::span<const std::string> Tokenizer::warnings() const {
  return parts_->warnings;
}

std::optional<TokenId> Tokenizer::find(std::string_view piece) const {
  return parts_->find(piece);
}

std::string_view Tokenizer::kind() const {
  return parts_->kind;
}

}  // namespace tenon
