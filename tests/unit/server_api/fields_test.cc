// What becomes of fields that no reader reads, and that all which clients send are in the table.
#include "core/server/api/read/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "core/request/parameters.h"
#include "core/server/api/dialects.h"
#include "core/server/api/openapi/openapi_schemas.h"
#include "core/server/api/read/chat_messages.h"
#include "core/server/api/read/other_calls.h"
#include "tests/support/folders.h"

namespace tenon::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Body {
  Place place;
  const char* schema;  // of the OpenAPI document
  const char* least;   // that a request must say
};
constexpr Body kBodies[] = {
    {Place::completions, "Completion", R"({"prompt": "a"})"},
    {Place::chat, "Chat", R"({"messages": [{"role": "user", "content": "a"}]})"},
    {Place::responses, "Responses", R"({"input": "a"})"},
    {Place::messages, "Messages",
     R"({"max_tokens": 4, "messages": [{"role": "user", "content": "a"}]})"},
    {Place::embeddings, "Embedding", R"({"input": "a"})"},
    {Place::tokenize, "Tokenize", R"({"messages": [{"role": "user", "content": "a"}]})"},
    {Place::detokenize, "Detokenize", R"({"tokens": [1]})"}};

struct Read {
  ApiError error = {.message = ""};
  std::vector<std::string> ignored;
  bool ok() const { return error.message.empty(); }
};
template <typename Call>
Read told(const Outcome<Call>& call) {
  if (!call.ok()) return {.error = call.error(), .ignored = {}};
  return {.error = {.message = ""}, .ignored = call->ignored};
}

Read read(Place place, const Json& body) {
  switch (place) {
    case Place::completions:
      return told(read_completion(body));
    case Place::chat:
      return told(read_chat(body));
    case Place::responses:
      return told(read_responses_call(body));
    case Place::messages:
      return told(read_messages_call(body));
    case Place::embeddings:
      return told(read_embedding(body));
    case Place::tokenize:
      return told(read_tokenize(body));
    default:
      return told(read_detokenize(body));
  }
}

Read read_with(const Body& body, std::string_view name, const Json& value) {
  Json all = Json::parse(body.least);
  all[std::string(name)] = value;
  return read(body.place, all);
}
Read chat_with(std::string_view members) {
  return read(Place::chat, Json::parse(R"({"messages": [{"role": "user", "content": "a"}], )" +
                                       std::string(members) + "}"));
}
Read response_with(std::string_view members) {
  return read(Place::responses, Json::parse(R"({"input": "a", )" + std::string(members) + "}"));
}

// Lines of "place name", as tests/support/client_fields.py makes them of the packages.
std::vector<std::pair<std::string, std::string>> client_fields() {
  std::ifstream file(source_folder() + "/tests/support/client_fields.txt");
  std::vector<std::pair<std::string, std::string>> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string place, name;
    words >> place >> name;
    all.emplace_back(place, name);
  }
  return all;
}

TEST(FieldTable, has_every_field_that_clients_send) {
  const auto fields = client_fields();
  EXPECT_GT(fields.size(), 300u);
  for (const auto& [place, name] : fields) {
    const auto* body =
        std::ranges::find(kBodies, place, [](const Body& one) { return place_name(one.place); });
    ASSERT_NE(body, std::end(kBodies)) << place;
    EXPECT_NE(find_rule(body->place, name), nullptr) << place << " " << name;
  }
}

TEST(FieldTable, has_each_field_of_a_place_once) {
  std::set<std::pair<std::string_view, unsigned>> seen;
  for (const FieldRule& rule : field_rules()) {
    EXPECT_TRUE(Json::parse(rule.neutral).is_array()) << rule.name;
    EXPECT_EQ(rule.sentence.empty(), rule.use == FieldUse::taken || rule.use == FieldUse::echoed)
        << rule.name;
    for (unsigned place = 0; place < static_cast<unsigned>(Place::other); ++place) {
      if ((rule.places >> place & 1) == 0) continue;
      EXPECT_TRUE(seen.emplace(rule.name, place).second) << rule.name;
    }
  }
}

