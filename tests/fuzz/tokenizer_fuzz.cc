// A tokenizer file, whatever it says, is refused or makes a tokenizer that keeps its promises: ids
// inside of the vocabulary, and the same text decoded at once and token by token.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

namespace {

using tenon::EncodeOptions;
using tenon::StreamingDetokenizer;
using tenon::TokenId;
using tenon::Tokenizer;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_decoding(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  const auto text = tokenizer.decode(ids, skip);
  require(text.ok());
  StreamingDetokenizer stream(tokenizer, skip);
  std::string streamed;
  for (const TokenId id : ids) streamed += stream.push(id);
  require(streamed + stream.finish() == *text);
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool is_special : {true, false}) {
    const EncodeOptions options{.add_special = is_special, .parse_special = is_special};
    const auto ids = tokenizer.encode(text, options);
    if (!ids.ok()) continue;
    for (const TokenId id : *ids) {
      require(id >= 0 && static_cast<uint32_t>(id) < tokenizer.vocab_size());
    }
    check_decoding(tokenizer, *ids, is_special);
  }
}

}  // namespace

TENON_FUZZ_TARGET(tokenizer, const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto tokenizer =
      file.starts_with('{')
          ? Tokenizer::from_json(file, "fuzz.json")
          : Tokenizer::from_sentencepiece(std::as_bytes(std::span(data, size)), "fuzz.model");
  if (!tokenizer.ok()) return 0;
  check_text(**tokenizer, "The  fox's caf\xC3\xA9 <s>\n\t12\xF0\x9F\xA6\x8A\xFF");
  // The end of the file serves as text, so that mutations reach it as well.
  check_text(**tokenizer, file.substr(size - std::min<size_t>(size, 64)));
  (*tokenizer)->token_bytes(0);
  (*tokenizer)->piece((*tokenizer)->bos().value_or(1));
  return 0;
}
