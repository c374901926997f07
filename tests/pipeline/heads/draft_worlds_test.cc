// Random worlds of models, drafters, schedulers, KV managers, element types, block sizes, chunks,
// memory, arrivals and requests: whatever is drafted, tokens, digests, log probabilities, texts and
// reasons are those of a run without drafts.
//
// A few worlds as a test; TENON_TEST_WORLDS=200 makes as many for each model, TENON_TEST_WORLD=17
// one, and TENON_TEST_FIRST=1000 begins with another. A failure prints the world's number, which is
// its seed, and what it consists of. TENON_TEST_MODELS=all takes every golden model.
#include <filesystem>

#include "tests/pipeline/heads/draft_world.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using test::Dice;
using test::DraftWorlds;
using test::Overrides;

// A model with texts, an adapter and every drafter.
class WorldsOfDrafters : public DraftWorlds {
 protected:
  WorldsOfDrafters() {
    const std::string from = golden_models() + GetParam();
    for (const auto& file : std::filesystem::directory_iterator(from)) {
      std::filesystem::create_symlink(file.path(), folder_.path(file.path().filename().string()));
    }
    folder_.write_file("tokenizer.json", tokenizer());
    adapter_ = "other";
  }
  // Three tokens without a text, then every printable character.
  static std::string tokenizer() {
    std::string pieces = R"("<u>":0,"<s>":1,"</s>":2)";
    for (int i = 3; i < 97; ++i) {
      const char character = static_cast<char>(' ' + i - 3);
      const std::string escaped = character == '"' || character == '\\' ? "\\" : "";
      pieces += ",\"" + escaped + character + "\":" + std::to_string(i);
    }
    return R"({"version":"1.0","added_tokens":[)"
           R"({"id":1,"content":"<s>","special":true,"single_word":false,"lstrip":false,)"
           R"("rstrip":false,"normalized":false},{"id":2,"content":"</s>","special":true,)"
           R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],)"
           R"("normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
           R"("decoder":{"type":"Fuse"},"model":{"type":"BPE","dropout":null,"unk_token":"<u>",)"
           R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
           R"("byte_fallback":false,"merges":[],"vocab":{)" +
           pieces + "}}}";
  }
  std::string model_path() const override { return folder_.path(); }
  bool has_text() override { return true; }
  Overrides of_model(Dice&) override {
    return {"adapters.other=" + source_folder() + "/tests/golden/adapters/llama"};
  }
  Overrides drafter(Dice& dice) override {
    const std::string heads = "drafter.model=" + source_folder() + "/tests/golden/heads/";
    static constexpr const char* kRandom[] = {"eagle3", "eagle",  "peagle",
                                              "dflash", "dspark", "medusa"};
    switch (dice.below(8)) {
      case 0:
        return shaped(dice,
                      {"drafter.plugin=eagle3", heads + "llama_tied",
                       "drafter.options.norm_before_residual=no"},
                      true);
      case 1:
        return shaped(dice, {"drafter.plugin=draft_model", "drafter.model=" + folder_.path()},
                      true);
      case 2:
        return shaped(dice, {"drafter.plugin=dflash", heads + "dspark_llama_tied"}, false);
      case 3:
        return shaped(dice, {"drafter.plugin=medusa", heads + "medusa_llama_tied"}, false);
      case 4:
        return shaped(dice, {"drafter.plugin=suffix"}, false);
      case 5:
        return shaped(dice, {"drafter.plugin=ngram"}, false);
      default:
        return random_head(dice, dice.one_of(kRandom), true);
    }
  }

  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Models, WorldsOfDrafters, testing::Values("llama_tied"));
TEST_P(WorldsOfDrafters, change_nothing) {
  live_all();
}

std::string plain_name(const testing::TestParamInfo<const char*>& one) {
  const std::string name = one.param;
  return name.substr(name.rfind('/') + 1);
}

// Models that have layers for drafts.
class WorldsOfModules : public DraftWorlds {
 protected:
  bool recurs() const {
    const std::string name = GetParam();
    return name.find("qwen3_5") != std::string::npos || name.find("nemotron") != std::string::npos;
  }
  Overrides drafter(Dice& dice) override { return shaped(dice, {"drafter.plugin=mtp"}, !recurs()); }
};
INSTANTIATE_TEST_SUITE_P(Models, WorldsOfModules,
                         testing::Values("../mtp/deepseek_v3", "../mtp/ernie4_5_moe",
                                         "../mtp/glm4_moe", "../mtp/longcat", "../mtp/mimo_v2",
                                         "../mtp/nemotron_h", "../mtp/qwen2_mimo", "../mtp/qwen3_5",
                                         "../mtp/step3p5"),
                         plain_name);
TEST_P(WorldsOfModules, change_nothing) {
  live_all();
}

// Any model, with heads that were not made for it, and with itself.
class WorldsOfFamilies : public DraftWorlds {
 protected:
  bool recurs() {
    auto pipeline = build({});
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return false;
    const ModelShape& shape = (*pipeline)->shape->shape();
    return std::ranges::any_of(std::span(shape.groups, shape.group_count),
                               [](const KvGroup& g) { return g.kind == KvKind::recurrent; });
  }
  Overrides drafter(Dice& dice) override {
    static constexpr const char* kKinds[] = {"eagle3", "eagle",  "peagle", "dflash",
                                             "dspark", "medusa", "itself", "itself"};
    const std::string kind = dice.one_of(kKinds);
    const bool recurrent = recurs();
    if (kind == "itself" && !recurrent) {
      return shaped(dice, {"drafter.plugin=draft_model", "drafter.model=" + model_path()}, true);
    }
    return random_head(dice, kind == "itself" ? "eagle" : kind.c_str(), !recurrent);
  }
};
constexpr const char* kFamilies[] = {"bamba",       "bloom",       "cohere2",
                                     "deepseek_v2", "doge",        "falcon",
                                     "falcon_h1",   "gemma2",      "gemma3",
                                     "gpt2",        "gpt_oss",     "granite4",
                                     "jamba",       "kimi_linear", "lfm2",
                                     "llama4",      "mamba2",      "minimax",
                                     "olmo2",       "phi3",        "qwen2_sliding_layers",
                                     "qwen3_next",  "smollm3",     "stablelm_parallel",
                                     "zamba2"};

// These, or all golden models that generate token by token.
std::vector<const char*> families() {
  if (std::getenv("TENON_TEST_MODELS") == nullptr) {
    return {std::begin(kFamilies), std::end(kFamilies)};
  }
  static std::vector<std::string> names;
  for (const auto& folder : std::filesystem::directory_iterator(golden_models())) {
    const std::string name = folder.path().filename();
    if (!name.starts_with("llada")) names.push_back(name);
  }
  std::vector<const char*> all;
  for (const std::string& name : names) all.push_back(name.c_str());
  return all;
}
INSTANTIATE_TEST_SUITE_P(Models, WorldsOfFamilies, testing::ValuesIn(families()), plain_name);
TEST_P(WorldsOfFamilies, change_nothing) {
  live_all();
}

}  // namespace
}  // namespace tenon
