// Stages in any number and order make no more of a text than its size allows, and tokens decode to
// the same text at once and one by one. Every line is a stage, "normalizer Replace e ee" and the
// like; the last line is the text.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

namespace {

using nlohmann::json;
using tenon::StreamingDetokenizer;
using tenon::TokenId;
using tenon::Tokenizer;

constexpr const char* kPlaces[][2] = {
    {"normalizer", "normalizers"}, {"pre_tokenizer", "pretokenizers"}, {"decoder", "decoders"}};

json stage(const std::string& type, const std::string& first, const std::string& second) {
  const bool flag = first == "true";
  const bool is_regex = type == "ReplaceRegex" || type == "SplitRegex";
  json out = {{"type", is_regex ? type.substr(0, type.size() - 5) : type},
              {"pattern", {{is_regex ? "Regex" : "String", first}}},
              {"content", second},
              {"prepend", first},
              {"behavior", second},
              {"replacement", first},
              {"delimiter", first},
              {"strip_left", flag},
              {"strip_right", true},
              {"individual_digits", flag},
              {"start", 1},
              {"stop", 1}};
  if (type == "ByteLevel") out["add_prefix_space"] = flag;
  return out;
}

json document(std::istream& lines, std::string& text) {
  json out = json::parse(R"({"version": "1.0", "added_tokens": [],
      "model": {"type": "BPE", "unk_token": "?", "merges": ["a b", "ab c"],
                "vocab": {"a": 0, "b": 1, "c": 2, " ": 3, "ab": 4, "abc": 5, "?": 6}}})");
  for (const auto& [member, key] : kPlaces) {
    out[member] = {{"type", "Sequence"}, {key, json::array()}};
  }
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string place, type, first, second;
    words >> place >> type >> first >> second;
    text = line;
    for (const auto& [member, key] : kPlaces) {
      if (place == member) out[member][key].push_back(stage(type, first, second));
    }
  }
  return out;
}

}  // namespace

TENON_FUZZ_TARGET(tokenizer_stages, const uint8_t* data, size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  std::string text;
  const std::string file =
      document(lines, text).dump(-1, ' ', false, json::error_handler_t::replace);
  const auto tokenizer = Tokenizer::from_json(file, "fuzz.json");
  if (!tokenizer.ok()) return 0;
  const auto ids = (*tokenizer)->encode(text);
  if (!ids.ok()) return 0;
  if (ids->size() > 32 * text.size() + (64 << 10)) std::abort();
  const auto decoded = (*tokenizer)->decode(*ids);
  if (!decoded.ok() || decoded->size() > ids->size() * (8 * 4 + 1024)) std::abort();
  StreamingDetokenizer stream(**tokenizer);
  std::string streamed;
  for (const TokenId id : *ids) streamed += stream.push(id);
  if (streamed + stream.finish() != *decoded) std::abort();
  return 0;
}
