// A tokenizer from a GGUF file is refused, or encodes and decodes without harm.
#include <cstdint>
#include <cstdlib>

#include "core/files/gguf.h"
#include "core/tokenizer/files/gguf_tokenizer.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(gguf_tokenizer, const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = tenon::GgufFile::parse(bytes);
  if (!file.ok()) return 0;
  auto parts = tenon::tok::read_gguf_tokenizer(*file);
  if (!parts.ok()) return 0;
  const auto tokenizer = tenon::Tokenizer::from_parts(*std::move(parts));
  const auto ids = tokenizer->encode("Hello <s> w\xc3\xb6rld 123\n\xff");
  if (!ids.ok()) return 0;
  for (const tenon::TokenId id : *ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= tokenizer->vocab_size()) std::abort();
  }
  if (!tokenizer->decode(*ids).ok()) std::abort();
  return 0;
}
