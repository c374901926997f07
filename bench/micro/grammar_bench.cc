// What masks of grammars over a large vocabulary cost: one token's along an answer, and compiling.
//
//   grammar_bench [--tokenizer=FOLDER] [--tokens=128000] [--answers=40]
//
// Without a tokenizer the vocabulary is made up: words and pieces of words of ASCII and of other
// scripts, with and without a space in front, digits, punctuation, runs of spaces. Answers are
// drawn at random from what is allowed, and end where they may. Each answer of a grammar uses what
// those before it have found out, as requests of a server do; "1st" are answers of which each is
// the first of its grammar. "thought" is what a model thinks before a form, in any words,
// until a text or a special token ends it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <unordered_set>

#include "core/grammar/matcher.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon::grammar {
namespace {

// Of this thread alone: other programs count as little as they can.
double thread_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

std::vector<std::string> made_up(size_t count) {
  std::mt19937 random(1);
  std::unordered_set<std::string> known;
  std::vector<std::string> tokens;
  const auto add = [&](std::string text) {
    if (tokens.size() < count && known.insert(text).second) tokens.push_back(std::move(text));
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (size_t run = 2; run <= 80; ++run) {
    add(std::string(run, ' '));
    add("\n" + std::string(run, ' '));
    add(std::string(run, '-'));
  }
  const char* const marks[] = {"\"",  "\",", "\":", "\": \"", "{\"",  "\"}", "},",
                               "},{", "[",   "],",  "\\n",    "\\\"", ";\n", "()",
                               "();", "=\"", "/>",  "//",     ", ",   ". "};
  for (const char* mark : marks) add(mark);
  for (int number = 0; number < 1000; ++number) add(std::to_string(number));
  const char* const others[] = {"ä", "é", "и", "о", "н", "的", "是", "の", "ا", "한"};
  while (tokens.size() < count) {
    std::string word;
    const bool ascii = random() % 10 < 7;
    const size_t length = 1 + (random() % 4 + random() % 4 + random() % 3);
    for (size_t i = 0; i < length; ++i) {
      word +=
          ascii ? std::string(1, "etaoinshrdlucmfwypvbgkjqxz"[random() % 26 * (random() % 26) / 26])
                : others[random() % 10];
    }
    if (random() % 6 == 0) word[0] = static_cast<char>(std::toupper(word[0]));
    if (random() % 2 == 0) word = " " + word;
    if (random() % 40 == 0) word += marks[random() % std::size(marks)];
    if (random() % 60 == 0) word = marks[random() % std::size(marks)] + word;
    add(word);
  }
  return tokens;
}

std::vector<std::string> of_tokenizer(const std::string& folder) {
  auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", std::string(tokenizer.status().message()).c_str());
    std::exit(1);
  }
  std::vector<std::string> bytes;
  for (uint32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    bytes.push_back((*tokenizer)->is_special(token) ? "" : (*tokenizer)->token_bytes(token));
  }
  return bytes;
}

struct Times {
  std::vector<double> us;
  double at(double share) {
    if (us.empty()) return 0;
    std::sort(us.begin(), us.end());
    return us[std::min(us.size() - 1, static_cast<size_t>(share * static_cast<double>(us.size())))];
  }
};

// One answer: random tokens, closing ones more often the longer it gets.
void follow(Matcher& matcher, const Vocabulary& vocabulary, TokenId end, std::mt19937& random,
            Times& masks, Times& accepts) {
  std::vector<uint64_t> mask(vocabulary.words());
  for (int step = 0; step < 200; ++step) {
    double start = thread_us();
    if (!matcher.fill_mask(mask).ok()) std::exit(1);
    masks.us.push_back(thread_us() - start);
    TokenId token = kNoToken;
    const auto allowed = [&](uint32_t id) { return ((mask[id / 64] >> (id % 64)) & 1) != 0; };
    if (allowed(static_cast<uint32_t>(end))) return;
    for (int tries = 0; tries < 400 && token == kNoToken; ++tries) {
      const auto id = static_cast<uint32_t>(random() % vocabulary.size());
      if (allowed(id)) token = static_cast<TokenId>(id);
    }
    for (uint32_t id = 0; id < vocabulary.size() && token == kNoToken; ++id) {
      if (allowed(id)) token = static_cast<TokenId>(id);
    }
    for (const char close : std::string("\"]}")) {
      const auto id = static_cast<uint32_t>(close);
      if (allowed(id) && random() % 60 < static_cast<uint32_t>(step))
        token = static_cast<TokenId>(id);
    }
    start = thread_us();
    if (token == kNoToken || !matcher.accept(token)) std::exit(1);
    accepts.us.push_back(thread_us() - start);
  }
}

constexpr int kFirstAnswers = 10;

constexpr std::pair<const char*, const char*> kSchemas[] = {
    {"record",
     R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"},"maxItems":10},"address":{"type":"object","properties":{"street":{"type":"string","maxLength":80},"city":{"type":"string","maxLength":40},"zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street","city"],"additionalProperties":false}},"required":["name","age","address"],"additionalProperties":false})"},
    {"open record",
     R"({"type":"object","properties":{"id":{"type":"integer"},"kind":{"enum":["alpha","beta","gamma"]},"score":{"type":"number","minimum":0,"maximum":1}},"required":["id","kind"]})"},
    {"tree",
     R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"label":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["label"],"additionalProperties":false}}})"},
    {"codes",
     R"({"type":"array","items":{"type":"object","properties":{"code":{"type":"string","pattern":"^[A-Z]{2}-[0-9a-f]{4,12}$"},"title":{"type":"string","pattern":"^[A-Z][a-z]*( [a-z]+)*$","maxLength":60},"note":{"type":"string","maxLength":12},"host":{"type":"string","format":"hostname"}},"required":["code","title","note","host"],"additionalProperties":false},"minItems":2})"},
    {"words", R"({"type":"array","items":{"type":"string","pattern":"^[a-z_]+$"},"minItems":3})"},
};

