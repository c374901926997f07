#include "core/request/parameters.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "core/request/sampling_keys.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

std::string page(const std::string& name) {
  std::ifstream file(source_folder() + "/docs/formats/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Parameters, have_the_defaults_of_a_request_that_says_nothing) {
  for (const SamplingKey& key : sampling_keys()) {
    EXPECT_EQ(parameter(key.name).otherwise, sampling_text(key, SamplingParams())) << key.name;
  }
}

TEST(Parameters, of_sampling_have_the_type_of_their_member) {
  for (const SamplingKey& key : sampling_keys()) {
    SamplingParams params;
    key.set(params, 0.75);
    EXPECT_EQ(parameter(key.name).number.whole, key.get(params) != 0.75) << key.name;
  }
}

TEST(Parameters, are_named_once_and_found_by_name) {
  for (const Parameter& known : parameters()) {
    EXPECT_EQ(find_parameter(known.name), &known);
    EXPECT_EQ(option_of(known).find('_'), std::string::npos);
    EXPECT_FALSE(known.sentence.empty() || known.otherwise.empty()) << known.name;
    if (known.kind != ParameterKind::number) continue;
    EXPECT_EQ(known.number.name, known.name);
  }
  EXPECT_EQ(find_parameter("minp"), nullptr);
}

// The page's table is this one. What a failure prints can be pasted into it.
TEST(Parameters, stand_on_their_page_as_they_are) {
  const std::string text = page("generation.md");
  for (const Parameter& known : parameters()) {
    const std::string row = "| `" + std::string(known.name) + "` | `" + option_of(known) + "` | " +
                            values_text(known) + " | " + std::string(known.otherwise) + " | " +
                            std::string(known.sentence) + " |\n";
    EXPECT_NE(text.find("\n" + row), std::string::npos) << row;
  }
}

TEST(Parameters, refuse_words_texts_and_ids_in_sentences) {
  EXPECT_EQ(word_fault(parameter("early_stopping"), "never"), "");
  EXPECT_EQ(word_fault(parameter("early_stopping"), "maybe"),
            "early_stopping is \"maybe\" – it must be one of false, true, never – change it or "
            "leave it out");
  EXPECT_EQ(text_fault(parameter("stop"), "x"), "");
  EXPECT_EQ(text_fault(parameter("stop"), ""),
            "stop has an empty text – each must have a character at least – leave it out");
  EXPECT_EQ(id_fault("stop_tokens", written_number("-1")),
            "an id of stop_tokens is -1 – it must be a whole number from 0 to 2147483647 – change "
            "it or leave it out");
}

}  // namespace
}  // namespace tenon
