// A run that goes on believes none of its files without their sums.
#include "core/quantize/unfinished_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/files/mapped_file.h"
#include "core/base/log.h"
#include "tests/support/temporary_folder.h"

namespace tenon::quantize {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

MadeTensors tensors_of(uint32_t layer) {
  return {{"l" + std::to_string(layer) + ".qweight",
           DType::u8,
           {2, 4},
           std::vector<std::byte>(8, static_cast<std::byte>(layer + 1))}};
}

// A folder in which three layers are done, with or without hidden states.
class Unfinished : public testing::Test {
 protected:
  void do_layers(bool with_states) {
    Result<UnfinishedRun> run = UnfinishedRun::open(out(), "--method gptq", "hash");
    ASSERT_TRUE(run.ok()) << run.status().message();
    for (uint32_t layer = 0; layer < 3; ++layer) {
      const std::vector<float> states(4, static_cast<float>(layer));
      const std::vector<std::string> replaced = {"l" + std::to_string(layer) + ".weight"};
      const Status added =
          run->add_layer(tensors_of(layer), replaced, with_states ? states : std::vector<float>());
      ASSERT_TRUE(added.ok()) << added.message();
    }
  }
  // Layers that the next run goes on after; what it says is in `said_`.
  uint32_t layers_after() {
    said_.clear();
    set_log_sink([this](LogLevel, std::string_view, std::string_view text) { said_ += text; });
    const Result<UnfinishedRun> run = UnfinishedRun::open(out(), "--method gptq", "hash");
    set_log_sink({});
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? run->layers_done() : 99;
  }
  std::string out() const { return folder_.path("out"); }
  std::string file(const std::string& name) const { return out() + "/quantize.partial/" + name; }
  void damage(const std::string& name) const {
    std::fstream stream(file(name), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-1, std::ios::end);
    stream.put('\x7f');
  }

  TemporaryFolder folder_;
  std::string said_;
};

TEST_F(Unfinished, layers_that_are_sound_are_kept_without_a_word) {
  do_layers(true);
  EXPECT_EQ(layers_after(), 3u);
  EXPECT_EQ(said_, "");
  const Result<UnfinishedRun> run = UnfinishedRun::open(out(), "--method gptq", "hash");
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(*run->read_states(), testing::Each(2.0f));
  const auto layers = run->layers();
  ASSERT_TRUE(layers.ok()) << layers.status().message();
  EXPECT_THAT((*layers)[1].replaced, testing::ElementsAre("l1.weight"));
}

TEST_F(Unfinished, a_damaged_layer_is_computed_again_with_all_after_it) {
  do_layers(false);
  damage("layer-00001.safetensors");
  EXPECT_EQ(layers_after(), 1u);
  EXPECT_THAT(said_, HasSubstr("layer-00001.safetensors' is damaged: its SHA-256 sum is another "
                               "than was written; layers from 1 on are computed again"));
  EXPECT_FALSE(fs::exists(file("layer-00002.json")));
}

TEST_F(Unfinished, with_hidden_states_a_damaged_file_costs_all_layers) {
  do_layers(true);
  damage("layer-00002.safetensors");
  EXPECT_EQ(layers_after(), 0u);
  EXPECT_THAT(said_, HasSubstr("layers from 0 on are computed again"));
}

TEST_F(Unfinished, damaged_hidden_states_cost_all_layers) {
  do_layers(true);
  damage("states-00003.f32");
  EXPECT_EQ(layers_after(), 0u);
  EXPECT_THAT(said_, HasSubstr("states-00003.f32' is damaged"));
}

TEST_F(Unfinished, a_lost_or_cut_file_is_not_gone_on_from) {
  do_layers(false);
  fs::resize_file(file("layer-00002.safetensors"), 20);
  EXPECT_EQ(layers_after(), 2u);
  do_layers(false);
  fs::remove(file("layer-00000.safetensors"));
  EXPECT_EQ(layers_after(), 0u);
}

TEST_F(Unfinished, a_layer_of_another_run_is_not_gone_on_from) {
  do_layers(false);
  const std::string text = *read_text_file(file("layer-00001.json"));
  std::string other = text;
  other.replace(other.find("\"hash\""), 6, "\"hush\"");
  std::ofstream(file("layer-00001.json")) << other;
  EXPECT_EQ(layers_after(), 1u);
  EXPECT_THAT(said_, HasSubstr("layer-00001.json' belongs to another run"));
  do_layers(false);
  std::ofstream(file("layer-00000.json")) << "{";
  EXPECT_EQ(layers_after(), 0u);
  EXPECT_THAT(said_, HasSubstr("layer-00000.json' is damaged"));
}

TEST_F(Unfinished, a_layer_without_its_record_is_not_done) {
  do_layers(false);
  fs::remove(file("layer-00002.json"));
  EXPECT_EQ(layers_after(), 2u);
  EXPECT_EQ(said_, "");
}

}  // namespace
}  // namespace tenon::quantize
