// Tokenizers from strangers' files, and texts from strangers.
#include "core/tokenizer/tokenizer.h"
#include "tests/growth/cases.h"

namespace tenon::growth {
namespace {

const std::string kPieces = R"("a":0,"b":1,"c":2," ":3,"ab":4,"abc":5,"?":6)";

std::string tokenizer_json(const std::string& vocabulary, const std::string& merges,
                           const std::string& more = "") {
  return R"({"version":"1.0","added_tokens":[],)" + more +
         R"("model":{"type":"BPE","unk_token":"?","vocab":{)" + vocabulary + R"(},"merges":[)" +
         merges + R"(]},"decoder":{"type":"Fuse"}})";
}

TEST(Growth, of_a_tokenizer_file_is_in_proportion) {
  const std::string tail = R"(],"model":{"type":"BPE","vocab":{)" + kPieces +
                           R"(},"merges":[]},"decoder":{"type":"Fuse"}})";
  const std::string added =
      R"({"id":@,"content":"<s@>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false})";
  expect_proportional(
      {
          {"pieces", 500, R"({"model":{"type":"BPE","vocab":{)", R"("p@":@)", ",",
           R"(},"merges":[]},"decoder":{"type":"Fuse"}})"},
          {"merges", 300, R"({"model":{"type":"BPE","vocab":{)" + kPieces + R"(},"merges":[)",
           R"("a b")", ",", R"(]},"decoder":{"type":"Fuse"}})"},
          {"added tokens", 300, R"({"added_tokens":[)", added, ",", tail},
          {"members", 500, "{", R"("m@":@)", ",", "}"},
          {"stages", 30, R"({"normalizer":{"type":"Sequence","normalizers":[)", R"({"type":"NFC"})",
           ",", R"(]},"added_tokens":[)" + tail},
      },
      [](const std::string& text) { (void)Tokenizer::from_json(text, "t.json"); });
}

std::string varint(size_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
// A piece of a SentencePiece model: its text, and a score of -1.
std::string piece(const std::string& text) {
  const std::string inner =
      "\x0a" + varint(text.size()) + text + std::string("\x15\0\0\x80\xbf", 5);
  return "\x0a" + varint(inner.size()) + inner;
}

TEST(Growth, of_a_sentencepiece_file_is_in_proportion) {
  const auto pieces = [](size_t size) {
    std::string model = "\x0a\x07\x0a\x05<unk>";
    for (size_t i = 0; i < size; ++i) model += piece("p" + std::to_string(i));
    return model;
  };
  const auto long_pieces = [](size_t size) { return piece(std::string(size, 'a')) + piece("a"); };
  const Reading read = [](const std::string& model) {
    (void)Tokenizer::from_sentencepiece(std::as_bytes(std::span(model)), "t.model");
  };
  EXPECT_EQ(growth_fault(300, pieces, read), "");
  EXPECT_EQ(growth_fault(1000, long_pieces, read), "");
}

// Each of them has another way through a text.
std::vector<std::string> tokenizers() {
  const std::string merges = R"("a b","ab c")";
  const std::string special =
      R"("added_tokens":[{"id":7,"content":"<s>","special":true,"single_word":false,"lstrip":true,"rstrip":true,"normalized":false}],)";
  return {
      tokenizer_json(kPieces, merges),
      tokenizer_json(kPieces, merges, R"("normalizer":{"type":"NFC"},)"),
      tokenizer_json(
          kPieces, merges,
          R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|\\s+|[^\\s]+"},)"
          R"("behavior":"Isolated","invert":false},)"),
      tokenizer_json(kPieces, merges,
                     R"("normalizer":{"type":"Replace","pattern":{"String":" "},"content":"ab"},)"),
      R"({)" + special + R"("model":{"type":"BPE","unk_token":"?","vocab":{)" + kPieces +
          R"(},"merges":["a b","ab c"]},"decoder":{"type":"Fuse"}})",
  };
}

TEST(Growth, of_a_text_that_is_encoded_is_in_proportion) {
  const std::vector<Case> texts = {
      {"one letter", 1000, "", "a", "", ""},
      {"words", 500, "", "abc ab ", "", ""},
      {"one long word", 500, "", "abcab", "", ""},
      {"blanks", 1000, "", " ", "", ""},
      {"unknown letters", 1000, "", "z", "", ""},
      {"bytes that are no text", 500, "", "\xff", "", ""},
      {"special tokens", 300, "", "<s>", "", ""},
      {"beginnings of special tokens", 500, "", "<s", "", ""},
      {"marks that combine", 300, "a", "\xcc\x81", "", ""},
  };
  for (const std::string& file : tokenizers()) {
    const auto tokenizer = Tokenizer::from_json(file, "t.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message() << file;
    expect_proportional(texts, [&](const std::string& text) {
      const auto ids = (*tokenizer)->encode(text);
      if (ids.ok()) (void)(*tokenizer)->decode(*ids);
    });
  }
}

}  // namespace
}  // namespace tenon::growth