struct Other {
  const char* name;
  GrammarKind kind;
  const char* text;
};
constexpr Other kOthers[] = {
    {"times", GrammarKind::regex,
     R"x(([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\n){5,})x"},
    {"addresses", GrammarKind::regex,
     R"x((https?://[a-z0-9.-]+(/[A-Za-z0-9_.~-]*)*(\?[a-z]+=[^&\s]*(&[a-z]+=[^&\s]*)*)?\n){5,})x"},
    {"sentences", GrammarKind::regex, R"x(([A-Z][^.!?\n]{10,200}[.!?]\s){3,})x"},
    {"not quoted", GrammarKind::regex, R"x("([^"\\]|\\.){40,}")x"},
    {"sums", GrammarKind::gbnf,
     R"x(root ::= (sum "\n"){4,}
sum ::= term (" " [-+*/] " " term)*
term ::= [0-9]+ ("." [0-9]+)? | name | "(" sum ")"
name ::= [a-z_] [a-z0-9_]*)x"},
    {"list", GrammarKind::gbnf, R"x(root ::= (("- " | [0-9]+ ". ") [^\n]+ "\n"){5,})x"},
    {"statements", GrammarKind::gbnf,
     R"x(root ::= (line "\n"){4,}
line ::= indent (name " = " value | "return " value | "if " value ":" | "# " [^\n]*)
indent ::= ("  "){0,8}
value ::= name | [0-9]+ | "\"" ([^"\\\n] | "\\" [nt"\\])* "\"" | name "(" (value (", " value)*)? ")"
name ::= [A-Za-z_] [A-Za-z0-9_]*)x"},
};

void measure(const char* name, const GrammarSpec& spec,
             const std::shared_ptr<const Vocabulary>& vocabulary, TokenId end, int answers) {
  Times compiling;
  std::shared_ptr<const Grammar> grammar;
  for (int i = 0; i < 21; ++i) {
    const double start = thread_us();
    auto compiled = compile(spec);
    if (!compiled.ok()) {
      std::fprintf(stderr, "%s\n", std::string(compiled.status().message()).c_str());
      std::exit(1);
    }
    compiling.us.push_back(thread_us() - start);
    grammar = *compiled;
  }
  std::mt19937 random(5);
  Times first, masks, accepts, ignored;
  for (int i = 0; i < kFirstAnswers; ++i) {
    Matcher matcher(grammar, vocabulary, {end});
    follow(matcher, *vocabulary, end, random, first, accepts);
  }
  const auto runtime = std::make_shared<Runtime>(grammar, vocabulary);
  for (int i = 0; i <= answers; ++i) {
    Matcher matcher(runtime, {end});
    follow(matcher, *vocabulary, end, random, i == 0 ? ignored : masks, accepts);
  }
  std::printf("%-12s %8zu %9.3f %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f %8.2f\n", name,
              grammar->states(), compiling.at(0.5) / 1000, first.at(0.5), first.at(0.99),
              first.at(1), masks.at(0.5), masks.at(0.99), masks.at(1), accepts.at(0.5));
}

std::string flag(int count, char** arguments, const std::string& name,
                 const std::string& otherwise) {
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument.starts_with("--" + name + "=")) return argument.substr(name.size() + 3);
  }
  return otherwise;
}

void run(int count, char** arguments) {
  const std::string folder = flag(count, arguments, "tokenizer", "");
  std::vector<std::string> bytes =
      folder.empty() ? made_up(std::stoul(flag(count, arguments, "tokens", "128000")))
                     : of_tokenizer(folder);
  const auto end = static_cast<TokenId>(bytes.size());
  bytes.emplace_back();
  for (const char* marker : {"<think>", "</think>"}) bytes.push_back(special_bytes(marker));
  const double start = thread_us();
  const std::shared_ptr<const Vocabulary> vocabulary = *Vocabulary::make(std::move(bytes));
  std::printf("%u tokens, laid out in %.0f ms\n", vocabulary->size(), (thread_us() - start) / 1000);
  std::printf("%-12s %8s %9s %8s %8s %8s %8s %8s %8s %8s\n", "grammar", "states", "compile",
              "1st p50", "1st p99", "1st most", "p50", "p99", "most", "accept");
  std::printf("%-12s %8s %9s %8s %8s %8s %8s %8s %8s %8s\n", "", "", "ms", "us", "us", "us", "us",
              "us", "us", "us");
  const int answers = std::stoi(flag(count, arguments, "answers", "40"));
  for (const auto& [name, schema] : kSchemas) {
    measure(name, {GrammarKind::json_schema, schema}, vocabulary, end, answers);
  }
  for (const auto& [name, kind, text] : kOthers) {
    measure(name, {kind, text}, vocabulary, end, answers);
  }
  const GrammarSpec object{GrammarKind::json_object, ""};
  measure("json_object", object, vocabulary, end, answers);
  GrammarSpec thought = object;
  thought.preface = Preface{"", "</think>"};
  measure("thought", thought, vocabulary, end, answers);
  thought.preface = Preface{special_bytes("<think>"), special_bytes("</think>")};
  measure("or thought", thought, vocabulary, end, answers);
}

}  // namespace
}  // namespace tenon::grammar

int main(int count, char** arguments) {
  tenon::grammar::run(count, arguments);
  return 0;
}
