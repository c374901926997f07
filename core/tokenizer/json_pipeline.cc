#include "core/tokenizer/json_pipeline.h"

#include <array>
#include <utility>

#include "core/base/quote.h"
#include "core/tokenizer/unicode.h"
#include "core/tokenizer/utf8.h"

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

Status read_split(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  TENON_ASSIGN_OR_RETURN(const JsonNode pattern_node, node.at("pattern"));
  TENON_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(pattern_node));
  TENON_ASSIGN_OR_RETURN(const JsonNode behavior_node, node.at("behavior"));
  TENON_ASSIGN_OR_RETURN(const SplitBehavior behavior, read_behavior(behavior_node));
  TENON_ASSIGN_OR_RETURN(const bool invert, node.boolean_or("invert", false));
  pre_tokenizer.add(make_split(std::move(pattern), behavior, invert));
  return Status();
}

Status read_byte_level(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  TENON_ASSIGN_OR_RETURN(const bool add_prefix_space, node.boolean_at("add_prefix_space"));
  TENON_ASSIGN_OR_RETURN(const bool use_regex, node.boolean_or("use_regex", true));
  TENON_ASSIGN_OR_RETURN(PreTokenStepPtr step, make_byte_level(add_prefix_space, use_regex));
  pre_tokenizer.add(std::move(step));
  return Status();
}

Status read_digits(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  TENON_ASSIGN_OR_RETURN(const bool individual, node.boolean_at("individual_digits"));
  pre_tokenizer.add(make_split(Pattern::runes(is_number),
                               individual ? SplitBehavior::isolated : SplitBehavior::contiguous,
                               false));
  return Status();
}

Status read_punctuation(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  SplitBehavior behavior = SplitBehavior::isolated;
  if (const auto name = node.find("behavior")) {
    TENON_ASSIGN_OR_RETURN(behavior, read_behavior(*name));
  }
  pre_tokenizer.add(make_split(Pattern::runes(is_punctuation), behavior, false));
  return Status();
}

Status read_delimiter(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  TENON_ASSIGN_OR_RETURN(const std::string delimiter, node.text_at("delimiter"));
  TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::literal(delimiter));
  pre_tokenizer.add(make_split(std::move(pattern), SplitBehavior::removed, false));
  return Status();
}

Status read_fixed_length(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  int64_t length = 5;
  if (const auto given = node.find("length")) {
    TENON_ASSIGN_OR_RETURN(length, given->integer());
  }
  if (length < 1) return node.refuse("a FixedLength of " + std::to_string(length));
  pre_tokenizer.add(make_fixed_length(static_cast<size_t>(length)));
  return Status();
}

void add_whitespace_split(PreTokenizer& pre_tokenizer) {
  pre_tokenizer.add(make_split(Pattern::runes(is_space), SplitBehavior::removed, false));
}

Status read_strip(const JsonNode& node, Normalizer& normalizer) {
  TENON_ASSIGN_OR_RETURN(const bool left, node.boolean_at("strip_left"));
  TENON_ASSIGN_OR_RETURN(const bool right, node.boolean_at("strip_right"));
  normalizer.add(make_strip(left, right));
  return Status();
}

Status read_replace(const JsonNode& node, Normalizer& normalizer) {
  TENON_ASSIGN_OR_RETURN(const JsonNode pattern_node, node.at("pattern"));
  TENON_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(pattern_node));
  TENON_ASSIGN_OR_RETURN(std::string content, node.text_at("content"));
  normalizer.add(make_replace(std::move(pattern), std::move(content)));
  return Status();
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
  if (type == "Strip") return read_strip(node, normalizer);
  if (type == "Replace") return read_replace(node, normalizer);
  if (type == "Prepend") {
    TENON_ASSIGN_OR_RETURN(std::string text, node.text_at("prepend"));
    normalizer.add(make_prepend(std::move(text)));
  } else if (type == "NFC") {
    normalizer.add(make_normal_form(NormalForm::nfc));
  } else if (type == "NFD") {
    normalizer.add(make_normal_form(NormalForm::nfd));
  } else if (type == "NFKC") {
    normalizer.add(make_normal_form(NormalForm::nfkc));
  } else if (type == "NFKD") {
    normalizer.add(make_normal_form(NormalForm::nfkd));
  } else if (type == "Lowercase") {
    normalizer.add(make_lowercase());
  } else if (type == "StripAccents") {
    normalizer.add(make_strip_accents());
  } else if (type == "ByteLevel") {
    normalizer.add(make_byte_level_normalizer());
  } else {
    return node.refuse("a normalizer of the type " + in_quotes(type));
  }
  return Status();
}

Status read_pre_tokenizer(const JsonNode& node, PreTokenizer& pre_tokenizer) {
  TENON_ASSIGN_OR_RETURN(const std::string type, node.text_at("type"));
  if (type == "Sequence") {
    return read_sequence(node, "pretokenizers", [&](const JsonNode& item) {
      return read_pre_tokenizer(item, pre_tokenizer);
    });
  }
  if (type == "Split") return read_split(node, pre_tokenizer);
  if (type == "ByteLevel") return read_byte_level(node, pre_tokenizer);
  if (type == "Digits") return read_digits(node, pre_tokenizer);
  if (type == "Punctuation") return read_punctuation(node, pre_tokenizer);
  if (type == "CharDelimiterSplit") return read_delimiter(node, pre_tokenizer);
  if (type == "FixedLength") return read_fixed_length(node, pre_tokenizer);
  if (type == "Metaspace") {
    TENON_ASSIGN_OR_RETURN(MetaspaceOptions options, read_metaspace(node));
    pre_tokenizer.add(
        make_metaspace(std::move(options.replacement), options.scheme, options.split));
  } else if (type == "Whitespace") {
    pre_tokenizer.add(make_whitespace());
  } else if (type == "WhitespaceSplit") {
    add_whitespace_split(pre_tokenizer);
  } else if (type == "BertPreTokenizer") {
    add_whitespace_split(pre_tokenizer);
    pre_tokenizer.add(make_split(Pattern::runes(is_punctuation), SplitBehavior::isolated, false));
  } else {
    return node.refuse("a pre-tokenizer of the type " + in_quotes(type));
  }
  return Status();
}

}  // namespace tenon::tok
