#include "core/tokenizer/files/json_pipeline.h"

#include <array>
#include <utility>

#include "core/base/quote.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

using BehaviorName = std::pair<std::string_view, SplitBehavior>;
constexpr std::array<BehaviorName, 5> kBehaviors{{
    {"Removed", SplitBehavior::removed},
    {"Isolated", SplitBehavior::isolated},
    {"MergedWithPrevious", SplitBehavior::merged_with_previous},
    {"MergedWithNext", SplitBehavior::merged_with_next},
    {"Contiguous", SplitBehavior::contiguous},
}};

Result<SplitBehavior> read_behavior(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const std::string name, node.text());
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  return node.refuse(in_quotes(name));
}

Result<PreTokenStepPtr> read_split(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const JsonNode pattern_node, node.at("pattern"));
  TENON_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(pattern_node));
  TENON_ASSIGN_OR_RETURN(const JsonNode behavior_node, node.at("behavior"));
  TENON_ASSIGN_OR_RETURN(const SplitBehavior behavior, read_behavior(behavior_node));
  TENON_ASSIGN_OR_RETURN(const bool invert, node.boolean_or("invert", false));
  return make_split(std::move(pattern), behavior, invert);
}

Result<PreTokenStepPtr> read_byte_level(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const bool add_prefix_space, node.boolean_at("add_prefix_space"));
  TENON_ASSIGN_OR_RETURN(const bool use_regex, node.boolean_or("use_regex", true));
  return make_byte_level(add_prefix_space, use_regex);
}

Result<PreTokenStepPtr> read_digits(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const bool individual, node.boolean_at("individual_digits"));
  return make_split(Pattern::runes(is_number),
                    individual ? SplitBehavior::isolated : SplitBehavior::contiguous, false);
}

Result<PreTokenStepPtr> read_punctuation(const JsonNode& node) {
  SplitBehavior behavior = SplitBehavior::isolated;
  if (const auto name = node.find("behavior")) {
    TENON_ASSIGN_OR_RETURN(behavior, read_behavior(*name));
  }
  return make_split(Pattern::runes(is_punctuation), behavior, false);
}

Result<PreTokenStepPtr> read_delimiter(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const std::string delimiter, node.text_at("delimiter"));
  TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::literal(delimiter));
  return make_split(std::move(pattern), SplitBehavior::removed, false);
}

Result<PreTokenStepPtr> read_fixed_length(const JsonNode& node) {
  int64_t length = 5;
  if (const auto given = node.find("length")) {
    TENON_ASSIGN_OR_RETURN(length, given->integer());
  }
  if (length < 1) return node.refuse("a FixedLength of " + std::to_string(length));
  return make_fixed_length(static_cast<size_t>(length));
}

PreTokenStepPtr whitespace_split() {
  return make_split(Pattern::runes(is_space), SplitBehavior::removed, false);
}

Result<PreTokenStepPtr> read_pre_token_step(const JsonNode& node, std::string_view type) {
  if (type == "Split") return read_split(node);
  if (type == "ByteLevel") return read_byte_level(node);
  if (type == "Digits") return read_digits(node);
  if (type == "Punctuation") return read_punctuation(node);
  if (type == "CharDelimiterSplit") return read_delimiter(node);
  if (type == "FixedLength") return read_fixed_length(node);
  if (type == "Whitespace") return make_whitespace();
  if (type == "WhitespaceSplit") return whitespace_split();
  if (type == "Metaspace") {
    TENON_ASSIGN_OR_RETURN(MetaspaceOptions options, read_metaspace(node));
    return make_metaspace(std::move(options.replacement), options.scheme, options.split);
  }
  if (type == "BertPreTokenizer") {
    return make_split(Pattern::runes(is_punctuation), SplitBehavior::isolated, false);
  }
  return node.refuse("a pre-tokenizer of the type " + in_quotes(type));
}

Result<NormalizeStepPtr> read_strip(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const bool left, node.boolean_at("strip_left"));
  TENON_ASSIGN_OR_RETURN(const bool right, node.boolean_at("strip_right"));
  return make_strip(left, right);
}

Result<NormalizeStepPtr> read_replace(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const JsonNode pattern_node, node.at("pattern"));
  TENON_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(pattern_node));
  TENON_ASSIGN_OR_RETURN(std::string content, node.text_at("content"));
  return make_replace(std::move(pattern), std::move(content));
}

