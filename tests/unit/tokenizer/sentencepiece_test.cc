#include "core/tokenizer/models/sentencepiece.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tok::PieceType;
using tok::SentencePieceModel;

// Protocol buffers, as far as a model needs them.
std::string field(uint32_t number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string varint_field(uint32_t number, uint8_t value) {
  const uint32_t key = number << 3;
  if (key < 0x80) return {static_cast<char>(key), static_cast<char>(value)};
  return {static_cast<char>(key | 0x80), static_cast<char>(key >> 7), static_cast<char>(value)};
}
std::string piece(const std::string& text, float score, PieceType type) {
  std::string bits(4, '\0');
  std::memcpy(bits.data(), &score, 4);
  return field(1, field(1, text) + "\x15" + bits + varint_field(3, static_cast<uint8_t>(type)));
}
std::string trainer(uint8_t model_type) {
  return field(2, varint_field(3, model_type));
}

const std::string& pieces() {
  static const std::string all =
      piece("<unk>", 0, PieceType::unknown) + piece("<s>", 0, PieceType::control) +
      piece("</s>", 0, PieceType::control) + piece("a", -1, PieceType::normal);
  return all;
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& model) {
  return Tokenizer::from_sentencepiece(std::as_bytes(std::span(model)), "t.model");
}
std::string refusal(const std::string& model) {
  return std::string(load(model).status().message());
}

TEST(SentencePieceFile, is_read_field_by_field) {
  const auto tokenizer = load(pieces() + trainer(2));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->kind(), "sentencepiece bpe");
  EXPECT_EQ((*tokenizer)->bos(), 1);
  EXPECT_EQ((*tokenizer)->eos(), 2);
  EXPECT_TRUE((*tokenizer)->is_special(0) && (*tokenizer)->is_special(2));
  EXPECT_THAT(ids_of(**tokenizer, "a"), ElementsAre(1, 0, 3));  // no piece for the space
}

TEST(SentencePieceFile, that_is_something_else_is_refused) {
  EXPECT_THAT(refusal(""), HasSubstr("t.model: not a SentencePiece model: it has no pieces"));
  EXPECT_THAT(refusal("{\"model\": 1}"),
              HasSubstr("t.model: not a SentencePiece model, or cut off"));
  EXPECT_THAT(refusal(std::string(20, '\xFF')), HasSubstr("cannot be read"));
}

TEST(SentencePieceFile, of_another_type_is_refused_by_its_name) {
  EXPECT_EQ(refusal(pieces() + trainer(1)),
            "t.model: the SentencePiece model is of the type 'unigram'; only BPE is supported");
  EXPECT_THAT(refusal(pieces()), HasSubstr("'unigram'"));  // what leaving it out means
  EXPECT_THAT(refusal(pieces() + trainer(3)), HasSubstr("'word'"));
}

TEST(SentencePieceFile, with_features_that_are_missing_here_is_refused) {
  EXPECT_THAT(refusal(pieces() + field(2, varint_field(3, 2) + varint_field(24, 1))),
              HasSubstr("treat_whitespace_as_suffix, which is not supported"));
  EXPECT_THAT(refusal(pieces() + trainer(2) + field(5, field(2, "map"))),
              HasSubstr("rules for denormalization, which are not supported"));
}

TEST(SentencePieceFile, that_contradicts_itself_is_refused) {
  EXPECT_THAT(refusal(piece("a", 0, PieceType::normal) + trainer(2)),
              HasSubstr("has 0 pieces for what is unknown; it must have one"));
  EXPECT_THAT(refusal(pieces() + piece("a", 0, PieceType::normal) + trainer(2)),
              HasSubstr("the piece 'a' has both the ids 3 and 4"));
  EXPECT_THAT(refusal(pieces() + piece("", 0, PieceType::normal) + trainer(2)),
              HasSubstr("the piece with id 4 is empty"));
  EXPECT_THAT(refusal(pieces() + field(2, varint_field(3, 2) + varint_field(35, 1))),
              HasSubstr("falls back to bytes, but has 0 byte pieces, not 256"));
  EXPECT_THAT(refusal(pieces() + field(2, varint_field(3, 2) + varint_field(41, 99))),
              HasSubstr("names the token 99"));
  EXPECT_THAT(refusal(pieces() + trainer(2) + field(3, field(2, "ab"))),
              HasSubstr("the precompiled character map is cut off"));
}

