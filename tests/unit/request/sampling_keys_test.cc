#include "core/request/sampling_keys.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenon {
namespace {

const SamplingKey& key(std::string_view name) {
  return sampling_keys()[find_sampling_key(name).value()];
}

TEST(SamplingKeys, take_what_a_request_that_says_nothing_has) {
  const SamplingParams plain;
  for (const SamplingKey& known : sampling_keys()) {
    EXPECT_EQ(sampling_fault(known, plain), "") << known.name;
    EXPECT_EQ(sampling_keys()[*find_sampling_key(known.name)].name, known.name);
  }
}

TEST(SamplingKeys, reach_the_member_of_their_name) {
  SamplingValues values;
  values[*find_sampling_key("min_p")] = 0.25;
  values[*find_sampling_key("watermark_key")] = 9007199254740991.0;
  SamplingParams params;
  apply_values(values, params);
  EXPECT_EQ(params.min_p, 0.25f);
  EXPECT_EQ(params.watermark_key, 9007199254740991u);
  EXPECT_EQ(params.temperature, 1.0f);
  for (const SamplingKey& known : sampling_keys()) {
    known.set(params, 1.0);
    EXPECT_EQ(known.get(params), 1.0) << known.name;
  }
}

TEST(SamplingKeys, say_what_is_out_of_range) {
  SamplingParams params;
  params.top_p = 0.0f;
  params.min_p = std::numeric_limits<float>::quiet_NaN();
  params.mirostat = 3;
  EXPECT_EQ(sampling_fault(key("top_p"), params),
            "top_p is 0.0 – it must be a number above 0.0 and at most 1.0 – change it or leave it "
            "out");
  EXPECT_EQ(sampling_fault(key("mirostat"), params),
            "mirostat is 3 – it must be a whole number from 0 to 2 – change it or leave it out");
  EXPECT_EQ(sampling_fault(key("min_p"), params),
            "min_p is nan – it must be a number from 0.0 to 1.0 – change it or leave it out");
}

TEST(SamplingOrder, names_stages) {
  Result<std::vector<SamplingStage>> order = parse_sampling_order("top_k, temperature xtc");
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(*order, (std::vector<SamplingStage>{SamplingStage::top_k, SamplingStage::temperature,
                                                SamplingStage::xtc}));
  EXPECT_EQ(parse_sampling_order("topk").status().message(),
            "'topk' is no stage of sampling; did you mean 'top_k'? (known: penalties, dry, "
            "temperature, top_n_sigma, top_k, typical_p, top_p, min_p, xtc)");
  for (const char* bad : {"", " ", ",", "top_k,,xtc", "top_k,"}) {
    EXPECT_FALSE(parse_sampling_order(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace tenon