Result<NormalizeStepPtr> read_normalize_step(const JsonNode& node, std::string_view type) {
  if (type == "Strip") return read_strip(node);
  if (type == "Replace") return read_replace(node);
  if (type == "NFC") return make_normal_form(NormalForm::nfc);
  if (type == "NFD") return make_normal_form(NormalForm::nfd);
  if (type == "NFKC") return make_normal_form(NormalForm::nfkc);
  if (type == "NFKD") return make_normal_form(NormalForm::nfkd);
  if (type == "Lowercase") return make_lowercase();
  if (type == "StripAccents") return make_strip_accents();
  if (type == "ByteLevel") return make_byte_level_normalizer();
  if (type == "Prepend") {
    TENON_ASSIGN_OR_RETURN(std::string text, node.text_at("prepend"));
    return make_prepend(std::move(text));
  }
  return node.refuse("a normalizer of the type " + in_quotes(type));
}

// "normalizer.normalizers[3] (Replace)"
std::string stage_name(const JsonNode& node, std::string_view type) {
  return node.where() + " (" + std::string(type) + ")";
}

// The items of a Sequence, read one after the other.
template <typename Read>
Status read_sequence(const JsonNode& node, std::string_view key, Read read) {
  TENON_ASSIGN_OR_RETURN(const JsonNode items, node.at(key));
  TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, items.list());
  for (const JsonNode& item : list) TENON_RETURN_IF_ERROR(read(item));
  return Status();
}

}  // namespace

Result<Pattern> read_pattern(const JsonNode& node) {
  if (const auto literal = node.find("String")) {
    TENON_ASSIGN_OR_RETURN(const std::string text, literal->text());
    return Pattern::literal(text);
  }
  TENON_ASSIGN_OR_RETURN(const JsonNode regex, node.at("Regex"));
  TENON_ASSIGN_OR_RETURN(const std::string text, regex.text());
  Result<Pattern> pattern = Pattern::regex(text);
  if (!pattern.ok()) return with_context(regex.where(), pattern.status());
  return pattern;
}

Result<MetaspaceOptions> read_metaspace(const JsonNode& node) {
  MetaspaceOptions options;
  TENON_ASSIGN_OR_RETURN(options.replacement, node.text_at("replacement"));
  const std::string& character = options.replacement;
  if (character.empty() || first_rune(character).bytes != character.size()) {
    return invalid_argument(node.where() + ".replacement is " + in_quotes(character) +
                            "; expected one character");
  }
  TENON_ASSIGN_OR_RETURN(options.split, node.boolean_or("split", true));
  TENON_ASSIGN_OR_RETURN(const bool add_prefix_space, node.boolean_or("add_prefix_space", true));
  if (!add_prefix_space) options.scheme = PrependScheme::never;
  const auto scheme = node.find("prepend_scheme");
  if (!scheme) return options;
  TENON_ASSIGN_OR_RETURN(const std::string name, scheme->text());
  if (name == "first" || name == "always") {
    if (!add_prefix_space) return scheme->refuse(in_quotes(name) + " without add_prefix_space");
    options.scheme = name == "first" ? PrependScheme::first : PrependScheme::always;
  } else if (name == "never") {
    options.scheme = PrependScheme::never;
  } else {
    return scheme->refuse(in_quotes(name));
  }
  return options;
}

Status read_normalizer(const JsonNode& node, Normalizer& normalizer) {
  TENON_ASSIGN_OR_RETURN(const std::string type, node.text_at("type"));
  if (type == "Sequence") {
    return read_sequence(node, "normalizers",
                         [&](const JsonNode& item) { return read_normalizer(item, normalizer); });
  }
  TENON_RETURN_IF_ERROR(check_stage_count(normalizer.size() + 1, "the normalizer"));
  TENON_ASSIGN_OR_RETURN(NormalizeStepPtr step, read_normalize_step(node, type));
  normalizer.add(std::move(step), stage_name(node, type));
  return Status();
}

Status read_pre_tokenizer(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  TENON_ASSIGN_OR_RETURN(const std::string type, node.text_at("type"));
  if (type == "Sequence") {
    return read_sequence(node, "pretokenizers", [&](const JsonNode& item) {
      return read_pre_tokenizer(item, pre_tokenizer);
    });
  }
  TENON_RETURN_IF_ERROR(check_stage_count(pre_tokenizer.size() + 1, "the pre-tokenizer"));
  TENON_ASSIGN_OR_RETURN(PreTokenStepPtr step, read_pre_token_step(node, type));
  if (type == "BertPreTokenizer") pre_tokenizer.add(whitespace_split(), stage_name(node, type));
  pre_tokenizer.add(std::move(step), stage_name(node, type));
  return Status();
}

}  // namespace tenon::tok
