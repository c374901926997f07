// "decoder" and "post_processor" of a tokenizer.json.
#include <algorithm>
#include <utility>

#include "core/base/quote.h"
#include "core/tokenizer/files/json_pipeline.h"

namespace tenon::tok {
namespace {

Result<size_t> read_count(const JsonNode& node, std::string_view key) {
  TENON_ASSIGN_OR_RETURN(const JsonNode member, node.at(key));
  TENON_ASSIGN_OR_RETURN(const int64_t count, member.integer());
  if (count < 0) return member.refuse(std::to_string(count));
  return static_cast<size_t>(count);
}

// Reads the steps in order. Once the tokens are fused, what follows sees the whole text.
class DecoderReader {
 public:
  explicit DecoderReader(Decoder& decoder) : decoder_(decoder) {}

  Status read(const JsonNode& node) {
    TENON_ASSIGN_OR_RETURN(const std::string type, node.text_at("type"));
    if (type == "Sequence") return read_sequence(node);
    TENON_RETURN_IF_ERROR(check_stage_count(decoder_.stages.size() + 1, "the decoder"));
    if (type == "Strip") return read_strip(node);
    if (type == "Fuse") {
      is_fused_ = true;
      return Status();
    }
    if (is_fused_)
      return node.refuse("a " + in_quotes(type) + " after the step that joins the tokens");
    is_fused_ = type == "ByteLevel";
    TENON_ASSIGN_OR_RETURN(DecodeStepPtr step, read_step(node, type));
    decoder_.add(std::move(step), node.where() + " (" + type + ")");
    return Status();
  }

 private:
  Status read_sequence(const JsonNode& node) {
    TENON_ASSIGN_OR_RETURN(const JsonNode items, node.at("decoders"));
    TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, items.list());
    for (const JsonNode& item : list) TENON_RETURN_IF_ERROR(read(item));
    return Status();
  }

  static Result<DecodeStepPtr> read_step(const JsonNode& node, std::string_view type) {
    if (type == "ByteLevel") return make_byte_level_decoder();
    if (type == "ByteFallback") return make_byte_fallback();
    if (type == "Replace") return read_replace(node);
    if (type == "Metaspace") {
      TENON_ASSIGN_OR_RETURN(MetaspaceOptions options, read_metaspace(node));
      return make_metaspace_decoder(std::move(options.replacement),
                                    options.scheme != PrependScheme::never);
    }
    return node.refuse("a decoder of the type " + in_quotes(type));
  }

  static Result<DecodeStepPtr> read_replace(const JsonNode& node) {
    TENON_ASSIGN_OR_RETURN(const JsonNode pattern_node, node.at("pattern"));
    TENON_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(pattern_node));
    TENON_ASSIGN_OR_RETURN(std::string content, node.text_at("content"));
    return make_replace_decoder(std::move(pattern), std::move(content));
  }

  Status read_strip(const JsonNode& node) {
    TENON_ASSIGN_OR_RETURN(std::string content, node.text_at("content"));
    TENON_ASSIGN_OR_RETURN(const size_t start, read_count(node, "start"));
    TENON_ASSIGN_OR_RETURN(const size_t stop, read_count(node, "stop"));
    if (content.empty()) return node.refuse("a Strip of nothing");
    if (!is_fused_) {
      decoder_.add(make_strip_decoder(std::move(content), start, stop), node.where() + " (Strip)");
      return Status();
    }
    const bool is_second = decoder_.strip_start + decoder_.strip_stop > 0;
    const bool is_ascii = content.size() == 1 && static_cast<unsigned char>(content[0]) < 0x80;
    if (is_second || !is_ascii) {
      return node.refuse("a Strip of " + in_quotes(content) + " from the joined text");
    }
    decoder_.strip = content[0];
    decoder_.strip_start = start;
    decoder_.strip_stop = stop;
    return Status();
  }

  Decoder& decoder_;
  bool is_fused_ = false;
};

Status check_id(const JsonNode& where, int64_t id, const TokenizerParts& parts) {
  if (id >= 0 && id < int64_t{parts.size()}) return Status();
  return invalid_argument(where.where() + " names the token " + std::to_string(id) +
                          ", which is outside of the vocabulary");
}

