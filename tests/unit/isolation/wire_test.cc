#include "core/isolation/wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "core/isolation/description.h"
#include "core/isolation/sampling_messages.h"

namespace tenon {
namespace {

std::vector<std::byte> written(const std::function<void(WireWriter&)>& write) {
  WireWriter length({});
  write(length);
  std::vector<std::byte> bytes(length.bytes());
  WireWriter out(bytes);
  write(out);
  EXPECT_TRUE(out.ok());
  return bytes;
}

TEST(Wire, reads_what_was_written) {
  const std::vector<float> list = {1.0f, 2.5f, -3.0f};
  const auto bytes = written([&](WireWriter& out) {
    out.put(uint8_t{7});
    out.put_text("some text");
    out.put_list(list);
    out.put(true);
  });
  WireReader in(bytes);
  EXPECT_EQ(in.get<uint8_t>(), 7);
  EXPECT_EQ(in.get_text(), "some text");
  const auto read = in.get_list<float>();
  EXPECT_EQ(std::vector<float>(read.begin(), read.end()), list);
  EXPECT_TRUE(in.get<bool>());
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(in.get<uint64_t>(), 0u);
  EXPECT_FALSE(in.ok());
}

TEST(Wire, writes_nothing_that_does_not_fit_and_says_how_long_it_is) {
  std::vector<std::byte> room(24, std::byte{0x5a});
  WireWriter out{std::span(room).first(16)};
  out.put(uint32_t{1});
  EXPECT_TRUE(out.ok());
  out.put(uint32_t{2});
  EXPECT_FALSE(out.ok());
  EXPECT_EQ(out.bytes(), 32u);
  EXPECT_EQ(room[16], std::byte{0x5a});
}

TEST(Wire, a_list_that_is_longer_than_the_message_reads_as_nothing) {
  const auto bytes = written([](WireWriter& out) {
    out.put(uint64_t{1} << 61);
    out.put(uint64_t{1});
  });
  WireReader in(bytes);
  EXPECT_TRUE(in.get_list<uint64_t>().empty());
  EXPECT_FALSE(in.ok());
}

TEST(Wire, whatever_a_process_says_of_its_library_nothing_outside_of_it_is_read) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<std::byte> bytes(random() % 512);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    WireReader in(bytes);
    const auto described = DescribedLibrary::read(in, "libtenon-x.so");
    EXPECT_TRUE(!described.ok() || (*described)->library.descriptors.empty());
    WireReader results(bytes);
    SampleResult result;
    read_sample_result(results, result);
    EXPECT_TRUE(result.top.empty());
  }
}

TEST(Wire, sampling_parameters_cross_with_all_that_they_point_to) {
  const std::vector<TokenId> word = {4, 5}, breakers = {9};
  const std::vector<std::span<const TokenId>> words = {word};
  const std::vector<VendorParam> vendor = {{"acme.mood", true, 0.0, "contrary"}};
  SamplingParams params;
  params.temperature = 0.25f;
  params.seed = 42;
  params.bad_words = words;
  params.dry_breakers = breakers;
  params.vendor = vendor;
  const auto bytes = written([&](WireWriter& out) { write_sampling_params(params, out); });
  WireReader in(bytes);
  ReadSamplingParams read;
  read_sampling_params(in, read);
  ASSERT_TRUE(in.ok());
  EXPECT_EQ(read.params.temperature, 0.25f);
  EXPECT_EQ(read.params.seed, 42u);
  ASSERT_EQ(read.params.bad_words.size(), 1u);
  EXPECT_EQ(read.params.bad_words[0][1], 5);
  EXPECT_EQ(read.params.dry_breakers[0], 9);
  ASSERT_EQ(read.params.vendor.size(), 1u);
  EXPECT_EQ(read.params.vendor[0].key, "acme.mood");
  EXPECT_EQ(read.params.vendor[0].text, "contrary");
}

TEST(Wire, settings_cross_as_they_were_given) {
  const std::vector<Setting> settings = {{"a", true, {"p.toml", 3, 4}},
                                         {"b", int64_t{-5}, {}},
                                         {"c", 0.5, {"--set", 0, 0}},
                                         {"d", std::string("text"), {}},
                                         {"e", std::vector<std::string>{"x", "y"}, {}}};
  const auto bytes = written([&](WireWriter& out) { write_settings(settings, out); });
  WireReader in(bytes);
  const std::vector<Setting> read = read_settings(in);
  ASSERT_TRUE(in.ok());
  ASSERT_EQ(read.size(), settings.size());
  for (size_t i = 0; i < settings.size(); ++i) {
    EXPECT_EQ(read[i].key, settings[i].key);
    EXPECT_EQ(read[i].value, settings[i].value);
    EXPECT_EQ(read[i].origin, settings[i].origin);
  }
}

}  // namespace
}  // namespace tenon
