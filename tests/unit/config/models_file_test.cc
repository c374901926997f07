// A list of models: what its entries say, and every fault with its place.
#include "core/config/models_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

Result<ModelsFile> read_models(const std::string& text) {
  return parse_models_file(text, "desk.toml", "/srv/desk");
}
std::string faults(const std::string& text) {
  const auto file = read_models(text);
  return file.ok() ? "none" : std::string(file.status().message());
}

constexpr const char* kDesk = R"(format = 1
[server]
memory = "24GiB"
max_loaded = 2
idle_unload = "10min"
load_wait = "30s"

[[server.models]]
name = "small"
model = "models/small.gguf"
idle_unload = "never"
kv_cache.dtype = "i8"

[[server.models]]
name = "fast"
pipeline = "fast.toml"
keep = true
)";

TEST(ModelsFile, says_what_is_served_and_how) {
  const auto file = read_models(kDesk);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->memory_bytes, uint64_t{24} << 30);
  EXPECT_EQ(file->max_loaded, 2u);
  EXPECT_EQ(file->idle_unload_ns, int64_t{600} * 1'000'000'000);
  EXPECT_EQ(file->load_wait_ns, int64_t{30} * 1'000'000'000);
  ASSERT_EQ(file->models.size(), 2u);
  const ListedModel& small = file->models[0];
  EXPECT_EQ(small.name, "small");
  EXPECT_EQ(small.idle_unload_ns, 0);
  EXPECT_FALSE(small.keep);
  ASSERT_EQ(small.settings.size(), 2u);
  EXPECT_EQ(small.settings[0].key, "model.path");
  EXPECT_EQ(std::get<std::string>(small.settings[0].value), "/srv/desk/models/small.gguf");
  EXPECT_EQ(small.settings[1].key, "kv_cache.dtype");
  EXPECT_EQ(small.settings[1].origin.text(), "desk.toml:12:10");
  EXPECT_EQ(file->models[1].pipeline, "/srv/desk/fast.toml");
  EXPECT_TRUE(file->models[1].keep);
  EXPECT_FALSE(file->models[1].idle_unload_ns.has_value());
}

TEST(ModelsFile, without_a_model_is_refused) {
  EXPECT_EQ(faults("format = 1\n[server]\nmemory = \"1GiB\""),
            "desk.toml: it lists no model in [[server.models]]");
}

TEST(ModelsFile, is_refused_with_all_faults_and_their_places) {
  const std::string text = faults(R"(format = 2
[server]
memory = 5
idle_unlaod = "10min"
[[server.models]]
model = 3
[[server.models]]
name = "a"
idle_unload = "soon"
[[server.models]]
name = "a"
keep = "yes"
[scheduler]
plugin = "static"
)");
  EXPECT_THAT(text, HasSubstr("desk.toml:1:1: format is the integer 2; this program reads 1"));
  EXPECT_THAT(text, HasSubstr("desk.toml:3:1: memory is the integer 5; expected a size"));
  EXPECT_THAT(text, HasSubstr("desk.toml:4:1: 'idle_unlaod' is no key of [server]; did you mean "));
  EXPECT_THAT(text, HasSubstr("the model has no 'name' that requests could ask for"));
  EXPECT_THAT(text, HasSubstr("desk.toml:9:1: idle_unload is the text \"soon\"; expected a time"));
  EXPECT_THAT(text, HasSubstr("two models have the name 'a'"));
  EXPECT_THAT(text, HasSubstr("desk.toml:12:1: keep is the text \"yes\"; expected true or false"));
  EXPECT_THAT(text, HasSubstr("[scheduler] is no table of a list of models"));
}

TEST(ModelsFile, does_not_keep_what_it_unloads) {
  EXPECT_THAT(
      faults("format = 1\n[[server.models]]\nname = \"a\"\nkeep = true\nidle_unload = \"1s\""),
      HasSubstr("'a' is kept and unloaded when idle"));
}

TEST(ModelsFile, names_stay_on_their_line) {
  EXPECT_THAT(faults("format = 1\n[[server.models]]\nname = \"a\\nb\"\n"),
              HasSubstr("desk.toml:3:1: name is the text"));
  EXPECT_THAT(faults("format = 1\n[[server.models]]\nname = \"a/b: c\"\n"), "none");
}

}  // namespace
}  // namespace tenon