TEST(FieldTable, knows_what_readers_read) {
  for (const Body& body : kBodies) {
    for (const FieldRule& rule : field_rules()) {
      if (rule.use != FieldUse::taken || find_rule(body.place, rule.name) != &rule) continue;
      // Nothing is of this type.
      const Read found = read_with(body, rule.name, Json{{"\x01", 1}});
      const bool is_unknown =
          found.error.code == "unknown_parameter" && found.error.param == rule.name;
      EXPECT_FALSE(is_unknown) << place_name(body.place) << ": " << found.error.message;
    }
  }
}

TEST(FieldTable, is_what_the_openapi_document_says) {
  const Json schemas = request_schemas();
  for (const Body& body : kBodies) {
    if (body.place == Place::tokenize) continue;  // of texts alone
    const Json& properties = schemas[body.schema]["properties"];
    for (const auto& [name, schema] : properties.items()) {
      EXPECT_NE(find_rule(body.place, name), nullptr) << place_name(body.place) << " " << name;
    }
    for (const FieldRule& rule : field_rules()) {
      const bool is_told = rule.use != FieldUse::refused || rule.neutral != "[]";
      if (find_rule(body.place, rule.name) != &rule) continue;
      EXPECT_EQ(properties.contains(std::string(rule.name)), is_told)
          << place_name(body.place) << " " << rule.name;
    }
  }
}

TEST(Field, that_is_null_is_as_good_as_absent) {
  for (const Body& body : kBodies) {
    const Json least = Json::parse(body.least);
    for (const FieldRule& rule : field_rules()) {
      if (least.contains(std::string(rule.name))) continue;
      const Read found = read_with(body, rule.name, nullptr);
      EXPECT_TRUE(found.ok()) << found.error.message;
      EXPECT_TRUE(found.ignored.empty()) << rule.name;
    }
  }
}

TEST(Field, that_asks_for_what_happens_anyway_is_taken_without_a_word) {
  for (const Body& body : kBodies) {
    for (const FieldRule& rule : field_rules()) {
      if (find_rule(body.place, rule.name) != &rule) continue;
      for (const Json& value : Json::parse(rule.neutral)) {
        const Read found = read_with(body, rule.name, value);
        EXPECT_TRUE(found.ok()) << place_name(body.place) << ": " << found.error.message;
        EXPECT_TRUE(found.ignored.empty()) << place_name(body.place) << " " << rule.name;
      }
    }
  }
}

TEST(Field, that_asks_for_something_else_is_refused_or_named) {
  for (const Body& body : kBodies) {
    for (const FieldRule& rule : field_rules()) {
      if (rule.use == FieldUse::taken || rule.use == FieldUse::echoed) continue;
      if (find_rule(body.place, rule.name) != &rule) continue;
      const Read found = read_with(body, rule.name, Json{{"a", 1}});
      if (rule.use == FieldUse::ignored) {
        EXPECT_TRUE(found.ok()) << found.error.message;
        EXPECT_THAT(found.ignored, ElementsAre(std::string(rule.name)));
      } else {
        EXPECT_EQ(found.error.param, rule.name) << place_name(body.place);
        EXPECT_NE(found.error.code, "unknown_parameter") << found.error.message;
      }
    }
  }
}

TEST(Field, that_is_refused_is_told_with_what_may_stand_there) {
  const auto message = [](std::string_view members) { return chat_with(members).error.message; };
  EXPECT_EQ(message(R"("return_hidden_states": true)"),
            "\"return_hidden_states\" is true – it can only be false: hidden states are not given "
            "out – leave it out");
  EXPECT_EQ(message(R"("store": true)"),
            "\"store\" is true – it can only be false: nothing is stored here – leave it out");
  EXPECT_EQ(message(R"("stop_regex": ["a"])"),
            "\"stop_regex\" is a list – it can only be \"\" or []: \"stop\" takes texts – leave it "
            "out");
  EXPECT_EQ(message(R"("functions": [{"name": "f"}])"),
            "\"functions\" is a list – it can only be []: it is deprecated – use "
            "\"tools\" and \"tool_choice\"");
  EXPECT_EQ(message(R"("web_search_options": {})"),
            "\"web_search_options\" is not offered: nothing is looked up – leave it out");
  EXPECT_EQ(message(R"("tempertature": 1)"),
            "\"tempertature\" is not known here; did you mean 'temperature'? – leave it out");
}