SentencePieceModel small_model() {
  SentencePieceModel model;
  const std::string space = "\xE2\x96\x81";
  model.pieces = {{"<unk>", 0, PieceType::unknown},     {"<s>", 0, PieceType::control},
                  {space, -1, PieceType::normal},       {"a", -2, PieceType::normal},
                  {space + "a", -3, PieceType::normal}, {"<t>", 0, PieceType::user_defined}};
  return model;
}

std::vector<TokenId> encoded(const SentencePieceModel& model, std::string_view text) {
  return ids_of(*Tokenizer::from_parts(must(tok::make_sentencepiece(model))), text);
}

TEST(SentencePieceDecoder, writes_unknown_text_as_the_model_says_and_never_skips_it) {
  const auto by_default = must(load(pieces() + trainer(2)));
  const std::vector<TokenId> ids{1, 0, 3, 0};
  EXPECT_EQ(*by_default->decode(ids), " \xE2\x81\x87 a \xE2\x81\x87 ");
  EXPECT_EQ(*by_default->decode(ids, /*skip_special=*/false), "<s> \xE2\x81\x87 a \xE2\x81\x87 ");
  EXPECT_EQ(streamed(*by_default, ids, true), *by_default->decode(ids));
  EXPECT_EQ(by_default->token_bytes(0), " \xE2\x81\x87 ");
  EXPECT_EQ(by_default->piece(0), "<unk>");
  const std::string named("\xE2\x02\x04<\xE2?>", 7);  // field 44, bytes that are no UTF-8
  const auto chosen = must(load(pieces() + field(2, varint_field(3, 2) + named)));
  EXPECT_EQ(*chosen->decode(ids), "<\xE2?>a<\xE2?>");
}

TEST(SentencePieceDecoder, refuses_to_write_unknown_text_as_a_book) {
  SentencePieceModel model = small_model();
  model.unknown_surface = std::string(2000, 'a');
  EXPECT_EQ(std::string(tok::make_sentencepiece(model).status().message()),
            "unknown text is written as 2000 bytes: at most 1024 are supported");
}

TEST(SentencePieceNormalizer, puts_a_space_in_front_and_removes_extra_ones) {
  EXPECT_THAT(encoded(small_model(), "  a   a  "), ElementsAre(4, 4));
  EXPECT_THAT(encoded(small_model(), "   "), ElementsAre());
}

TEST(SentencePieceNormalizer, keeps_spaces_when_told_to) {
  SentencePieceModel model = small_model();
  model.remove_extra_whitespaces = false;
  EXPECT_THAT(encoded(model, "a  a "), ElementsAre(4, 2, 4, 2));
  model.add_dummy_prefix = false;
  EXPECT_THAT(encoded(model, "a  a "), ElementsAre(3, 2, 4, 2));
  model.escape_whitespaces = false;
  EXPECT_THAT(encoded(model, "a a"), ElementsAre(3, 0, 3));
}

TEST(SentencePieceNormalizer, starts_each_text_behind_a_special_token_with_a_space) {
  EXPECT_THAT(encoded(small_model(), "a<s>a"), ElementsAre(4, 1, 4));
}

TEST(SentencePieceNormalizer, never_merges_user_defined_symbols) {
  EXPECT_THAT(encoded(small_model(), "a<t>a"), ElementsAre(4, 5, 3));
}

TEST(SentencePieceNormalizer, survives_a_character_map_that_points_nowhere) {
  SentencePieceModel model = small_model();
  for (int byte = 0; byte < 256; ++byte) {
    model.charsmap = std::string("\x08\0\0\0", 4) + std::string(8, static_cast<char>(byte)) + "x";
    EXPECT_TRUE(tok::make_sentencepiece(model).ok());
    encoded(model, "aaaa a");
  }
}

}  // namespace
}  // namespace tenon
