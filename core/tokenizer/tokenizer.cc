#include "core/tokenizer/tokenizer.h"

#include <utility>

#include "core/base/utf8.h"
#include "core/tokenizer/parts.h"
#include "core/tokenizer/utf8.h"

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
  TENON_RETURN_IF_ERROR(
      encode_text(is_valid ? text : escaped, options.parse_special, allowance, ids));
  if (options.add_special) {
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return ids;
}

Status Tokenizer::encode_text(std::string_view text, bool parse_special, tok::Allowance& allowance,
                              std::vector<TokenId>& ids) const {
  std::vector<tok::Segment> raw;
  std::vector<tok::Segment> normalized;
  parts_->added.split(text, /*normalized=*/false, parse_special, raw);
  for (const tok::Segment& outer : raw) {
    if (outer.id != kNoToken) {
      ids.push_back(outer.id);
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const tok::NormalizedText clean,
                           parts_->normalizer.apply(outer.text, allowance));
    const bool starts_input = outer.text.data() == text.data() && clean.keeps_front;
    normalized.clear();
    parts_->added.split(clean.text, /*normalized=*/true, parse_special, normalized);
    for (const tok::Segment& inner : normalized) {
      if (inner.id != kNoToken) {
        ids.push_back(inner.id);
        continue;
      }
      const bool is_front = starts_input && inner.text.data() == clean.text.data();
      TENON_RETURN_IF_ERROR(encode_normalized(std::string(inner.text), is_front, allowance, ids));
    }
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

std::optional<TokenId> Tokenizer::find(std::string_view piece) const {
  return parts_->find(piece);
}

std::string_view Tokenizer::kind() const {
  return parts_->kind;
}

}  // namespace tenon