TEST(Seed, of_minus_one_is_drawn) {
  for (const char* path : {R"({"prompt": "a", "seed": -1})", R"({"prompt": "a", "seed": -1.0})"}) {
    const auto call = read_completion(Json::parse(path));
    ASSERT_TRUE(call.ok()) << call.error().message;
    EXPECT_TRUE(call->draws_seed);
    EXPECT_FALSE(call->answer.seed);
  }
  EXPECT_FALSE(read_completion(Json::parse(R"({"prompt": "a", "seed": 3})"))->draws_seed);
  EXPECT_EQ(chat_with(R"("seed": -2)").error.param, "seed");
  EXPECT_TRUE(response_with(R"("seed": -1)").ok());
}

TEST(Numbers, are_whole_however_they_are_written) {
  const auto call = read_completion(Json::parse(
      R"({"prompt": [1.0, 2e0], "max_tokens": 1e2, "n": 2.0, "top_k": 40.0, "logprobs": 3.0,
          "allowed_token_ids": [5.0]})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->prompts[0].tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(call->answer.max_tokens, 100u);
  EXPECT_EQ(call->answer.samples, 2u);
  EXPECT_EQ(call->top_logprobs, 3u);
  EXPECT_EQ(call->answer.allowed_tokens, (std::vector<TokenId>{5}));
  for (const char* wrong : {"2.5", "1e300", "-1.0", "18446744073709551615", "1e19"}) {
    EXPECT_EQ(chat_with(R"("max_tokens": )" + std::string(wrong)).error.param, "max_tokens");
  }
}

TEST(Responses, take_sampling_fields_as_chats_do) {
  const auto call = read_responses_call(Json::parse(
      R"({"input": "a", "top_k": -1, "min_p": 0.1, "repetition_penalty": 1.5, "priority": 3,
          "stop": ["x"], "cache_salt": "s", "min_tokens": 2, "stop_token_ids": [4],
          "chat_template_kwargs": {"enable_thinking": false}, "guided_regex": "a+"})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->answer.sampling[*find_sampling_key("top_k")], 0.0);
  EXPECT_FLOAT_EQ(*call->answer.sampling[*find_sampling_key("min_p")], 0.1f);
  EXPECT_EQ(call->answer.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(call->answer.min_tokens, 2u);
  EXPECT_EQ(call->priority, 3);
  EXPECT_EQ(call->cache_salt, "s");
  EXPECT_EQ(call->chat.variables, R"({"enable_thinking":false})");
  EXPECT_EQ(call->form->form, "regex");
  EXPECT_EQ(response_with(R"("n": 2)").error.param, "n");
  EXPECT_EQ(response_with(R"("max_tokens": 2)").error.param, "max_tokens");
  EXPECT_THAT(response_with(R"("store": true)").ignored, ElementsAre("store"));
}

