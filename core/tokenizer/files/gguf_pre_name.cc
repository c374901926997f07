#include "core/tokenizer/files/gguf_pre_name.h"

#include <algorithm>
#include <vector>

#include "core/base/quote.h"
#include "core/tokenizer/files/gguf_patterns.h"

namespace tenon::tok {
namespace {

constexpr std::string_view kFormNfc = "NFC";

// A failure's message says what else the tokenizer does.
using Patterns = Result<std::vector<std::string>>;

Status does(std::string what) {
  return unsupported(std::move(what));
}

// With "Removed" and "invert", what lies between matches is dropped; these patterns end in "any
// other spaces" and leave nothing between.
bool isolates(const std::string& regex, const std::string& behavior, bool inverted) {
  if (behavior == "Isolated") return !inverted;
  return behavior == "Removed" && inverted && regex.ends_with("|\\s+");
}

Patterns patterns_of_split(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const JsonNode pattern, node.at("pattern"));
  TENON_ASSIGN_OR_RETURN(const std::string behavior, node.text_at("behavior"));
  TENON_ASSIGN_OR_RETURN(const bool inverted, node.boolean_or("invert", false));
  const auto regex = pattern.find("Regex");
  if (!regex) return does("splits text at a fixed string");
  TENON_ASSIGN_OR_RETURN(std::string text, regex->text());
  if (!isolates(text, behavior, inverted)) {
    return does("does not keep apart what it splits off (" + behavior + ")");
  }
  return std::vector<std::string>{std::move(text)};
}

Patterns patterns_of_byte_level(const JsonNode& node) {
  TENON_ASSIGN_OR_RETURN(const bool prefix, node.boolean_or("add_prefix_space", false));
  TENON_ASSIGN_OR_RETURN(const bool splits, node.boolean_or("use_regex", true));
  if (prefix) return does("prepends a space to each text");
  std::vector<std::string> patterns;
  if (splits) patterns.emplace_back(gpt2_pattern());
  return patterns;
}

Patterns patterns_of(const JsonNode& node);

Patterns patterns_of_all(const JsonNode& items) {
  TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, items.list());
  std::vector<std::string> patterns;
  for (const JsonNode& item : list) {
    TENON_ASSIGN_OR_RETURN(const std::vector<std::string> inner, patterns_of(item));
    patterns.insert(patterns.end(), inner.begin(), inner.end());
  }
  return patterns;
}

// The patterns that a pre-tokenizer splits at in turn, before bytes are mapped.
Patterns patterns_of(const JsonNode& node) {
  if (const auto items = node.find("pretokenizers")) return patterns_of_all(*items);
  TENON_ASSIGN_OR_RETURN(const std::string type, node.text_at("type"));
  if (type == "Split") return patterns_of_split(node);
  if (type == "ByteLevel") return patterns_of_byte_level(node);
  if (type == "Digits") {
    TENON_ASSIGN_OR_RETURN(const bool single, node.boolean_at("individual_digits"));
    return std::vector<std::string>{single ? "\\p{N}" : "\\p{N}+"};
  }
  return does("splits text by " + in_quotes(type));
}

// The types of the steps of a normalizer.
Status add_steps(const JsonNode& node, std::vector<std::string>& steps) {
  if (const auto items = node.find("normalizers")) {
    TENON_ASSIGN_OR_RETURN(const std::vector<JsonNode> list, items->list());
    for (const JsonNode& item : list) TENON_RETURN_IF_ERROR(add_steps(item, steps));
    return {};
  }
  TENON_ASSIGN_OR_RETURN(steps.emplace_back(), node.text_at("type"));
  return {};
}

// Whether each piece is what merging makes of its own text: then it is no matter whether words
// that are pieces are looked up first. Added tokens are found in text before words are.
bool merges_reach_every_piece(const TokenizerJson& file, const TokenizerParts& parts) {
  const auto merging = Bpe::from_merges(parts.vocabulary, *file.merges, {});
  std::vector<TokenId> ids;
  return merging.ok() && std::ranges::all_of(*file.vocab, [&](const Vocabulary::Entry& entry) {
           ids.clear();
           const bool encoded = merging->encode(entry.piece, ids).ok();
           return parts.added.find(entry.piece) != nullptr ||
                  (encoded && ids.size() == 1 && ids.front() == entry.id);
         });
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : std::string(between)) + text;
  return all;
}

Result<PreName> name_of(const TokenizerJson& file, const TokenizerParts& parts) {
  const JsonNode root(file.document, "");
  TENON_ASSIGN_OR_RETURN(const JsonNode model, root.at("model"));
  TENON_ASSIGN_OR_RETURN(const bool whole_words, model.boolean_or("ignore_merges", false));
  std::vector<std::string> steps;
  if (const auto normalizer = root.find("normalizer")) {
    TENON_RETURN_IF_ERROR(add_steps(*normalizer, steps));
  }
  const bool composes = !steps.empty();
  if (std::ranges::any_of(steps, [](const std::string& step) { return step != kFormNfc; })) {
    return does("changes text before it is split (" + joined(steps, ", ") + ")");
  }
  const auto splits = root.find("pre_tokenizer");
  if (!splits) return does("does not split text into words");
  TENON_ASSIGN_OR_RETURN(const std::vector<std::string> patterns, patterns_of(*splits));
  const SplitRule* rule = find_split_rule(patterns, whole_words);
  const SplitRule* other = find_split_rule(patterns, !whole_words);
  if (rule == nullptr && other == nullptr) {
    return does("splits text at " + in_quotes(joined(patterns, " and then at ")));
  }
  if (rule == nullptr && !merges_reach_every_piece(file, parts)) {
    return does(std::string(whole_words ? "looks words up before it merges"
                                        : "merges words without looking them up first") +
                ", which " + in_quotes(other->names.front()) + " does not");
  }
  return PreName{std::string((rule != nullptr ? rule : other)->names.front()),
                 composes ? "brings text into the normal form NFC first" : ""};
}

}  // namespace

PreName pre_name(const TokenizerJson& file, const TokenizerParts& parts) {
  Result<PreName> found = name_of(file, parts);
  if (found.ok()) return *std::move(found);
  return {std::string(kNoPreName), std::string(found.status().message())};
}

}  // namespace tenon::tok
