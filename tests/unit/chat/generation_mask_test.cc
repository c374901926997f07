// Which tokens a model wrote.
#include "core/chat/generation_mask.h"

#include <gmock/gmock.h>

#include "core/tokenizer/tokenizer.h"
#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "ab" is one token; the normalizer may be anything.
std::unique_ptr<Tokenizer> small_tokenizer(const std::string& normalizer) {
  return must(Tokenizer::from_json(
      R"({"version": "1.0",
          "added_tokens": [{"id": 20, "content": "<s>", "special": true, "normalized": false}],
          "normalizer": )" +
          normalizer + R"(,
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "B": 4},
                    "merges": ["a b"]}, "decoder": {"type": "Fuse"}})",
      "small.json"));
}

Result<std::vector<uint8_t>> mask_of(const Tokenizer& tokenizer, std::string_view source) {
  const RenderedChat chat = must(rendered(source, user_says("hi")));
  return generation_mask(tokenizer, chat, must(encode_chat(tokenizer, chat)));
}

TEST(GenerationMask, marks_the_tokens_of_every_generation) {
  const auto tokenizer = small_tokenizer("null");
  EXPECT_THAT(must(mask_of(*tokenizer, "<s>c{% generation %}ab<s>{% endgeneration %}c")),
              ElementsAre(0, 0, 1, 1, 0));
  EXPECT_THAT(must(mask_of(*tokenizer,
                           "{% generation %}c{% endgeneration %}b"
                           "{% generation %}a{% endgeneration %}")),
              ElementsAre(1, 0, 1));
}

TEST(GenerationMask, a_token_that_reaches_into_a_generation_belongs_to_it) {
  const auto tokenizer = small_tokenizer("null");
  EXPECT_THAT(must(mask_of(*tokenizer, "a{% generation %}b{% endgeneration %}c")),
              ElementsAre(1, 0));
}

TEST(GenerationMask, is_empty_where_nothing_was_generated) {
  const auto tokenizer = small_tokenizer("null");
  EXPECT_THAT(must(mask_of(*tokenizer, "ab{% generation %}{% endgeneration %}c")),
              ElementsAre(0, 0));
}

TEST(GenerationMask, a_tokenizer_that_changes_the_text_has_none) {
  const auto tokenizer = small_tokenizer(R"({"type": "Lowercase"})");
  const auto mask = mask_of(*tokenizer, "B{% generation %}b{% endgeneration %}");
  ASSERT_FALSE(mask.ok());
  EXPECT_THAT(std::string(mask.status().message()), HasSubstr("there is no mask"));
}

}  // namespace
}  // namespace tenon