TEST(AnthropicsMessages, take_sampling_fields_as_chats_do) {
  const auto call = read_messages_call(Json::parse(
      R"({"max_tokens": 4, "messages": [{"role": "user", "content": "a"}], "min_p": 0.1,
          "seed": -1, "stop_sequences": ["x"], "priority": 3, "guided_choice": ["a"]})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_FLOAT_EQ(*call->answer.sampling[*find_sampling_key("min_p")], 0.1f);
  EXPECT_TRUE(call->draws_seed);
  EXPECT_EQ(call->answer.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(call->form->form, "choice");
  const auto with = [](const char* member) {
    return read_messages_call(
        Json::parse(R"({"max_tokens": 4, "messages": [{"role": "user", "content": "a"}], )" +
                    std::string(member) + "}"));
  };
  EXPECT_EQ(with(R"("stop": ["x"])").error().param, "stop");
  EXPECT_EQ(with(R"("n": 2)").error().param, "n");
}

TEST(Chat, takes_sglangs_forms_and_what_templates_are_told) {
  const auto call = read_chat(Json::parse(
      R"({"messages": [{"role": "user", "content": "a"}], "regex": "a+",
          "thinking": {"type": "disabled"}, "reasoning": {"effort": "low"}, "tools": [],
          "top_logprobs": 0})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->form->form, "regex");
  EXPECT_EQ(call->chat.variables, R"({"reasoning_effort":"low","enable_thinking":false})");
  EXPECT_EQ(chat_with(R"("reasoning_effort": "high", "reasoning": {"effort": "low"})").error.param,
            "reasoning.effort");
  const auto schema =
      read_completion(Json::parse(R"({"prompt": "a", "json_schema": "{\"type\": \"object\"}"})"));
  ASSERT_TRUE(schema.ok()) << schema.error().message;
  EXPECT_EQ(schema->form->definition, Json::parse(R"({"type": "object"})"));
  // The limits of a body hold for the text too.
  const std::string deep = R"({"a":)" + std::string(100, '[') + std::string(100, ']') + "}";
  for (const Json& text : {Json("{"), Json("[]"), Json(deep), Json(1)}) {
    Json body = {{"prompt", "a"}, {"json_schema", text}};
    EXPECT_EQ(told(read_completion(body)).error.param, "json_schema") << text;
  }
}

TEST(Watermarking, of_the_pipeline_can_be_left_out) {
  const auto call = read_completion(Json::parse(R"({"prompt": "a", "watermarking": false})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->answer.sampling[*find_sampling_key("watermark_delta")], 0.0);
  EXPECT_EQ(chat_with(R"("watermarking": true)").error.param, "watermarking");
}

struct Sent {
  Json messages;
  Notes notes;
};
Sent sent_back(const char* message) {
  Sent sent;
  auto checked = read_messages(Json::parse(std::string("[") + message + "]"), sent.notes);
  EXPECT_TRUE(checked.ok()) << checked.error().message;
  if (checked.ok()) sent.messages = *checked;
  return sent;
}

TEST(Messages, can_be_sent_back_as_packages_return_them) {
  const Sent plain = sent_back(
      R"({"content": "x", "refusal": null, "role": "assistant", "annotations": [], "audio": null,
          "function_call": null, "tool_calls": null, "parsed": null, "anything": null})");
  EXPECT_EQ(plain.messages[0], Json::parse(R"({"role": "assistant", "content": "x"})"));
  EXPECT_THAT(plain.notes, ElementsAre());
  const Sent parsed = sent_back(
      R"({"role": "assistant", "content": null, "parsed": {"a": 1}, "tool_calls": [
          {"id": "c", "type": "function", "index": 0,
           "function": {"name": "f", "arguments": "{}", "parsed_arguments": {"b": 1}}}]})");
  EXPECT_THAT(parsed.notes, ElementsAre("parsed", "parsed_arguments"));
  EXPECT_EQ(parsed.messages[0]["tool_calls"], Json::parse(R"([{"id": "c", "type": "function",
                             "function": {"name": "f", "arguments": "{}"}}])"));
}

TEST(Messages, may_lack_content_where_something_was_thought) {
  for (const char* name : {"reasoning", "reasoning_content", "thinking"}) {
    const Sent sent = sent_back(
        (R"({"role": "assistant", "content": null, ")" + std::string(name) + R"(": "hm"})")
            .c_str());
    EXPECT_EQ(sent.messages[0]["content"], "");
    EXPECT_EQ(sent.messages[0][name], "hm");
  }
  EXPECT_EQ(sent_back(R"({"role": "assistant", "content": null, "tool_calls": null,
                          "reasoning": "hm"})")
                .messages[0]["content"],
            "");
  Notes notes;
  EXPECT_FALSE(
      read_messages(Json::parse(R"([{"role": "assistant", "content": null, "reasoning": ""}])"),
                    notes)
          .ok());
  EXPECT_FALSE(
      read_messages(Json::parse(R"([{"role": "user", "content": null, "reasoning": "hm"}])"), notes)
          .ok());
}

