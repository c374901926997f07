#include <utility>

#include "core/base/utf8.h"
#include "core/tokenizer/parts.h"
#include "core/tokenizer/stages/decoder.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer),
      skip_special_(skip_special),
      run_(std::make_unique<tok::DecodeRun>(tokenizer.parts_->decoder)) {}

StreamingDetokenizer::StreamingDetokenizer(StreamingDetokenizer&&) noexcept = default;
StreamingDetokenizer& StreamingDetokenizer::operator=(StreamingDetokenizer&&) noexcept = default;
StreamingDetokenizer::~StreamingDetokenizer() = default;

std::string StreamingDetokenizer::push(TokenId id) {
  std::string text = std::exchange(waiting_, {});
  tokenizer_->decode_next(*run_, id, skip_special_, text);
  const size_t certain = text.size() - incomplete_tail(text);
  waiting_ = text.substr(certain);
  text.resize(certain);
  return text;
}

std::string StreamingDetokenizer::finish() {
  return std::exchange(waiting_, {});
}

}  // namespace tenon
