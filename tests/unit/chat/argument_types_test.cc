// Of which type an argument is that the model wrote without saying so.
#include "core/chat/calls/allowed_values.h"
#include "tests/unit/chat/answers.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;

// The argument that `text` becomes where the tool's parameters are described so.
std::string argument_of(const std::string& parameters, const std::string& text) {
  AnswerOptions options = answer_options(ToolCallFormat::qwen3_coder);
  options.tools =
      R"([{"type": "function", "function": {"name": "f", "parameters": )" + parameters + "}}]";
  const std::string written = "<tool_call>\n<function=f>\n<parameter=v>\n" + text +
                              "\n</parameter>\n</function>\n</tool_call>";
  const std::string call = shown(written, options);
  if (!call.starts_with("f{\"v\": ")) return call;
  return call.substr(7, call.size() - 8);
}

// The same where the schema is that of the one parameter.
std::string value_of(const std::string& schema, const std::string& text) {
  return argument_of(R"({"type": "object", "properties": {"v": )" + schema + "}}", text);
}

TEST(ArgumentTypes, a_text_stays_one_where_nothing_else_is_allowed) {
  const char* const kSchemas[] = {
      R"({"type": "string"})",
      R"({"type": ["string"]})",
      R"({"type": ["string", "null"]})",
      R"({"type": "string", "nullable": true})",
      R"({"type": "STRING"})",
      R"({"type": "str"})",
      R"({"anyOf": [{"type": "string"}, {"type": "null"}]})",
      R"({"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]})",
      R"({"allOf": [{"type": "string"}, {"minLength": 1}]})",
      R"({"allOf": [{"type": ["string", "integer"]}, {"type": ["string", "array"]}]})",
      R"({"anyOf": [{"anyOf": [{"type": "string"}]}, {"const": null}]})",
      R"({"enum": ["12", "true", "[1, 2]", "{\"a\": 1}", "1.0"]})",
      R"({"enum": ["a", "b"]})",
      R"({"enum": ["a", null]})",
      R"({"type": "string", "enum": ["a", "b"]})",
      R"({"anyOf": [{"enum": ["a"]}, {"const": "b"}]})",
      R"({"const": "x"})",
      R"({"if": {"type": "string"}, "then": {"type": "string"}, "else": {"enum": ["a"]}})",
  };
  for (const char* const schema : kSchemas) {
    SCOPED_TRACE(schema);
    EXPECT_EQ(value_of(schema, "12"), "\"12\"");
    EXPECT_EQ(value_of(schema, "1.0"), "\"1.0\"");
    EXPECT_EQ(value_of(schema, "true"), "\"true\"");
    EXPECT_EQ(value_of(schema, "False"), "\"False\"");
    EXPECT_EQ(value_of(schema, "[1, 2]"), "\"[1, 2]\"");
    EXPECT_EQ(value_of(schema, "{\"a\": 1}"), "\"{\\\"a\\\": 1}\"");
    EXPECT_EQ(value_of(schema, "\"quoted\""), "\"\\\"quoted\\\"\"");
    EXPECT_EQ(value_of(schema, "plain"), "\"plain\"");
    EXPECT_EQ(value_of(schema, ""), "\"\"");
  }
}

TEST(ArgumentTypes, null_is_null_only_where_it_is_allowed) {
  for (const char* const schema :
       {R"({"type": ["string", "null"]})", R"({"anyOf": [{"type": "string"}, {"type": "null"}]})",
        R"({"type": "string", "nullable": true})", R"({"enum": ["a", null]})",
        R"({"type": ["integer", "null"]})"}) {
    EXPECT_EQ(value_of(schema, "null"), "null") << schema;
    EXPECT_EQ(value_of(schema, "None"), "null") << schema;
  }
  EXPECT_EQ(value_of(R"({"type": "string"})", "null"), "\"null\"");
  EXPECT_EQ(value_of(R"({"type": "string"})", "None"), "\"None\"");
  EXPECT_EQ(value_of(R"({"type": ["string", "null"]})", "nullable"), "\"nullable\"");
  EXPECT_EQ(value_of(R"({"type": ["string", "null"]})", "Nonesuch"), "\"Nonesuch\"");
  EXPECT_EQ(value_of(R"({"enum": ["null", null]})", "null"), "\"null\"");
}

