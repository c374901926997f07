#include "core/tokenizer/stages/normalizer.h"

#include <algorithm>

#include "core/tokenizer/models/byte_level.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

class Prepend final : public NormalizeStep {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  Status apply(NormalizedText& text, Allowance& allowance) const override {
    if (text.text.empty()) return Status();
    TENON_RETURN_IF_ERROR(allowance.check_bytes(text_.size() + text.text.size()));
    text.text.insert(0, text_);
    return Status();
  }

 private:
  std::string text_;
};

class Replace final : public NormalizeStep {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  Status apply(NormalizedText& text, Allowance& allowance) const override {
    std::vector<Span> matches;
    TENON_RETURN_IF_ERROR(pattern_.find_all(text.text, allowance, matches));
    if (matches.empty()) return Status();
    note_front(text, matches[0]);
    TENON_ASSIGN_OR_RETURN(text.text, substituted(text.text, matches, content_, allowance));
    return Status();
  }

 private:
  // One character exchanged for others keeps its place; more than one, or one removed, do not.
  void note_front(NormalizedText& text, Span first) const {
    if (first.begin != 0 || first.end == 0) return;
    if (content_.empty() || first.end > rune_bytes(text.text[0])) text.keeps_front = false;
  }

  Pattern pattern_;
  std::string content_;
};

class ToNormalForm final : public NormalizeStep {
 public:
  explicit ToNormalForm(NormalForm form) : form_(form) {}
  Status apply(NormalizedText& text, Allowance& /*allowance*/) const override {
    text.text = to_normal_form(text.text, form_);
    return Status();
  }

 private:
  NormalForm form_;
};

class Lowercase final : public NormalizeStep {
 public:
  Status apply(NormalizedText& text, Allowance& /*allowance*/) const override {
    text.text = to_lower(text.text);
    return Status();
  }
};

class Strip final : public NormalizeStep {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Status apply(NormalizedText& text, Allowance& /*allowance*/) const override {
    std::string_view kept = text.text;
    while (left_ && !kept.empty() && is_space(first_rune(kept).code)) {
      kept.remove_prefix(first_rune(kept).bytes);
      text.keeps_front = false;
    }
    while (right_ && !kept.empty() && is_space(last_rune(kept).code)) {
      kept.remove_suffix(last_rune(kept).bytes);
    }
    text.text = std::string(kept);
    return Status();
  }

 private:
  bool left_;
  bool right_;
};

class StripAccents final : public NormalizeStep {
 public:
  Status apply(NormalizedText& text, Allowance& /*allowance*/) const override {
    std::string out;
    out.reserve(text.text.size());
    for (size_t at = 0; at < text.text.size();) {
      const Rune rune = first_rune(std::string_view(text.text).substr(at));
      if (!is_mark(rune.code)) {
        out.append(text.text, at, rune.bytes);
      } else if (at == 0) {
        text.keeps_front = false;
      }
      at += rune.bytes;
    }
    text.text = std::move(out);
    return Status();
  }
};

class ByteLevelNormalizer final : public NormalizeStep {
 public:
  Status apply(NormalizedText& text, Allowance& /*allowance*/) const override {
    std::string out;
    append_byte_level(out, text.text);
    text.text = std::move(out);
    return Status();
  }
  bool maps_bytes() const override { return true; }
};

}  // namespace

NormalizeStepPtr make_prepend(std::string text) {
  return std::make_unique<Prepend>(std::move(text));
}
NormalizeStepPtr make_replace(Pattern pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}
NormalizeStepPtr make_normal_form(NormalForm form) {
  return std::make_unique<ToNormalForm>(form);
}
NormalizeStepPtr make_lowercase() {
  return std::make_unique<Lowercase>();
}
NormalizeStepPtr make_strip(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}
NormalizeStepPtr make_strip_accents() {
  return std::make_unique<StripAccents>();
}
NormalizeStepPtr make_byte_level_normalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}

Result<NormalizedText> Normalizer::apply(std::string_view text, Allowance& allowance) const {
  NormalizedText out{std::string(text)};
  for (const Stage& stage : stages_) {
    const Status status = apply(stage, out, allowance);
    if (!status.ok()) return with_context(stage.name, status);
  }
  return out;
}

Status Normalizer::apply(const Stage& stage, NormalizedText& text, Allowance& allowance) const {
  TENON_RETURN_IF_ERROR(stage.step->apply(text, allowance));
  return allowance.take_bytes(text.text.size());
}

bool Normalizer::maps_bytes() const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const Stage& stage) { return stage.step->maps_bytes(); });
}

}  // namespace tenon::tok
