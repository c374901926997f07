// What transformers makes of the same templates (tests/golden/make_chat_goldens.py).
#include <gmock/gmock.h>

#include <ctime>

#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;

ordered_json golden(const std::string& file) {
  const std::string path = source_folder() + "/tests/unit/chat/data/" + file;
  return ordered_json::parse(must(read_text_file(path)));
}

// The moment that the goldens were rendered at, wherever the test runs.
std::time_t golden_now() {
  std::tm local{};
  local.tm_year = 124;
  local.tm_mon = 6;
  local.tm_mday = 26;
  local.tm_hour = 12;
  local.tm_min = 30;
  local.tm_sec = 5;
  local.tm_isdst = -1;
  return std::mktime(&local);
}

std::string dumped(const ordered_json& object, const char* key) {
  return object.contains(key) ? object[key].dump() : std::string();
}

void expect_golden(const std::string& source, const ChatInput& input, ChatOptions options,
                   const ordered_json& expected) {
  options.now = golden_now();
  auto parsed = ChatTemplate::parse(
      source, "golden", {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  if (!parsed.ok() && expected.contains("error")) return;
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const auto result = parsed->render(input, options);
  if (expected.contains("error")) {
    EXPECT_FALSE(result.ok()) << "expected an error, got " << result->text;
    return;
  }
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->text, expected["text"].get<std::string>());
  if (!expected.contains("generations")) return;
  ASSERT_EQ(result->generations.size(), expected["generations"].size());
  for (size_t i = 0; i < result->generations.size(); ++i) {
    EXPECT_EQ(result->generations[i].begin, expected["generations"][i][0].get<size_t>());
    EXPECT_EQ(result->generations[i].end, expected["generations"][i][1].get<size_t>());
  }
}

TEST(ChatGoldens, templates_of_known_families_render_as_transformers_renders_them) {
  const ordered_json file = golden("families.json");
  for (const ordered_json& expected : file["cases"]) {
    const auto family = expected["template"].get<std::string>();
    const auto conversation = expected["conversation"].get<std::string>();
    const auto mode = expected["mode"].get<std::string>();
    SCOPED_TRACE(family + " / " + conversation + " / " + mode);
    const ordered_json& flags = file["modes"][mode];
    ChatInput input;
    input.messages = file["conversations"][conversation].dump();
    input.tools = dumped(flags, "tools");
    input.documents = dumped(flags, "documents");
    input.variables = dumped(flags, "variables");
    ChatOptions options;
    options.add_generation_prompt = flags.contains("add_generation_prompt");
    options.continue_final_message = flags.contains("continue_final_message");
    expect_golden(file["templates"][family].get<std::string>(), input, options, expected);
  }
}

TEST(ChatGoldens, every_construct_gives_what_jinja_gives) {
  const ordered_json file = golden("constructs.json");
  ChatInput input;
  input.messages = file["messages"].dump();
  input.variables = file["variables"].dump();
  for (const ordered_json& expected : file["cases"]) {
    const auto source = expected["template"].get<std::string>();
    SCOPED_TRACE(source);
    expect_golden(source, input, {}, expected);
  }
}

}  // namespace
}  // namespace tenon
