#include "core/tokenizer/files/gguf_tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/base/quote.h"
#include "core/tokenizer/files/gguf_patterns.h"
#include "core/tokenizer/files/loading.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

using Parts = std::unique_ptr<TokenizerParts>;

// "<0x41>"
bool is_byte_piece(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
}

// Gemma 4's words are all tokens, as in its tokenizer.json.
Status add_words(const GgufVocabulary& vocabulary, TokenizerParts& parts) {
  const bool all = vocabulary.model == kGemma4Model;
  std::vector<Vocabulary::Entry> entries;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const GgufVocabulary::Token& token = vocabulary.tokens[id];
    const bool is_word = all || token.type == PieceType::normal ||
                         token.type == PieceType::unused || token.type == PieceType::byte;
    // An empty one is a gap: no text becomes it.
    if (!is_word || token.text.empty()) continue;
    entries.push_back({std::string(token.text), static_cast<int64_t>(id)});
  }
  TENON_ASSIGN_OR_RETURN(parts.vocabulary, Vocabulary::create(entries));
  return {};
}

// Control tokens and those of users are found in the text as they are spelled; those that `parts`
// has already stay as they are.
Status add_symbols(const GgufVocabulary& vocabulary, TokenizerParts& parts) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const GgufVocabulary::Token& given = vocabulary.tokens[id];
    const bool special = given.type == PieceType::control || given.type == PieceType::unknown;
    if ((!special && given.type != PieceType::user_defined) || given.text.empty()) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.content = given.text;
    token.special = special;
    if (parts.added.find(token.id) != nullptr || parts.added.find(token.content) != nullptr) {
      continue;
    }
    TENON_RETURN_IF_ERROR(parts.add_token(std::move(token)));
  }
  return {};
}

Status add_merges(const GgufVocabulary& vocabulary, const BpeOptions& options,
                  TokenizerParts& parts) {
  std::vector<Bpe::Merge> merges;
  merges.reserve(vocabulary.merges.size());
  for (const std::string_view merge : vocabulary.merges) {
    // A piece may be a space itself where the vocabulary is not byte-level.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return invalid_argument("merge " + std::to_string(merges.size() + 1) + " is " +
                              in_quotes(merge) + "; expected two pieces");
    }
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  TENON_ASSIGN_OR_RETURN(parts.model, Bpe::from_merges(parts.vocabulary, merges, options));
  return {};
}

Status add_splits(const GgufVocabulary& vocabulary, const SplitRule& rule, TokenizerParts& parts) {
  for (const std::string_view text : rule.patterns) {
    TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::regex(text));
    parts.pre_tokenizer.add(make_split(std::move(pattern), SplitBehavior::isolated, false),
                            "tokenizer.ggml.pre " + in_quotes(vocabulary.pre));
  }
  const bool prefix = vocabulary.add_space_prefix.value_or(false);
  TENON_ASSIGN_OR_RETURN(PreTokenStepPtr bytes, make_byte_level(prefix, false));
  parts.pre_tokenizer.add(std::move(bytes), "the byte-level alphabet");
  parts.decoder.add(make_byte_level_decoder(), "the byte-level alphabet");
  return {};
}

void name_ends(const GgufVocabulary& vocabulary, bool adds_bos, TokenizerParts& parts) {
  parts.bos = vocabulary.bos;
  parts.eos = vocabulary.eos;
  if (parts.eos) add_text_end(parts.ends, *parts.eos, "tokenizer.ggml.eos_token_id");
  parts.prefix.clear();
  parts.suffix.clear();
  if (vocabulary.add_bos.value_or(adds_bos) && parts.bos) parts.prefix = {*parts.bos};
  if (vocabulary.add_eos.value_or(false) && parts.eos) parts.suffix = {*parts.eos};
}

// Whether words can be more than single characters, which takes merges.
bool needs_merges(const GgufVocabulary& vocabulary) {
  return std::ranges::any_of(vocabulary.tokens, [](const GgufVocabulary::Token& token) {
    return token.type == PieceType::normal && !token.text.empty() &&
           first_rune(token.text).bytes < token.text.size();
  });
}