TEST(ArgumentTypes, a_value_of_another_type_wins_where_both_are_allowed) {
  const std::string either = R"({"anyOf": [{"type": "string"}, {"type": "integer"}]})";
  EXPECT_EQ(value_of(either, "12"), "12");
  EXPECT_EQ(value_of(either, "12.0"), "12.0");
  EXPECT_EQ(value_of(either, "12.5"), "\"12.5\"");
  EXPECT_EQ(value_of(either, "true"), "\"true\"");
  EXPECT_EQ(value_of(either, "[1]"), "\"[1]\"");
  const std::string list = R"({"type": ["string", "array"]})";
  EXPECT_EQ(value_of(list, "[\"a\"]"), "[\"a\"]");
  EXPECT_EQ(value_of(list, "['a']"), "\"['a']\"");
  EXPECT_EQ(value_of(list, "{}"), "\"{}\"");
  EXPECT_EQ(value_of(R"({"type": ["string", "number"]})", "12.5"), "12.5");
  EXPECT_EQ(value_of(R"({"type": ["string", "boolean"]})", "True"), "true");
}

TEST(ArgumentTypes, enum_decides_exactly) {
  const std::string mixed = R"({"enum": [1, "2", "x", null, true, [3]]})";
  EXPECT_EQ(value_of(mixed, "1"), "1");
  EXPECT_EQ(value_of(mixed, "1.0"), "1.0");
  EXPECT_EQ(value_of(mixed, "2"), "\"2\"");
  EXPECT_EQ(value_of(mixed, "3"), "\"3\"");
  EXPECT_EQ(value_of(mixed, "null"), "null");
  EXPECT_EQ(value_of(mixed, "True"), "true");
  EXPECT_EQ(value_of(mixed, "[3]"), "[3]");
  EXPECT_EQ(value_of(mixed, "[4]"), "\"[4]\"");
  EXPECT_EQ(value_of(R"({"enum": [1, 2]})", "2"), "2");
  EXPECT_EQ(value_of(R"({"const": 5})", "5"), "5");
  const std::string of_texts = R"({"anyOf": [{"enum": ["1", "2"]}, {"type": "integer"}]})";
  EXPECT_EQ(value_of(of_texts, "1"), "\"1\"");
  EXPECT_EQ(value_of(of_texts, "5"), "5");
}

TEST(ArgumentTypes, where_no_text_is_allowed_json_comes_before_python) {
  EXPECT_EQ(value_of(R"({"type": "object"})", "{'a': 1, 'b': None}"), "{\"a\": 1, \"b\": null}");
  EXPECT_EQ(value_of(R"({"type": "array"})", "['a', 'b']"), "[\"a\", \"b\"]");
  EXPECT_EQ(value_of(R"({"type": "array"})", "('a', True,)"), "[\"a\", true]");
  EXPECT_EQ(value_of(R"({"type": "array"})", "[\"a\"]"), "[\"a\"]");
  EXPECT_EQ(value_of(R"({"anyOf": [{"type": "object"}, {"type": "null"}]})", "{'a': 'it\\'s'}"),
            "{\"a\": \"it's\"}");
  EXPECT_EQ(value_of(R"({"type": "integer"})", "0x10"), "16");
  EXPECT_EQ(value_of(R"({"type": "number"})", ".5"), "0.5");
  EXPECT_EQ(value_of(R"({"type": "boolean"})", "True"), "true");
  // What is of no type that is allowed stays as it is written.
  EXPECT_EQ(value_of(R"({"type": "integer"})", "many"), "\"many\"");
  EXPECT_EQ(value_of(R"({"type": "object"})", "{'a': 1"), "\"{'a': 1\"");
  EXPECT_EQ(value_of(R"({"type": "object"})", "'text'"), "\"'text'\"");
  EXPECT_EQ(value_of(R"({"type": "integer"})", "[1]"), "[1]");
}

