#include "core/tokenizer/files/gguf_patterns.h"

#include <algorithm>
#include <utility>

namespace tenon::tok {
namespace {

using Text = std::string_view;

#define TENON_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TENON_WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define TENON_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

constexpr Text kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr Text kLlama3 = TENON_CONTRACTIONS TENON_WORDS "|\\p{N}{1,3}" TENON_REST;
constexpr Text kQwen2 = TENON_CONTRACTIONS TENON_WORDS "|\\p{N}" TENON_REST;
constexpr Text kTekken =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr Text kGpt4o =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    "+" TENON_CONTRACTIONS
    "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    "*" TENON_CONTRACTIONS
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr Text kQwen35 = TENON_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr Text kMiniCpm5 = TENON_CONTRACTIONS TENON_WORDS "|\\p{N}+" TENON_REST;
// Without contractions, so that what follows an apostrophe in Turkish stays with its word.
constexpr Text kUfakZeka = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TENON_REST;
constexpr Text kJais2 = TENON_CONTRACTIONS TENON_WORDS
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)"
    "|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)"
    "|\\s{1,2}(?!\\S)|\\s{1}";
// Words of one case, as in GPT-4o, none of which has Han characters: those are words of their own.
#define TENON_NOT_HAN(classes) "[" classes "&&[^\\p{Han}]]"
constexpr Text kKimi =
    "[\\p{Han}]+"
    "|[^\\r\\n\\p{L}\\p{N}]?" TENON_NOT_HAN("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}")
    "*" TENON_NOT_HAN("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}") "+" TENON_CONTRACTIONS
    "?|[^\\r\\n\\p{L}\\p{N}]?" TENON_NOT_HAN("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}")
    "+" TENON_NOT_HAN("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}") "*" TENON_CONTRACTIONS
    "?|\\p{N}{1,3}" TENON_REST;
#undef TENON_NOT_HAN
// As GPT-4o, with digits one by one.
constexpr Text kYoutu =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    "+" TENON_CONTRACTIONS
    "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    "*" TENON_CONTRACTIONS
    "?|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
// Words of several Korean words, too.
constexpr Text kExaoneMoe = TENON_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
constexpr Text kSeedCoder = TENON_CONTRACTIONS TENON_WORDS
    "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
constexpr Text kBailing =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";

// The same in other notations, as files have them.
constexpr std::pair<Text, Text> kNotations[] = {
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", kGpt2},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}"
     "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     kLlama3}};

#undef TENON_CONTRACTIONS
#undef TENON_WORDS
#undef TENON_REST

// The letters of deepseek-llm: most of those with case, as far as its tokenizer lists them.
constexpr Text kDeepseekLetters =
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}"
    "\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}"
    "\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}"
    "\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}"
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}"
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}"
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}"
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{"
    "FB17}"
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"
    "\\x{1E900}-\\x{1E943}]+";
constexpr Text kDeepseekMarks =
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+";
constexpr Text kDeepseek3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+"
    "|\\s+(?!\\S)|\\s+";
constexpr Text kAfmoe =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+"
    "|\\s+(?!\\S)|\\s+";
// Digits in threes from the right: "12", "345", "678".
constexpr Text kDigitsFromTheRight = "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))";
// It counts the width of these letters in another way each time.
// clang-format off
// Scripts without spaces between words, among them Thai, Lao, Khmer and Burmese.
constexpr Text kUnspaced = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+";
constexpr Text kAsianMarks = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+";
// clang-format on
constexpr Text kChineseAndKana = "[一-龥぀-ゟ゠-ヿ]+";
constexpr Text kBloom = " ?[^(\\s|.,!?…。，、।۔،)]+";
constexpr Text kCjk = "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+";

constexpr Text kGpt2Names[] = {"gpt-2",          "phi-2",   "mpt",    "olmo",    "jais",
                               "gigachat",       "a.x-4.0", "mellum", "exaone4", "trillion",
                               "granite-docling"};
constexpr Text kGpt2Patterns[] = {kGpt2};
constexpr Text kLlama3Names[] = {"llama-bpe", "llama3",   "llama-v3", "falcon3",     "falcon-h1",
                                 "pixtral",   "midm-2.0", "lfm2",     "jina-v5-nano"};
constexpr Text kLlama3Patterns[] = {kLlama3};
constexpr Text kSmaugNames[] = {"smaug-bpe", "dbrx", "glm4", "chatglm-bpe"};
constexpr Text kQwen2Names[] = {"qwen2",   "stablelm2",  "deepseek-r1-qwen", "megrez", "kormo",
                                "hunyuan", "solar-open", "grok-2",           "f2llmv2"};
constexpr Text kQwen2Patterns[] = {kQwen2};
constexpr Text kDigitNames[] = {"smollm",    "starcoder", "refact",     "command-r",
                                "codeshell", "exaone",    "minerva-7b", "mellum2"};
constexpr Text kDigitPatterns[] = {"\\p{N}", kGpt2};
constexpr Text kTekkenNames[] = {"tekken"};
constexpr Text kTekkenPatterns[] = {kTekken};
constexpr Text kDeepseekNames[] = {"deepseek-llm"};
constexpr Text kDeepseekPatterns[] = {"[\r\n]", kDeepseekLetters, kDeepseekMarks, "\\s+$",
                                      kCjk,     "\\p{N}+"};
constexpr Text kCoderNames[] = {"deepseek-coder"};
constexpr Text kCoderPatterns[] = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kCjk, "\\p{N}"};
constexpr Text kDeepseek3Names[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"};
constexpr Text kDeepseek3Patterns[] = {"\\p{N}{1,3}", kChineseAndKana, kDeepseek3};
constexpr Text kFalconNames[] = {"falcon"};
constexpr Text kFalconPatterns[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2, "[0-9][0-9][0-9]"};
constexpr Text kGpt4oNames[] = {"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"};
constexpr Text kGpt4oPatterns[] = {kGpt4o};
constexpr Text kQwen35Names[] = {"qwen35"};
constexpr Text kQwen35Patterns[] = {kQwen35};
constexpr Text kMiniCpm5Names[] = {"minicpm5"};
constexpr Text kMiniCpm5Patterns[] = {"\\p{N}{1,3}", kMiniCpm5};
constexpr Text kSeedCoderNames[] = {"seed-coder"};
constexpr Text kSeedCoderPatterns[] = {kSeedCoder};
constexpr Text kBailingNames[] = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr Text kBailingPatterns[] = {kBailing};
constexpr Text kBloomNames[] = {"bloom", "poro-chat", "gpt3-finnish"};
constexpr Text kBloomPatterns[] = {kBloom};
constexpr Text kVikingNames[] = {"viking"};
constexpr Text kVikingPatterns[] = {kBloom, "\\p{N}"};
constexpr Text kKimiNames[] = {"kimi-k2"};
constexpr Text kKimiPatterns[] = {kKimi};
constexpr Text kAfmoeNames[] = {"afmoe"};
constexpr Text kAfmoePatterns[] = {kDigitsFromTheRight, kUnspaced, kAfmoe};
constexpr Text kLagunaNames[] = {"laguna"};
constexpr Text kLagunaPatterns[] = {"[^\\n]+|[\\n]+", kQwen2};
constexpr Text kExaoneMoeNames[] = {"exaone-moe"};
constexpr Text kExaoneMoePatterns[] = {kExaoneMoe};
constexpr Text kJais2Names[] = {"jais-2"};
constexpr Text kJais2Patterns[] = {kJais2};
constexpr Text kYoutuNames[] = {"youtu"};
constexpr Text kYoutuPatterns[] = {kAsianMarks, kYoutu};
constexpr Text kTinyAyaNames[] = {"tiny_aya", "cohere2moe"};
constexpr Text kTinyAyaPatterns[] = {"\\d{1,3}(?=(?:\\d{3})*\\b)", kGpt4o};
constexpr Text kSuperBpeNames[] = {"superbpe"};
constexpr Text kSuperBpePatterns[] = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"};
constexpr Text kUfakZekaNames[] = {"ufakzeka"};
constexpr Text kUfakZekaPatterns[] = {kUfakZeka};
// What files mean that name nothing: made before the key existed.
constexpr Text kDefaultNames[] = {"default"};
constexpr Text kDefaultPatterns[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", kGpt2, "\\p{N}+",
                                     "[0-9][0-9][0-9]"};

constexpr SplitRule kRules[] = {
    {kDefaultNames, kDefaultPatterns},
    {kGpt2Names, kGpt2Patterns},
    {kLlama3Names, kLlama3Patterns, true, true},
    {kSmaugNames, kLlama3Patterns},
    {kQwen2Names, kQwen2Patterns},
    {kDigitNames, kDigitPatterns},
    {kTekkenNames, kTekkenPatterns, true, true},
    {kDeepseekNames, kDeepseekPatterns},
    {kCoderNames, kCoderPatterns},
    {kDeepseek3Names, kDeepseek3Patterns},
    {kFalconNames, kFalconPatterns},
    {kGpt4oNames, kGpt4oPatterns},
    {kQwen35Names, kQwen35Patterns},
    {kMiniCpm5Names, kMiniCpm5Patterns, true},
    {kSeedCoderNames, kSeedCoderPatterns},
    {kBailingNames, kBailingPatterns},
    {kBloomNames, kBloomPatterns},
    {kVikingNames, kVikingPatterns},
    {kKimiNames, kKimiPatterns},
    {kAfmoeNames, kAfmoePatterns},
    {kLagunaNames, kLagunaPatterns},
    {kExaoneMoeNames, kExaoneMoePatterns},
    {kJais2Names, kJais2Patterns},
    {kYoutuNames, kYoutuPatterns, true},
    {kTinyAyaNames, kTinyAyaPatterns},
    {kSuperBpeNames, kSuperBpePatterns},
    {kUfakZekaNames, kUfakZekaPatterns},
};

}  // namespace

const SplitRule* find_split_rule(std::string_view name) {
  const auto found = std::ranges::find_if(kRules, [&](const SplitRule& rule) {
    return std::ranges::find(rule.names, name) != rule.names.end();
  });
  return found == std::end(kRules) ? nullptr : found;
}

std::string_view usual_notation(std::string_view pattern) {
  const auto* found = std::ranges::find(kNotations, pattern, &std::pair<Text, Text>::first);
  return found == std::end(kNotations) ? pattern : found->second;
}

const SplitRule* find_split_rule(const std::vector<std::string>& patterns, bool ignore_merges) {
  const auto found = std::ranges::find_if(kRules, [&](const SplitRule& rule) {
    return rule.ignore_merges == ignore_merges &&
           std::ranges::equal(rule.patterns, patterns, {}, {}, usual_notation);
  });
  return found == std::end(kRules) ? nullptr : found;
}

std::span<const SplitRule> split_rules() {
  return kRules;
}

std::string split_rule_names() {
  std::string names;
  for (const SplitRule& rule : kRules) {
    for (const std::string_view name : rule.names) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
  }
  return names;
}

std::string_view gpt2_pattern() {
  return kGpt2;
}

}  // namespace tenon::tok
