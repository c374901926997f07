// Tokenizers in the manner of well-known families against what the reference libraries say.
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tokenizer_ = fixture(GetParam());
    const std::string stem = GetParam().substr(0, GetParam().find('.'));
    cases_ = nlohmann::json::parse(read_file(data_path(stem + ".cases.json")));
    ASSERT_GT(cases_.size(), 30u);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  nlohmann::json cases_;
};

TEST_P(Golden, gives_the_library_s_ids) {
  for (const auto& golden : cases_) {
    if (!golden.contains("ids")) continue;
    const auto text = golden["text"].get<std::string>();
    EXPECT_EQ(ids_of(*tokenizer_, text), golden["ids"].get<std::vector<TokenId>>()) << text;
  }
}

TEST_P(Golden, gives_the_library_s_ids_where_special_tokens_are_plain_text) {
  for (const auto& golden : cases_) {
    const auto text = golden["text"].get<std::string>();
    const EncodeOptions plain{.add_special = false, .parse_special = false};
    EXPECT_EQ(ids_of(*tokenizer_, text, plain), golden["plain"].get<std::vector<TokenId>>())
        << text;
  }
}

TEST_P(Golden, gives_the_library_s_text) {
  size_t compared = 0;
  for (const auto& golden : cases_) {
    const bool has_ids = golden.contains("ids");
    const auto ids = golden[has_ids ? "ids" : "plain"].get<std::vector<TokenId>>();
    const auto expect = [&](const char* key, bool skip_special) {
      if (!golden.contains(key) || golden[key].is_null()) return;
      EXPECT_EQ(*tokenizer_->decode(ids, skip_special), golden[key].get<std::string>());
      ++compared;
    };
    expect("decoded", /*skip_special=*/!has_ids);
    expect("skipped", /*skip_special=*/true);
  }
  EXPECT_GT(compared, 10u);
}

TEST_P(Golden, streams_what_it_decodes) {
  for (const auto& golden : cases_) {
    const auto ids = golden["plain"].get<std::vector<TokenId>>();
    for (const bool skip_special : {false, true}) {
      EXPECT_EQ(streamed(*tokenizer_, ids, skip_special), *tokenizer_->decode(ids, skip_special));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(fixture_files()),
                         [](const auto& file) {
                           return file.param.substr(0, file.param.find('.'));
                         });

}  // namespace
}  // namespace tenon
