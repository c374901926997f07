#include <limits>
#include <utility>

#include "core/base/quote.h"
#include "core/tokenizer/files/json_pipeline.h"
#include "core/tokenizer/files/loading.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

Status check_version(const JsonNode& root) {
  const auto version = root.find("version");
  if (!version) return Status();
  TENON_ASSIGN_OR_RETURN(const std::string text, version->text());
  return text == "1.0" ? Status() : version->refuse(in_quotes(text));
}

// Files of the first versions leave "type" out; only BPE has merges.
Status check_model_type(const JsonNode& model, bool has_merges) {
  const auto type = model.find("type");
  if (!type && has_merges) return Status();
  TENON_ASSIGN_OR_RETURN(const std::string name, model.text_at("type"));
  if (name == "BPE") return Status();
  return type->refuse(in_quotes(name) + "; of the models only BPE is");
}

Status refuse_unless_empty(const JsonNode& model, std::string_view key) {
  const auto member = model.find(key);
  if (!member) return Status();
  TENON_ASSIGN_OR_RETURN(const std::string text, member->text());
  return text.empty() ? Status() : member->refuse(in_quotes(text));
}

Status check_dropout(const JsonNode& model) {
  const auto dropout = model.find("dropout");
  if (!dropout || dropout->is_zero()) return Status();
  return dropout->refuse("not null: encoding would be random");
}

Result<BpeOptions> read_options(const JsonNode& model) {
  BpeOptions options;
  if (const auto unknown = model.find("unk_token")) {
    TENON_ASSIGN_OR_RETURN(options.unknown_piece, unknown->text());
  }
  TENON_ASSIGN_OR_RETURN(options.byte_fallback, model.boolean_or("byte_fallback", false));
  TENON_ASSIGN_OR_RETURN(options.fuse_unknown, model.boolean_or("fuse_unk", false));
  TENON_ASSIGN_OR_RETURN(options.ignore_merges, model.boolean_or("ignore_merges", false));
  return options;
}

// The library that defines the format runs such a file, a character a token. `unknown` is the piece
// that stands for what has no token.
void warn_of_no_merges(std::string_view unknown, TokenizerParts& parts) {
  for (uint32_t id = 0; id < parts.vocabulary.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    const std::string_view piece = parts.vocabulary.piece(token);
    const bool is_character = piece.empty() || first_rune(piece).bytes == piece.size();
    const bool is_byte = piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>');
    const bool is_special = piece == unknown || parts.added.find(token) != nullptr;
    if (is_character || is_byte || is_special) continue;
    parts.warnings.emplace_back(
        "model.merges is empty, but the vocabulary has pieces of several characters, such as " +
        in_quotes(piece) + "; text becomes single characters, fetch the file again if it was cut");
    return;
  }
}

Status read_model(const JsonNode& root, const TokenizerJson& file, TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(const JsonNode model, root.at("model"));
  TENON_RETURN_IF_ERROR(check_model_type(model, file.merges.has_value()));
  if (!file.vocab) return invalid_argument("model has no 'vocab'");
  if (!file.merges) return invalid_argument("model has no 'merges'");
  TENON_RETURN_IF_ERROR(check_dropout(model));
  TENON_RETURN_IF_ERROR(refuse_unless_empty(model, "continuing_subword_prefix"));
  TENON_RETURN_IF_ERROR(refuse_unless_empty(model, "end_of_word_suffix"));
  TENON_ASSIGN_OR_RETURN(const BpeOptions options, read_options(model));
  TENON_ASSIGN_OR_RETURN(parts.vocabulary, Vocabulary::create(*file.vocab));
  TENON_ASSIGN_OR_RETURN(parts.model, Bpe::from_merges(parts.vocabulary, *file.merges, options));
  return Status();
}

Status read_added_tokens(const JsonNode& root, TokenizerParts& parts) {
  const auto node = root.find("added_tokens");
  if (!node) return Status();
  TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, node->list());
  for (const JsonNode& item : list) {
    TENON_ASSIGN_OR_RETURN(const JsonNode id_node, item.at("id"));
    TENON_ASSIGN_OR_RETURN(const int64_t id, id_node.integer());
    TENON_ASSIGN_OR_RETURN(AddedToken token, read_added_token(item, id));
    TENON_RETURN_IF_ERROR(parts.add_token(std::move(token)));
  }
  return Status();
}

std::string kind_of(const TokenizerParts& parts, bool byte_fallback) {
  if (parts.pre_tokenizer.maps_bytes() || parts.normalizer.maps_bytes()) return "byte-level bpe";
  return byte_fallback || parts.vocabulary.find(kMetaspace) ? "sentencepiece bpe" : "bpe";
}

// The first and the last token around a text are what begins and ends a sequence, until a
// configuration says otherwise.
void name_sequence_ends(TokenizerParts& parts) {
  if (!parts.prefix.empty()) parts.bos = parts.prefix.front();
  if (!parts.suffix.empty()) parts.eos = parts.suffix.back();
}

}  // namespace

Result<AddedToken> read_added_token(const JsonNode& node, int64_t id) {
  if (id < 0 || id > std::numeric_limits<TokenId>::max()) {
    return invalid_argument(node.where() + " has the id " + std::to_string(id));
  }
  AddedToken token;
  token.id = static_cast<TokenId>(id);
  TENON_ASSIGN_OR_RETURN(token.content, node.text_at("content"));
  TENON_ASSIGN_OR_RETURN(token.single_word, node.boolean_or("single_word", false));
  TENON_ASSIGN_OR_RETURN(token.lstrip, node.boolean_or("lstrip", false));
  TENON_ASSIGN_OR_RETURN(token.rstrip, node.boolean_or("rstrip", false));
  TENON_ASSIGN_OR_RETURN(token.special, node.boolean_or("special", false));
  TENON_ASSIGN_OR_RETURN(token.normalized, node.boolean_or("normalized", !token.special));
  return token;
}

Result<std::unique_ptr<TokenizerParts>> read_tokenizer_json(std::string_view text) {
  TENON_ASSIGN_OR_RETURN(const TokenizerJson file, parse_tokenizer_json(text));
  const JsonNode root(file.document, "");
  auto parts = std::make_unique<TokenizerParts>();
  TENON_RETURN_IF_ERROR(check_version(root));
  TENON_RETURN_IF_ERROR(read_model(root, file, *parts));
  if (const auto node = root.find("normalizer")) {
    TENON_RETURN_IF_ERROR(read_normalizer(*node, parts->normalizer));
  }
  TENON_RETURN_IF_ERROR(read_added_tokens(root, *parts));
  TENON_ASSIGN_OR_RETURN(const JsonNode model, root.at("model"));
  if (file.merges->empty()) {
    TENON_ASSIGN_OR_RETURN(const BpeOptions options, read_options(model));
    warn_of_no_merges(options.unknown_piece, *parts);
  }
  if (const auto node = root.find("pre_tokenizer")) {
    TENON_RETURN_IF_ERROR(read_pre_tokenizer(*node, parts->pre_tokenizer));
  }
  if (const auto node = root.find("decoder")) {
    TENON_RETURN_IF_ERROR(read_decoder(*node, parts->decoder));
  } else {
    parts->decoder.separator = " ";
  }
  if (const auto node = root.find("post_processor")) {
    TENON_RETURN_IF_ERROR(read_post_processor(*node, *parts));
  }
  TENON_ASSIGN_OR_RETURN(const bool byte_fallback, model.boolean_or("byte_fallback", false));
  parts->kind = kind_of(*parts, byte_fallback);
  name_sequence_ends(*parts);
  return parts;
}

}  // namespace tenon::tok