Status check_merges(const GgufVocabulary& vocabulary) {
  if (!vocabulary.merges.empty() || !needs_merges(vocabulary)) return {};
  return invalid_argument(
      "'tokenizer.ggml.merges' is missing or empty, but the vocabulary has tokens of several "
      "characters; without the merges text would become other tokens than the model was trained "
      "on, convert it again with its tokenizer.json or merges.txt");
}

// "<|im_start|>"
bool looks_special(std::string_view text) {
  return text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
}

// Where the file gives no types: what its keys name, and what looks like it, is a control token.
GgufVocabulary with_guessed_types(const GgufVocabulary& given) {
  GgufVocabulary vocabulary = given;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    const bool named = token == given.bos || token == given.eos || token == given.unknown;
    if (named || looks_special(given.tokens[id].text)) {
      vocabulary.tokens[id].type = PieceType::control;
    }
  }
  return vocabulary;
}

// What other programs run without a word, and what then may go wrong.
void warn_of_gaps(const GgufVocabulary& vocabulary, TokenizerParts& parts) {
  if (!vocabulary.has_types) {
    parts.warnings.emplace_back(
        "'tokenizer.ggml.token_type' is missing; which tokens are special is guessed from their "
        "names, convert the model again if it answers strangely");
  }
  if (vocabulary.model == "gpt2" && !vocabulary.has_pre) {
    parts.warnings.emplace_back(
        "'tokenizer.ggml.pre' is missing; text is split as 'default' says, which for many models "
        "gives other tokens than they were trained on, convert the model again if it answers "
        "strangely");
  }
}

Result<Parts> make_byte_level_bpe(const GgufVocabulary& given) {
  const GgufVocabulary vocabulary = given.has_types ? given : with_guessed_types(given);
  TENON_RETURN_IF_ERROR(check_merges(vocabulary));
  const SplitRule* rule = find_split_rule(vocabulary.pre);
  if (rule == nullptr) {
    return unsupported("'tokenizer.ggml.pre' is " + in_quotes(vocabulary.pre) + "; there are " +
                       split_rule_names());
  }
  auto parts = std::make_unique<TokenizerParts>();
  parts->kind = "byte-level bpe";
  TENON_RETURN_IF_ERROR(add_words(vocabulary, *parts));
  TENON_RETURN_IF_ERROR(add_symbols(vocabulary, *parts));
  BpeOptions options;
  options.ignore_merges = rule->ignore_merges;
  TENON_RETURN_IF_ERROR(add_merges(vocabulary, options, *parts));
  TENON_RETURN_IF_ERROR(add_splits(vocabulary, *rule, *parts));
  name_ends(vocabulary, rule->adds_bos, *parts);
  warn_of_gaps(vocabulary, *parts);
  return parts;
}

// Gemma 4: merges in order as in byte-level vocabularies, of characters as in SentencePiece's.
// Text is not split, as in its tokenizer.json.
Result<Parts> make_gemma4(const GgufVocabulary& given) {
  const GgufVocabulary vocabulary = given.has_types ? given : with_guessed_types(given);
  TENON_RETURN_IF_ERROR(check_merges(vocabulary));
  auto parts = std::make_unique<TokenizerParts>();
  parts->kind = "sentencepiece bpe";
  TENON_RETURN_IF_ERROR(add_words(vocabulary, *parts));
  TENON_RETURN_IF_ERROR(add_symbols(vocabulary, *parts));
  TENON_ASSIGN_OR_RETURN(Pattern space, Pattern::literal(" "));
  parts->normalizer.add(make_replace(std::move(space), std::string(kGemma4Space)),
                        "the replacement of spaces");
  BpeOptions options;
  options.byte_fallback = options.fuse_unknown = true;
  if (vocabulary.unknown) options.unknown_piece = parts->piece(*vocabulary.unknown);
  TENON_RETURN_IF_ERROR(add_merges(vocabulary, options, *parts));
  TENON_ASSIGN_OR_RETURN(Pattern mark, Pattern::literal(kGemma4Space));
  parts->decoder.add(make_replace_decoder(std::move(mark), " "), "the decoder of spaces");
  parts->decoder.add(make_byte_fallback(), "the decoder of bytes");
  name_ends(vocabulary, true, *parts);
  warn_of_gaps(vocabulary, *parts);
  return parts;
}

