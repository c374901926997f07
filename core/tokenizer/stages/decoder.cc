#include "core/tokenizer/stages/decoder.h"

#include <algorithm>
#include <utility>

#include "core/base/digest/hex.h"
#include "core/tokenizer/models/byte_level.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

class ByteLevelDecoder final : public DecodeStep {
 public:
  Status apply(TokenText& token, Allowance& /*allowance*/) const override {
    std::string bytes;
    if (!token.is_verbatim && append_byte_level_decoded(bytes, token.text)) {
      token.text = std::move(bytes);
    }
    return Status();
  }
};

class ByteFallback final : public DecodeStep {
 public:
  Status apply(TokenText& token, Allowance& /*allowance*/) const override {
    const std::string& text = token.text;
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return Status();
    const int high = hex_digit(text[3]);
    const int low = hex_digit(text[4]);
    if (high >= 0 && low >= 0) token.text = std::string(1, static_cast<char>(high * 16 + low));
    return Status();
  }
};

class ReplaceDecoder final : public DecodeStep {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  Status apply(TokenText& token, Allowance& allowance) const override {
    std::vector<Span> matches;
    TENON_RETURN_IF_ERROR(pattern_.find_all(token.text, allowance, matches));
    TENON_ASSIGN_OR_RETURN(token.text, substituted(token.text, matches, content_, allowance));
    return Status();
  }
  bool can_fail() const override { return content_.size() > pattern_.text().size(); }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripDecoder final : public DecodeStep {
 public:
  StripDecoder(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  Status apply(TokenText& token, Allowance& /*allowance*/) const override {
    std::string_view kept = token.text;
    for (size_t i = 0; i < start_ && kept.starts_with(content_); ++i) {
      kept.remove_prefix(content_.size());
    }
    for (size_t i = 0; i < stop_ && kept.ends_with(content_); ++i) {
      kept.remove_suffix(content_.size());
    }
    token.text = std::string(kept);
    return Status();
  }

 private:
  std::string content_;
  size_t start_;
  size_t stop_;
};

class MetaspaceDecoder final : public DecodeStep {
 public:
  MetaspaceDecoder(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_first_(drops_first) {}

  Status apply(TokenText& token, Allowance& allowance) const override {
    std::vector<Span> matches;
    find_literal(replacement_, token.text, matches);
    const std::string_view content = drops_first_ && token.is_first ? "" : " ";
    TENON_ASSIGN_OR_RETURN(token.text, substituted(token.text, matches, content, allowance));
    return Status();
  }

 private:
  std::string replacement_;
  bool drops_first_;
};

}  // namespace

DecodeStepPtr make_byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>();
}
DecodeStepPtr make_byte_fallback() {
  return std::make_unique<ByteFallback>();
}
DecodeStepPtr make_replace_decoder(Pattern pattern, std::string content) {
  return std::make_unique<ReplaceDecoder>(std::move(pattern), std::move(content));
}
DecodeStepPtr make_strip_decoder(std::string content, size_t start, size_t stop) {
  return std::make_unique<StripDecoder>(std::move(content), start, stop);
}
DecodeStepPtr make_metaspace_decoder(std::string replacement, bool drops_first) {
  return std::make_unique<MetaspaceDecoder>(std::move(replacement), drops_first);
}

bool Decoder::can_fail() const {
  return std::any_of(stages.begin(), stages.end(),
                     [](const Stage& stage) { return stage.step->can_fail(); });
}

Status Decoder::apply(TokenText& token) const {
  if (token.is_final) return Status();
  Allowance allowance(token.text.size(), kTokenLimits);
  for (const Stage& stage : stages) {
    const Status status = stage.step->apply(token, allowance);
    if (!status.ok()) return with_context(stage.name, status);
  }
  return Status();
}

DecodeRun::DecodeRun(const Decoder& decoder)
    : decoder_(&decoder),
      awaits_leading_(decoder.leading != Decoder::Leading::keep),
      may_strip_(decoder.strip_start) {}

void DecodeRun::push(TokenText token, std::string& out) {
  token.is_first = std::exchange(is_first_, false);
  if (awaits_leading_ && !token.is_final && token.text.starts_with(kMetaspace)) {
    token.text.erase(0, kMetaspace.size());
    awaits_leading_ = decoder_->leading == Decoder::Leading::drop_until_text;
  }
  // What fails was refused when the tokenizer was loaded.
  (void)decoder_->apply(token).ok();
  if (!token.text.empty()) awaits_leading_ = false;
  if (!token.is_first) append(decoder_->separator, out);
  append(token.text, out);
}

void DecodeRun::append(std::string_view text, std::string& out) {
  while (may_strip_ > 0 && text.starts_with(decoder_->strip)) {
    text.remove_prefix(1);
    --may_strip_;
  }
  if (text.empty()) return;
  may_strip_ = 0;
  if (decoder_->strip_stop == 0) {
    out += text;
    return;
  }
  const size_t end = text.find_last_not_of(decoder_->strip);
  const size_t kept = end == std::string_view::npos ? 0 : end + 1;
  // Other characters settle the fate of what was held; a longer run releases its front.
  const size_t run = text.size() - kept + (kept == 0 ? held_ : 0);
  const size_t now_held = std::min(run, decoder_->strip_stop);
  if (kept > 0) out.append(held_, decoder_->strip);
  out += text.substr(0, kept);
  out.append(run - now_held, decoder_->strip);
  held_ = now_held;
}

}  // namespace tenon::tok