// Lists name a token's ids, and templates name lists: together they could ask for billions.
constexpr size_t kMostAround = 1024;

Status refuse_around(const JsonNode& node) {
  return node.refuse("a template that puts more than " + std::to_string(kMostAround) +
                     " tokens around a text");
}

struct Template {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
};

Status append_special(const JsonNode& node, const JsonNode& piece, const TokenizerParts& parts,
                      std::vector<TokenId>& ids) {
  TENON_ASSIGN_OR_RETURN(const std::string name, piece.text_at("id"));
  TENON_ASSIGN_OR_RETURN(const JsonNode tokens, node.at("special_tokens"));
  TENON_ASSIGN_OR_RETURN(const JsonNode token, tokens.at(name));
  TENON_ASSIGN_OR_RETURN(const JsonNode id_list, token.at("ids"));
  TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, id_list.list());
  for (const JsonNode& item : list) {
    TENON_ASSIGN_OR_RETURN(const int64_t id, item.integer());
    TENON_RETURN_IF_ERROR(check_id(item, id, parts));
    if (ids.size() == kMostAround) return refuse_around(node);
    ids.push_back(static_cast<TokenId>(id));
  }
  return Status();
}

Result<Template> read_template(const JsonNode& node, const TokenizerParts& parts) {
  Template out;
  bool has_text = false;
  TENON_ASSIGN_OR_RETURN(const JsonNode single, node.at("single"));
  TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, single.list());
  for (const JsonNode& item : list) {
    if (const auto special = item.find("SpecialToken")) {
      TENON_RETURN_IF_ERROR(
          append_special(node, *special, parts, has_text ? out.suffix : out.prefix));
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const JsonNode sequence, item.at("Sequence"));
    TENON_ASSIGN_OR_RETURN(const std::string name, sequence.text_at("id"));
    if (name != "A" || has_text) return single.refuse("a template with more than one text");
    has_text = true;
  }
  if (!has_text) return single.refuse("a template without a text");
  return out;
}

// ["<s>", 1]
Result<TokenId> read_named_id(const JsonNode& node, std::string_view key,
                              const TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(const JsonNode pair, node.at(key));
  TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> items, pair.list());
  if (items.size() != 2) return pair.refuse("no pair of a token and its id");
  TENON_ASSIGN_OR_RETURN(const int64_t id, items[1].integer());
  TENON_RETURN_IF_ERROR(check_id(pair, id, parts));
  return static_cast<TokenId>(id);
}

Result<Template> read_cls_sep(const JsonNode& node, const TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(const TokenId cls, read_named_id(node, "cls", parts));
  TENON_ASSIGN_OR_RETURN(const TokenId sep, read_named_id(node, "sep", parts));
  return Template{{cls}, {sep}};
}

}  // namespace

Status read_decoder(const JsonNode& node, Decoder& decoder) {
  return DecoderReader(decoder).read(node);
}

Status read_post_processor(const JsonNode& node, TokenizerParts& parts) {
  TENON_ASSIGN_OR_RETURN(const std::string type, node.text_at("type"));
  if (type == "ByteLevel") return Status();  // changes offsets only
  if (type == "Sequence") {
    TENON_ASSIGN_OR_RETURN(const JsonNode items, node.at("processors"));
    TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, items.list());
    for (const JsonNode& item : list) TENON_RETURN_IF_ERROR(read_post_processor(item, parts));
    return Status();
  }
  const bool is_template = type == "TemplateProcessing";
  if (!is_template && type != "RobertaProcessing" && type != "BertProcessing") {
    return node.refuse("a post-processor of the type " + in_quotes(type));
  }
  TENON_ASSIGN_OR_RETURN(Template around,
                         is_template ? read_template(node, parts) : read_cls_sep(node, parts));
  if (parts.prefix.size() + around.prefix.size() > kMostAround ||
      parts.suffix.size() + around.suffix.size() > kMostAround) {
    return refuse_around(node);
  }
  parts.prefix.insert(parts.prefix.begin(), around.prefix.begin(), around.prefix.end());
  parts.suffix.insert(parts.suffix.end(), around.suffix.begin(), around.suffix.end());
  return Status();
}

}  // namespace tenon::tok