TEST(ArgumentTypes, without_a_type_json_is_json) {
  for (const char* const schema :
       {"{}", "true", R"({"description": "any"})", R"({"type": "any"})", R"({"$ref": "#/nowhere"})",
        R"({"$ref": "http://a/b"})", R"({"allOf": [{"type": "string"}, {"type": "integer"}]})"}) {
    EXPECT_EQ(value_of(schema, "12"), "12") << schema;
    EXPECT_EQ(value_of(schema, "None"), "null") << schema;
    EXPECT_EQ(value_of(schema, "some text"), "\"some text\"") << schema;
  }
}

TEST(ArgumentTypes, references_are_followed) {
  const auto referring = [](const std::string& to, const std::string& definitions) {
    return R"({"type": "object", "properties": {"v": {"$ref": ")" + to + "\"}}, " + definitions +
           "}";
  };
  const struct {
    std::string to, definitions;
  } kCases[] = {
      {"#/$defs/Code", R"("$defs": {"Code": {"type": "string"}})"},
      {"#/definitions/Code", R"("definitions": {"Code": {"type": "string"}})"},
      {"#/$defs/A", R"("$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"enum": ["7", "8"]}})"},
      {"#/$defs/A%20b", R"("$defs": {"A b": {"type": "string"}})"},
      {"#/$defs/Box%5Bint%5D", R"("$defs": {"Box[int]": {"type": "string"}})"},
      {"#/$defs/Box[int]", R"("$defs": {"Box[int]": {"type": "string"}})"},
      {"#/$defs/a~1b~0c", R"("$defs": {"a/b~c": {"type": "string"}})"},
      {"#/$defs/a%7E1b", R"("$defs": {"a/b": {"type": "string"}})"},
      {"#/$defs/list/anyOf/1", R"("$defs": {"list": {"anyOf": [{}, {"type": "string"}]}})"},
      {"#code", R"("$defs": {"Code": {"$anchor": "code", "type": "string"}})"},
      // A schema that leads back to itself says nothing by that.
      {"#/$defs/A", R"("$defs": {"A": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}]}})"},
      {"#/$defs/A", R"("$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]}})"},
  };
  for (const auto& [to, definitions] : kCases) {
    EXPECT_EQ(argument_of(referring(to, definitions), "7"), "\"7\"") << to << " " << definitions;
  }
  EXPECT_EQ(argument_of(R"({"properties": {"v": {"$ref": "#/properties/w"}, )"
                        R"("w": {"type": "string"}}})",
                        "7"),
            "\"7\"");
  // What stands next to a reference counts too.
  EXPECT_EQ(value_of(R"({"$ref": "#/nowhere", "type": "string"})", "7"), "\"7\"");
}

TEST(ArgumentTypes, the_parameters_as_a_whole_may_be_put_together) {
  const char* const kSchemas[] = {
      R"({"allOf": [{"properties": {"v": {"type": "string"}}}, {"properties": {"w": {}}}]})",
      R"({"$ref": "#/$defs/P", "$defs": {"P": {"properties": {"v": {"type": "string"}}}}})",
      R"({"anyOf": [{"properties": {"v": {"type": "string"}}}, {"properties": {"v": {"const": "a"}}}]})",
      R"({"properties": {"v": {}}, "allOf": [{"properties": {"v": {"type": "string"}}}]})",
      R"({"additionalProperties": {"type": "string"}})",
      R"({"oneOf": [{"properties": {"w": {}}, "additionalProperties": false},
                    {"properties": {"v": {"type": "string"}}}]})",
  };
  for (const char* const schema : kSchemas) EXPECT_EQ(argument_of(schema, "7"), "\"7\"") << schema;
}

TEST(ArgumentTypes, a_schema_that_takes_too_long_says_nothing) {
  // Each definition asks for the next one twice.
  ordered_json definitions = ordered_json::object();
  for (int i = 0; i < 5000; ++i) {
    const ordered_json next = {{"$ref", "#/$defs/D" + std::to_string(i + 1)}};
    definitions["D" + std::to_string(i)] = {{"anyOf", {next, next}}};
  }
  definitions["D5000"] = {{"type", "string"}};
  const ordered_json schema = {{"properties", {{"v", {{"$ref", "#/$defs/D0"}}}}},
                               {"$defs", definitions}};
  EXPECT_TRUE(chat::schema_of_value(schema, {{"v"}}).values.is_anything());
  const ordered_json near = {{"properties", {{"v", {{"$ref", "#/$defs/D4950"}}}}},
                             {"$defs", definitions}};
  EXPECT_TRUE(chat::schema_of_value(near, {{"v"}}).values.is_text_or_null());
}

}  // namespace
}  // namespace tenon
