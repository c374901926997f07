#include "core/tokenizer/stages/pre_tokenizer.h"

#include <algorithm>

#include "core/tokenizer/models/byte_level.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Replaces every word by its parts, which `part_of(text, parts)` appends as spans of the word.
template <typename Parts>
Status refine(Pieces& pieces, Parts part_of) {
  std::vector<Piece> refined;
  refined.reserve(pieces.pieces.size());
  std::vector<Span> parts;
  for (const Piece& piece : pieces.pieces) {
    parts.clear();
    TENON_RETURN_IF_ERROR(part_of(pieces.view(piece), parts));
    for (const Span part : parts) {
      refined.push_back({piece.begin + part.begin, piece.begin + part.end,
                         piece.starts_input && part.begin == 0});
    }
  }
  pieces.pieces = std::move(refined);
  return Status();
}

// Rewrites every word: `append(piece, out)` appends what the word becomes.
template <typename Append>
void rewrite(Pieces& pieces, Append append) {
  std::string out;
  out.reserve(pieces.text.size() + pieces.text.size() / 4);
  for (Piece& piece : pieces.pieces) {
    const size_t begin = out.size();
    append(piece, out);
    piece.begin = begin;
    piece.end = out.size();
  }
  pieces.text = std::move(out);
}

class Split final : public PreTokenStep {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  Status apply(Pieces& pieces, Allowance& allowance) const override {
    std::vector<Span> matches;
    return refine(pieces, [&](std::string_view word, std::vector<Span>& parts) {
      matches.clear();
      TENON_RETURN_IF_ERROR(pattern_.find_all(word, allowance, matches));
      split_at(matches, word.size(), behavior_, invert_, parts);
      return Status();
    });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel final : public PreTokenStep {
 public:
  ByteLevel(bool add_prefix_space, PreTokenStepPtr words)
      : add_prefix_space_(add_prefix_space), words_(std::move(words)) {}

  Status apply(Pieces& pieces, Allowance& allowance) const override {
    if (add_prefix_space_) {
      rewrite(pieces, [&pieces](const Piece& piece, std::string& out) {
        if (!pieces.view(piece).starts_with(' ')) out.push_back(' ');
        out += pieces.view(piece);
      });
    }
    if (words_) TENON_RETURN_IF_ERROR(words_->apply(pieces, allowance));
    rewrite(pieces, [&pieces](const Piece& piece, std::string& out) {
      append_byte_level(out, pieces.view(piece));
    });
    return Status();
  }
  bool maps_bytes() const override { return true; }

 private:
  bool add_prefix_space_;
  PreTokenStepPtr words_;  // GPT-2's expression; null when the words are cut already
};

class Metaspace final : public PreTokenStep {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  Status apply(Pieces& pieces, Allowance& /*allowance*/) const override {
    rewrite(pieces, [&](const Piece& piece, std::string& out) {
      const std::string_view word = pieces.view(piece);
      const bool is_wanted = scheme_ == PrependScheme::always ||
                             (scheme_ == PrependScheme::first && piece.starts_input);
      if (is_wanted && !word.starts_with(replacement_) && !word.starts_with(' ')) {
        out += replacement_;
      }
      for (const char c : word) {
        if (c == ' ') {
          out += replacement_;
        } else {
          out.push_back(c);
        }
      }
    });
    if (!split_) return Status();
    return refine(pieces, [&](std::string_view word, std::vector<Span>& parts) {
      size_t begin = 0;
      for (size_t at = word.find(replacement_, 1); at != std::string_view::npos;
           at = word.find(replacement_, at + replacement_.size())) {
        parts.push_back({begin, at});
        begin = at;
      }
      parts.push_back({begin, word.size()});
      return Status();
    });
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

// Runs of word characters and runs of other characters; whitespace between them is dropped.
class Whitespace final : public PreTokenStep {
 public:
  Status apply(Pieces& pieces, Allowance& /*allowance*/) const override {
    return refine(pieces, [](std::string_view text, std::vector<Span>& parts) {
      enum class Kind { none, word, other };
      Kind previous = Kind::none;
      for (size_t at = 0; at < text.size();) {
        const Rune rune = first_rune(text.substr(at));
        const Kind kind = is_word(rune.code)    ? Kind::word
                          : is_space(rune.code) ? Kind::none
                                                : Kind::other;
        if (kind != Kind::none && kind == previous) {
          parts.back().end = at + rune.bytes;
        } else if (kind != Kind::none) {
          parts.push_back({at, at + rune.bytes});
        }
        previous = kind;
        at += rune.bytes;
      }
      return Status();
    });
  }
};

class FixedLength final : public PreTokenStep {
 public:
  explicit FixedLength(size_t characters) : characters_(characters) {}
  Status apply(Pieces& pieces, Allowance& /*allowance*/) const override {
    return refine(pieces, [this](std::string_view word, std::vector<Span>& parts) {
      size_t count = 0;
      for (size_t at = 0; at < word.size(); ++count) {
        const size_t end = at + rune_bytes(word[at]);
        if (count % characters_ == 0) {
          parts.push_back({at, end});
        } else {
          parts.back().end = end;
        }
        at = end;
      }
      return Status();
    });
  }

 private:
  size_t characters_;
};

}  // namespace

PreTokenStepPtr make_split(Pattern pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

Result<PreTokenStepPtr> make_byte_level(bool add_prefix_space, bool use_regex) {
  PreTokenStepPtr words;
  if (use_regex) {
    TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::regex(kGpt2Words));
    words = make_split(std::move(pattern), SplitBehavior::isolated, false);
  }
  return PreTokenStepPtr(std::make_unique<ByteLevel>(add_prefix_space, std::move(words)));
}

PreTokenStepPtr make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

PreTokenStepPtr make_whitespace() {
  return std::make_unique<Whitespace>();
}

PreTokenStepPtr make_fixed_length(size_t characters) {
  return std::make_unique<FixedLength>(characters);
}

Result<Pieces> PreTokenizer::apply(std::string text, bool starts_input,
                                   Allowance& allowance) const {
  Pieces out{std::move(text), {}};
  if (!out.text.empty()) out.pieces.push_back({0, out.text.size(), starts_input});
  for (const Stage& stage : stages_) {
    const Status status = apply(stage, out, allowance);
    if (!status.ok()) return with_context(stage.name, status);
  }
  return out;
}

Status PreTokenizer::apply(const Stage& stage, Pieces& pieces, Allowance& allowance) const {
  TENON_RETURN_IF_ERROR(stage.step->apply(pieces, allowance));
  return allowance.take_bytes(pieces.text.size());
}

bool PreTokenizer::maps_bytes() const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const Stage& stage) { return stage.step->maps_bytes(); });
}

}  // namespace tenon::tok
