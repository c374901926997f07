// Files of models, adapters and pipelines, and the events of other servers.
#include <cstring>

#include "core/client/event_stream.h"
#include "core/config/pipeline_config.h"
#include "core/files/gguf.h"
#include "core/model/adapters/peft_config.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/model/config/json_fields.h"
#include "core/workload/workload.h"
#include "tests/growth/cases.h"

namespace tenon::growth {
namespace {

template <typename T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}
std::string text(const std::string& value) {
  return raw(uint64_t{value.size()}) + value;
}

void expect_gguf(size_t size, const Maker& make) {
  EXPECT_EQ(growth_fault(size, make,
                         [](const std::string& file) {
                           const auto parsed = GgufFile::parse(std::as_bytes(std::span(file)));
                           EXPECT_TRUE(parsed.ok()) << parsed.status().message();
                         }),
            "");
}

TEST(Growth, of_a_gguf_header_is_in_proportion) {
  const auto begin = [](uint64_t tensors, uint64_t pairs) {
    return "GGUF" + raw(uint32_t{3}) + raw(tensors) + raw(pairs);
  };
  expect_gguf(300, [&](size_t size) {
    std::string file = begin(0, size);
    for (size_t i = 0; i < size; ++i) {
      file += text("key." + std::to_string(100'000 + i)) + raw(uint32_t{4}) + raw(uint32_t{1});
    }
    return file;
  });
  expect_gguf(300, [&](size_t size) {
    std::string file = begin(size, 0);
    for (size_t i = 0; i < size; ++i) {
      file += text("t." + std::to_string(100'000 + i)) + raw(uint32_t{1}) + raw(uint64_t{8}) +
              raw(uint32_t{0}) + raw(uint64_t{32 * i});
    }
    file.resize((file.size() + 31) / 32 * 32 + 32 * size);
    return file;
  });
  expect_gguf(500, [&](size_t size) {
    std::string file =
        begin(0, 1) + text("k") + raw(uint32_t{9}) + raw(uint32_t{8}) + raw(uint64_t{size});
    for (size_t i = 0; i < size; ++i) file += text("v" + std::to_string(i));
    return file;
  });
}

TEST(Growth, of_a_safetensors_header_is_in_proportion) {
  const auto file_of = [](size_t size) {
    std::string header = "{\"__metadata__\":{";
    for (size_t i = 0; i < size; ++i) {
      header += (i > 0 ? ",\"m" : "\"m") + std::to_string(i) + "\":\"x\"";
    }
    header += "}";
    for (size_t i = 0; i < size; ++i) {
      header += ",\"t" + std::to_string(i) + R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" +
                std::to_string(4 * i) + "," + std::to_string(4 * i + 4) + "]}";
    }
    header += "}";
    return raw(uint64_t{header.size()}) + header + std::string(4 * size, 'x');
  };
  EXPECT_EQ(growth_fault(200, file_of,
                         [](const std::string& file) {
                           const auto parsed =
                               parse_safetensors_header(std::as_bytes(std::span(file)));
                           EXPECT_TRUE(parsed.ok()) << parsed.status().message();
                         }),
            "");
}

TEST(Growth, of_a_models_configuration_is_in_proportion) {
  const std::vector<Case> cases = {
      {"keys", 500, "{", R"("k@":@)", ",", "}"},
      {"values", 1000, R"({"a":[)", "@", ",", "]}"},
      {"the same key again and again", 500, "{", R"("k":@)", ",", "}"},
  };
  expect_proportional(cases, [](const std::string& text) {
    (void)parse_json_object(text);
    (void)in_order(text);
  });
}

TEST(Growth, of_an_adapters_configuration_is_in_proportion) {
  const std::string start = R"({"peft_type":"LORA","r":8,"lora_alpha":16,)";
  expect_proportional({{"modules", 300, start + R"("target_modules":[)", R"("m@")", ",", "]}"},
                       {"unknown keys", 300, start, R"("k@":@)", ",", "}"}},
                      [](const std::string& text) { (void)parse_peft_config(text, "adapter"); });
}

TEST(Growth, of_a_pipelines_file_is_in_proportion) {
  const std::string start = "[model]\npath = \"m\"\n";
  expect_proportional(
      {
          {"keys", 300, start, "k@ = @\n", "", ""},
          {"a list", 500, start + "a = [", "\"v@\"", ",", "]\n"},
          {"comments", 500, start, "# nothing\n", "", ""},
          {"keys of one section", 200, start + "[scheduler]\n", "k@ = 1\n", "", ""},
      },
      [](const std::string& text) { (void)parse_pipeline_config(text, "p.toml", ".", {}); });
}

// The events of a server, in pieces of seven bytes.
TEST(Growth, of_an_event_stream_is_in_proportion) {
  expect_proportional(
      {
          {"events", 500, "", "data: {\"a\":@}\n\n", "", ""},
          {"lines of one event", 500, "", "data: @\n", "", "\n"},
          {"a long line", 2000, "data: ", "abc ", "", "\n\n"},
          {"comments", 500, "", ": ping\n", "", ""},
          {"line ends", 2000, "", "\r\n", "", ""},
      },
      [](const std::string& text) {
        client::EventStream events([](std::string_view) { return true; });
        for (size_t at = 0; at < text.size(); at += 7) {
          events.put(std::string_view(text).substr(at, 7));
        }
      });
}

}  // namespace
}  // namespace tenon::growth
