// What a compiled schema lets through, for whoever compares it with other validators. Reads a line
// of JSON a schema, {"schema": TEXT, "instances": [TEXT, …], "answers": N, "seed": S}, and writes a
// line for it: {"refused": MESSAGE}, or {"accepts": [true, …], "answers": [TEXT, …]} with answers
// that are drawn at random from what the masks of a vocabulary of bytes and words allow.
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/grammar/matcher.h"
#include "core/grammar/matching/machine.h"

namespace tenon::grammar {
namespace {

using Json = nlohmann::json;

constexpr TokenId kEnd = 256;
constexpr int kLongStep = 60, kMostSteps = 4000;
constexpr uint32_t kCloserChance = 3;  // one step in so many, once an answer is long

std::shared_ptr<const Vocabulary> vocabulary_of_words() {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  bytes.emplace_back();  // kEnd
  for (const char* word :
       {"foo", "bar", "baz",     "\"foo\"", "\": ", "\", \"", "\":",   "\"}",
        "\"]", "}}",  "true",    "false",   "null", "12",     "1.5",   "-3",
        "{\"", "[\"", "\\u00e9", "é",       "the",  " king",  "a@b.c", "2024-"}) {
    bytes.emplace_back(word);
  }
  return *Vocabulary::make(std::move(bytes));
}

bool is_closer(std::string_view bytes) {
  return bytes == "\"" || bytes == "}" || bytes == "]";
}

// Absent where it did not come to an end.
std::optional<std::string> draw_answer(Matcher matcher, const Vocabulary& vocabulary,
                                       std::mt19937& random) {
  std::string text;
  std::vector<uint64_t> mask(vocabulary.words());
  for (int step = 0; step < kMostSteps; ++step) {
    if (!matcher.fill_mask(mask).ok()) return std::nullopt;
    std::vector<TokenId> allowed, closers;
    for (uint32_t id = 0; id < vocabulary.size(); ++id) {
      if ((mask[id / 64] >> (id % 64) & 1) == 0) continue;
      allowed.push_back(static_cast<TokenId>(id));
      if (is_closer(vocabulary.bytes(allowed.back()))) closers.push_back(allowed.back());
    }
    if (allowed.empty()) return std::nullopt;
    TokenId token = allowed[random() % allowed.size()];
    if (step > kLongStep && !closers.empty() && random() % kCloserChance == 0) {
      token = closers[random() % closers.size()];
    }
    const bool may_end = std::find(allowed.begin(), allowed.end(), kEnd) != allowed.end();
    if (may_end && (step > kLongStep || random() % 2 == 0)) token = kEnd;
    if (!matcher.accept(token)) return std::nullopt;
    if (token == kEnd) return text;
    text += vocabulary.bytes(token);
  }
  return std::nullopt;
}

Json probe(const Json& order, const std::shared_ptr<const Vocabulary>& vocabulary) {
  auto grammar = compile({GrammarKind::json_schema, order.at("schema").get<std::string>()});
  if (!grammar.ok()) return {{"refused", message_of(grammar.status())}};
  Json accepts = Json::array();
  for (const Json& instance : order.at("instances")) {
    Machine machine((*grammar)->automaton());
    const ConfigId end = machine.walk(machine.start(), instance.get<std::string>());
    accepts.push_back(end != kDeadConfig && machine.accepts(end));
  }
  Json answers = Json::array();
  std::mt19937 random(order.at("seed").get<uint32_t>());
  const Matcher matcher(*grammar, vocabulary, {kEnd});
  for (int i = 0; i < order.at("answers").get<int>(); ++i) {
    if (auto answer = draw_answer(matcher, *vocabulary, random)) answers.push_back(*answer);
  }
  return {{"accepts", std::move(accepts)}, {"answers", std::move(answers)}};
}

}  // namespace
}  // namespace tenon::grammar

int main() {
  const auto vocabulary = tenon::grammar::vocabulary_of_words();
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << tenon::grammar::probe(nlohmann::json::parse(line), vocabulary)
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}
