// From a tokenizer's files to the keys of a GGUF file.
#include "core/tokenizer/files/gguf_export.h"

#include <filesystem>
#include <map>

#include "core/base/files/mapped_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/tokenizer/files/gguf_pre_name.h"
#include "core/tokenizer/files/gguf_tokenizer.h"
#include "core/tokenizer/files/loading.h"

namespace tenon {
namespace {

using tok::PieceType;
using tok::TokenizerParts;

constexpr size_t kLargestFileBytes = size_t{128} << 20;

// The columns of the vocabulary, one entry a row of the model's embedding.
struct Columns {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;

  void add(std::string text, float score, PieceType type) {
    tokens.push_back(std::move(text));
    scores.push_back(score);
    types.push_back(static_cast<int32_t>(type));
  }
  Status pad(uint32_t vocabulary) {
    if (tokens.size() > vocabulary) {
      return unsupported("the tokenizer has " + std::to_string(tokens.size()) +
                         " tokens, the model's vocabulary only " + std::to_string(vocabulary));
    }
    while (tokens.size() < vocabulary) {
      add("[PAD" + std::to_string(tokens.size()) + "]", 0, PieceType::unused);
    }
    return {};
  }
  void write(bool with_scores, GgufMetadata& out) const {
    out.add_texts("tokenizer.ggml.tokens", tokens);
    if (with_scores) out.add_reals("tokenizer.ggml.scores", scores);
    out.add_integers("tokenizer.ggml.token_type", types);
  }
};

void write_ends(const TokenizerParts& parts, bool with_eos, GgufMetadata& out) {
  if (parts.bos) {
    out.add_count("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*parts.bos));
  }
  if (with_eos && parts.eos) {
    out.add_count("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*parts.eos));
  }
  const auto is_only = [](const std::vector<TokenId>& around, std::optional<TokenId> id) {
    return around.size() == 1 && around.front() == id;
  };
  out.add_flag("tokenizer.ggml.add_bos_token", is_only(parts.prefix, parts.bos));
  out.add_flag("tokenizer.ggml.add_eos_token", is_only(parts.suffix, parts.eos));
}

// --- tokenizer.json
// -------------------------------------------------------------------------------

// What becomes of the tokenizer elsewhere; empty: the same.
std::string note_on(const tok::PreName& pre) {
  if (pre.differs.empty()) return {};
  if (pre.name == tok::kNoPreName) {
    return "llama.cpp will not load this file: its tokenizer " + pre.differs +
           "; llama.cpp has no name for that, and 'tokenizer.ggml.pre' is 'custom'";
  }
  return "llama.cpp will give some texts other tokens: this tokenizer " + pre.differs +
         ", which 'tokenizer.ggml.pre' = " + in_quotes(pre.name) + " does not say";
}

PieceType type_of(const TokenizerParts& parts, TokenId id) {
  if (const tok::AddedToken* token = parts.added.find(id)) {
    return token->special ? PieceType::control : PieceType::user_defined;
  }
  const std::string_view piece = parts.piece(id);
  if (piece.empty()) return PieceType::unused;
  const bool is_byte = piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>');
  return is_byte ? PieceType::byte : PieceType::normal;
}

Result<std::string> add_json(const std::string& source, std::string_view text, uint32_t vocabulary,
                             bool with_eos, GgufMetadata& out) {
  TENON_ASSIGN_OR_RETURN(const auto parts, tok::load_tokenizer_parts(source));
  TENON_ASSIGN_OR_RETURN(const tok::TokenizerJson file, tok::parse_tokenizer_json(text));
  const bool bytes = parts->kind == "byte-level bpe";
  if (!bytes && parts->kind != "sentencepiece bpe") {
    return unsupported("a tokenizer of the kind " + in_quotes(parts->kind) +
                       " has no place in GGUF files; there are byte-level bpe and sentencepiece "
                       "bpe");
  }
  // What merges first gets the highest score; a piece has the rank of its first merge.
  std::map<std::string, size_t> ranks;
  std::vector<std::string> merges;
  for (const auto& [left, right] : *file.merges) {
    ranks.try_emplace(left + right, merges.size());
    merges.push_back(left + " " + right);
  }
  Columns columns;
  for (uint32_t id = 0; id < parts->size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    std::string piece(parts->piece(token));
    const auto rank = ranks.find(piece);
    const auto score = static_cast<float>(rank == ranks.end() ? merges.size() : rank->second);
    const PieceType type = type_of(*parts, token);
    if (piece.empty()) piece = "[PAD" + std::to_string(id) + "]";
    columns.add(std::move(piece), type == PieceType::normal ? -score : 0.0f, type);
  }
  TENON_RETURN_IF_ERROR(columns.pad(vocabulary));
  out.add_text("tokenizer.ggml.model", bytes ? "gpt2" : "llama");
  const tok::PreName pre = bytes ? tok::pre_name(file, *parts) : tok::PreName{"default", ""};
  out.add_text("tokenizer.ggml.pre", pre.name);
  columns.write(!bytes, out);
  if (bytes) out.add_texts("tokenizer.ggml.merges", merges);
  write_ends(*parts, with_eos, out);
  out.add_text("tokenizer.huggingface.json", text);
  return note_on(pre);
}

// --- tokenizer.model
// ------------------------------------------------------------------------------

void add_pieces(const tok::SentencePieceModel& model, const TokenizerParts& parts,
                const Columns& columns, bool with_eos, GgufMetadata& out) {
  out.add_text("tokenizer.ggml.model", "llama");
  out.add_text("tokenizer.ggml.pre", "default");
  columns.write(true, out);
  write_ends(parts, with_eos, out);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != PieceType::unknown) continue;
    out.add_count("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(id));
    break;
  }
  out.add_flag("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
  out.add_flag("tokenizer.ggml.remove_extra_whitespaces", model.remove_extra_whitespaces);
  if (model.unknown_surface != tok::kUnknownSurface) {
    out.add_text("tenon.tokenizer.unknown_surface", model.unknown_surface);
  }
  if (!model.charsmap.empty()) {
    out.add_bytes("tokenizer.ggml.precompiled_charsmap", model.charsmap);
  }
}

Status add_sentencepiece(const std::string& source, const tok::SentencePieceModel& model,
                         uint32_t vocabulary, bool with_eos, GgufMetadata& out) {
  TENON_ASSIGN_OR_RETURN(const auto parts, tok::load_tokenizer_parts(source));
  bool has_bytes = false;
  Columns columns;
  for (const auto& piece : model.pieces) {
    has_bytes = has_bytes || piece.type == PieceType::byte;
    columns.add(piece.text, piece.score, piece.type);
  }
  if (has_bytes != model.byte_fallback || !model.escape_whitespaces) {
    return unsupported(
        "a SentencePiece model with byte pieces that it does not use, or without escaped spaces, "
        "has no place in GGUF files");
  }
  TENON_RETURN_IF_ERROR(columns.pad(vocabulary));
  add_pieces(model, *parts, columns, with_eos, out);
  return {};
}

// --- sources
// --------------------------------------------------------------------------------------

// The template that turns a conversation into a prompt is kept, wherever the folder has it.
Result<std::string> chat_template(const std::string& folder) {
  if (is_there(folder + "/chat_template.jinja")) {
    return read_text_file(folder + "/chat_template.jinja");
  }
  const std::string path = folder + "/tokenizer_config.json";
  if (!is_there(path)) return std::string();
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  Result<nlohmann::json> config = tok::parse_json(text);
  if (!config.ok()) return with_context(path, config.status());
  const auto found = config->find("chat_template");
  if (found == config->end() || !found->is_string()) return std::string();
  return found->get<std::string>();
}

Result<std::string> add_from_folder(const std::string& folder, uint32_t vocabulary, bool with_eos,
                                    GgufMetadata& out) {
  std::string note;
  if (const std::string path = folder + "/tokenizer.json"; is_there(path)) {
    TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestFileBytes));
    TENON_ASSIGN_OR_RETURN(note, add_json(folder, text, vocabulary, with_eos, out));
  } else if (const std::string model_path = folder + "/tokenizer.model"; is_there(model_path)) {
    TENON_ASSIGN_OR_RETURN(const std::string bytes, read_text_file(model_path, kLargestFileBytes));
    TENON_ASSIGN_OR_RETURN(const auto model,
                           tok::parse_sentencepiece(std::as_bytes(std::span(bytes))));
    TENON_RETURN_IF_ERROR(add_sentencepiece(folder, model, vocabulary, with_eos, out));
  } else {
    return not_found(path_in_quotes(folder) + " has no tokenizer.json and no tokenizer.model");
  }
  TENON_ASSIGN_OR_RETURN(const std::string chat, chat_template(folder));
  if (!chat.empty()) out.add_text("tokenizer.chat_template", chat);
  return note;
}

// The name of a file whose JSON says more than the name: earlier versions knew fewer.
Result<tok::PreName> renamed(const GgufFile& file, const std::string& name) {
  const GgufValue* json = file.find("tokenizer.huggingface.json");
  const auto text = json != nullptr ? json->text() : std::nullopt;
  if (name != tok::kNoPreName || !text) return tok::PreName{name, ""};
  TENON_ASSIGN_OR_RETURN(const auto parts, tok::read_tokenizer_json(*text));
  TENON_ASSIGN_OR_RETURN(const tok::TokenizerJson parsed, tok::parse_tokenizer_json(*text));
  return tok::pre_name(parsed, *parts);
}

// Of another GGUF file: the same keys again.
Result<std::string> add_from_file(const std::string& path, bool with_eos, GgufMetadata& out) {
  TENON_ASSIGN_OR_RETURN(const GgufParts files, GgufParts::open(path));
  const GgufFile& file = files.file();
  if (file.find("tokenizer.ggml.tokens") == nullptr) {
    return not_found(path_in_quotes(path) + " has no tokenizer");
  }
  std::string note;
  for (const auto& [key, value] : file.metadata()) {
    const bool is_end = key == "tokenizer.ggml.eos_token_id" ||
                        key == "tokenizer.ggml.eot_token_id" ||
                        key == "tokenizer.ggml.eom_token_id";
    const bool is_tokenizer = key.starts_with("tokenizer.") || key.starts_with("tenon.tokenizer.");
    if (!is_tokenizer || (is_end && !with_eos)) continue;
    if (key != "tokenizer.ggml.pre" || !value.text()) {
      out.add_value(key, value);
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const tok::PreName pre, renamed(file, std::string(*value.text())));
    out.add_text(key, pre.name);
    note = note_on(pre);
  }
  return note;
}

}  // namespace

Result<std::string> add_gguf_tokenizer(const std::string& source, uint32_t vocabulary,
                                       bool with_eos, GgufMetadata& out) {
  std::error_code error;
  if (std::filesystem::is_regular_file(source, error)) return add_from_file(source, with_eos, out);
  return add_from_folder(source, vocabulary, with_eos, out);
}

}  // namespace tenon