TEST(Messages, name_members_of_parts_that_have_no_effect) {
  const Sent sent = sent_back(
      R"({"role": "user", "content": [{"type": "text", "text": "a",
          "cache_control": {"type": "ephemeral"}, "annotations": []}]})");
  EXPECT_THAT(sent.notes, ElementsAre("cache_control"));
  // They stand in a response's head, whatever a client calls them.
  Json part = {{"type", "text"}, {"text", "a"}, {"x\r\nSet-Cookie: y", 1}, {"\u00e4", 1}};
  for (int i = 0; i < 1000; ++i) part["member_" + std::to_string(i)] = i;
  Notes notes;
  ASSERT_TRUE(read_messages({{{"role", "user"}, {"content", Json::array({part})}}}, notes).ok());
  EXPECT_LE(notes.size(), 33u);
  EXPECT_EQ(notes.count("others"), 1u);
  for (const std::string& name : notes) EXPECT_EQ(name.find_first_of("\r\n\xc3"), name.npos);
}

TEST(Field, names_that_are_ignored_are_bounded) {
  Json tools = Json::array({{{"type", "function"}, {"name", "f"}}});
  for (int i = 0; i < 1000; ++i) tools.push_back({{"type", "mcp"}});
  const Read found = read(Place::responses, {{"input", "a"}, {"tools", tools}});
  EXPECT_EQ(found.ignored.size(), 65u);
  EXPECT_EQ(found.ignored.back(), "others");
}

TEST(MessagesCall, names_members_of_blocks_that_may_stand_in_a_head) {
  const Json block = {{"type", "text"}, {"text", "a"}, {"x\ny", 1}, {"citations", Json::array()}};
  const Read found = read(
      Place::messages,
      {{"max_tokens", 4}, {"messages", {{{"role", "user"}, {"content", Json::array({block})}}}}});
  EXPECT_THAT(found.ignored, testing::UnorderedElementsAre("citations", "others"));
}

TEST(Tools, of_other_servers_are_left_out_next_to_functions) {
  const Read read = response_with(
      R"("tools": [{"type": "function", "name": "f", "strict": false, "parameters": {}},
                   {"type": "web_search", "external_web_access": false},
                   {"type": "custom", "name": "apply_patch"}])");
  EXPECT_TRUE(read.ok()) << read.error.message;
  EXPECT_THAT(read.ignored, ElementsAre("tools[1]", "tools[2]"));
  EXPECT_EQ(response_with(R"("tools": [{"type": "function", "name": "f"}, {"type": "wizard"}])")
                .error.param,
            "tools[1]");
}

// The page's table is this one. What a failure prints can be pasted into it.
TEST(FieldTable, stands_on_its_page_as_it_is) {
  std::ifstream file(source_folder() + "/docs/formats/request-fields.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::string lacking;
  for (const FieldRule& rule : field_rules()) {
    std::string places;
    for (unsigned place = 0; place < static_cast<unsigned>(Place::other); ++place) {
      if ((rule.places >> place & 1) == 0) continue;
      places.append(places.empty() ? "" : ", ").append(place_name(static_cast<Place>(place)));
    }
    std::string neutral;
    for (const Json& value : Json::parse(rule.neutral)) {
      neutral.append(neutral.empty() ? "" : ", ").append("`" + value.dump() + "`");
    }
    constexpr const char* kUses[] = {"taken", "ignored", "echoed", "refused"};
    const std::string row = "| `" + std::string(rule.name) + "` | " + places + " | " +
                            kUses[static_cast<unsigned>(rule.use)] + " | " + neutral + " | " +
                            std::string(rule.sentence) + " |\n";
    if (page.find("\n" + row) == page.npos) lacking += row;
  }
  EXPECT_EQ(lacking, "");
}

}  // namespace
}  // namespace tenon::api