// The JSON says how text becomes tokens; the file's own keys name the ends of a sequence, and put
// them around a text where the JSON puts nothing.
Result<Parts> make_from_json(const GgufVocabulary& vocabulary) {
  Result<Parts> parts = read_tokenizer_json(vocabulary.json);
  if (!parts.ok()) return with_context("tokenizer.huggingface.json", parts.status());
  // The configuration next to it may have named more.
  TENON_RETURN_IF_ERROR(add_symbols(vocabulary, **parts));
  const std::vector<TokenId> prefix = (*parts)->prefix, suffix = (*parts)->suffix;
  name_ends(vocabulary, false, **parts);
  if (prefix.empty() && suffix.empty()) return parts;
  (*parts)->prefix = prefix;
  (*parts)->suffix = suffix;
  return parts;
}

// Pieces of equal score merge from the left, whatever the model was trained on.
Status check_scores(const GgufVocabulary& vocabulary) {
  if (vocabulary.has_scores) return {};
  return invalid_argument(
      "'tokenizer.ggml.scores' is missing; expected a score for each of " +
      std::to_string(vocabulary.tokens.size()) +
      " tokens, by which text becomes the tokens that the model was trained on, convert it again "
      "with its tokenizer.model");
}

}  // namespace

SentencePieceModel sentencepiece_of(const GgufVocabulary& vocabulary) {
  SentencePieceModel model;
  for (const GgufVocabulary::Token& token : vocabulary.tokens) {
    model.pieces.push_back({std::string(token.text), token.score, token.type});
  }
  // Files of version 1 give no types.
  const bool typed = std::ranges::any_of(
      model.pieces, [](const auto& piece) { return piece.type != PieceType::normal; });
  for (size_t id = 0; id < model.pieces.size() && !typed; ++id) {
    auto& piece = model.pieces[id];
    const auto token = static_cast<TokenId>(id);
    if (is_byte_piece(piece.text)) piece.type = PieceType::byte;
    if (token == vocabulary.bos || token == vocabulary.eos) piece.type = PieceType::control;
    if (token == vocabulary.unknown.value_or(0)) piece.type = PieceType::unknown;
  }
  model.byte_fallback = std::ranges::any_of(
      model.pieces, [](const auto& piece) { return piece.type == PieceType::byte; });
  model.add_dummy_prefix = vocabulary.add_space_prefix.value_or(true);
  model.remove_extra_whitespaces = vocabulary.remove_extra_whitespaces.value_or(false);
  model.charsmap = vocabulary.charsmap;
  model.unknown_surface = vocabulary.unknown_surface;
  model.bos = vocabulary.bos;
  model.eos = vocabulary.eos;
  return model;
}

Result<Parts> read_gguf_tokenizer(const GgufFile& file) {
  TENON_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, read_gguf_vocabulary(file));
  if (!vocabulary.json.empty()) return make_from_json(vocabulary);
  if (vocabulary.model == "gpt2") return make_byte_level_bpe(vocabulary);
  if (vocabulary.model == kGemma4Model) return make_gemma4(vocabulary);
  if (vocabulary.model != "llama") {
    return unsupported("'tokenizer.ggml.model' is " + in_quotes(vocabulary.model) +
                       "; there are llama, gpt2 and gemma4");
  }
  TENON_RETURN_IF_ERROR(check_scores(vocabulary));
  TENON_ASSIGN_OR_RETURN(Parts parts, make_sentencepiece(sentencepiece_of(vocabulary)));
  name_ends(vocabulary, true, *parts);
  warn_of_gaps(vocabulary, *parts);
  return parts;
}

}  // namespace tenon::tok
