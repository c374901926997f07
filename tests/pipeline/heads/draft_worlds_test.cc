// Random worlds of models, drafters, schedulers, KV managers, element types, block sizes, chunks,
// memory, arrivals and requests: whatever is drafted, tokens, digests, log probabilities, texts and
// reasons are those of a run without drafts.
//
// A few worlds as a test; TENON_TEST_WORLDS=200 makes as many for each model, TENON_TEST_WORLD=17
// one. A failure prints the world's number, which is its seed, and what it consists of.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/exec/cpu/executor.h"
#include "core/grammar/grammar.h"
#include "tests/support/random_head.h"
#include "tests/support/recurrent_pipelines.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using test::HeadTarget;
using test::Overrides;
using test::RandomHead;

constexpr uint64_t kWorlds = 1;  // for each model

ExecutorFactories executors() {
  ExecutorFactories made;
  made["cpu"] = [](const HostFacts& host) { return make_cpu_executor({2, host.cpu}); };
  return made;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint32_t below(uint32_t count) { return static_cast<uint32_t>(random_() % count); }
  uint32_t from(uint32_t least, uint32_t most) { return least + below(most - least + 1); }
  bool once_in(uint32_t times) { return below(times) == 0; }
  template <typename T, size_t count>
  const T& one_of(const T (&list)[count]) {
    return list[below(count)];
  }

 private:
  std::mt19937_64 random_;
};

std::string bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return std::to_string(bits);
}

// All that whoever asked is told, but for times.
std::string told(const ResultSink& sink) {
  std::string text;
  for (const ResultSink::Token& token : sink.prompt()) text += bits_of(token.logprob) + ",";
  for (const ResultSink::Sample& sample : sink.samples()) {
    text += "\nreason " + std::to_string(static_cast<int>(sample.reason)) + " digest " +
            std::to_string(sample.record.logits_digest) + " stop '" + sample.stop + "' text '" +
            sample.text + "' " + sample.message + ":";
    for (const ResultSink::Token& token : sample.tokens) {
      text += " " + std::to_string(token.token) + "/" + bits_of(token.logprob);
      for (const TokenLogprob& top : token.top) text += "+" + std::to_string(top.token);
    }
  }
  return text;
}

class DraftWorlds : public test::RecurrentPipelinesOn {
 protected:
  DraftWorlds() : RecurrentPipelinesOn(executors()) {}

  // What drafts in a world, and of the model: the tokens that prompts have, and how it is read.
  virtual Overrides drafter(Dice& dice) = 0;
  virtual Overrides of_model(Dice&) { return {}; }
  virtual bool has_text() { return false; }

  HeadTarget target() {
    if (target_.hidden > 0) return target_;
    auto pipeline = build({});
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return target_;
    const ModelShape& shape = (*pipeline)->shape->shape();
    target_ = {shape.hidden, shape.vocabulary, shape.layer_count, 96};
    return target_;
  }

  // The same requests with and without drafts.
  std::vector<Request> asked(uint64_t seed) {
    Dice dice(seed);
    const uint32_t vocabulary = target().vocabulary;
    const auto token = [&](uint32_t n) { return static_cast<TokenId>(3 + n % (vocabulary - 3)); };
    std::vector<Request> all;
    const uint32_t count = 2 + dice.below(7);
    const uint32_t common = dice.once_in(2) ? 0 : 8 + dice.below(24);
    for (uint32_t i = 0; i < count; ++i) {
      Request request;
      for (uint32_t t = 0; t < common; ++t) request.prompt.push_back(token(t * 7));
      // Of their own, at random or over and over again.
      const uint32_t own = 1 + dice.below(common == 0 ? 50 : 20), period = 1 + dice.below(9);
      const bool repeats = dice.once_in(2);
      for (uint32_t t = 0; t < own; ++t) {
        request.prompt.push_back(token(repeats ? t % period * 5 + i : dice.below(1000)));
      }
      request.max_tokens = 1 + dice.below(36);
      request.ignore_eos = !dice.once_in(4);
      if (dice.once_in(6)) request.min_tokens = request.max_tokens / 2;
      if (dice.once_in(6)) request.stop_tokens = {token(dice.below(1000))};
      if (dice.once_in(8)) request.samples = 2 + dice.below(2);
      if (dice.once_in(8)) request.cache_salt = 1 + dice.below(2);
      if (dice.once_in(8)) request.prompt_logprobs = true;
      request.priority = static_cast<int32_t>(dice.below(3));
      request.tenant = dice.below(3);
      sample_somehow(request, dice, seed * 100 + i);
      if (has_text()) write_somehow(request, dice);
      all.push_back(std::move(request));
    }
    return all;
  }

  static void sample_somehow(Request& request, Dice& dice, uint64_t seed) {
    SamplingParams& how = request.sampling;
    how.seed = seed;
    how.temperature = dice.once_in(2) ? 0.0f : 0.9f;
    if (dice.once_in(3)) how.repetition_penalty = 1.2f;
    if (dice.once_in(6)) how.presence_penalty = 0.4f;
    if (dice.once_in(6)) how.frequency_penalty = 0.3f;
    if (dice.once_in(6)) how.dry_multiplier = 0.6f;
    if (dice.once_in(4)) how.logprobs = 1 + dice.below(3);
    if (dice.once_in(8)) request.lists.logit_bias = {{4, 1.5f}, {6, -2.0f}};
    if (dice.once_in(8)) request.lists.bad_words = {{5}, {7, 8}};
    if (how.temperature == 0.0f) return;
    if (dice.once_in(6)) {  // in place of what cuts
      how.mirostat = 1 + dice.below(2);
      return;
    }
    if (dice.once_in(3)) how.top_k = 5 + dice.below(12);
    if (dice.once_in(3)) how.top_p = 0.9f;
    if (dice.once_in(4)) how.min_p = 0.02f;
    if (dice.once_in(6)) how.typical_p = 0.9f;
    if (dice.once_in(6)) how.top_n_sigma = 2.5f;
    if (dice.once_in(6)) how.xtc_probability = 0.4f;
    if (dice.once_in(6)) how.dynamic_temperature_range = 0.3f;
    if (dice.once_in(8)) how.watermark_delta = 1.0f;
  }
  static void write_somehow(Request& request, Dice& dice) {
    if (dice.once_in(3)) {
      static constexpr const char* kForms[] = {"[a-m]{3,40}", "([a-f]{1,3} ){1,9}[A-Z]{1,20}",
                                               "(.[a-z ]{0,4}){2,30}"};
      auto compiled = grammar::compile({grammar::GrammarKind::regex, dice.one_of(kForms)});
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      request.grammar = *compiled;
      request.ignore_eos = false;
      request.min_tokens = 0;
      request.stop_tokens.clear();
    } else if (dice.once_in(3)) {
      request.stop = {std::string(1, static_cast<char>('a' + dice.below(20))), "BC"};
      request.include_stop = dice.once_in(2);
    }
  }

  // Some arrive while others run.
  std::vector<std::string> answers(const Overrides& overrides, uint64_t seed) {
    auto pipeline = build(overrides);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return {};
    EngineOptions options = (*pipeline)->engine_options();
    options.check_kv = true;
    options.logits_digest = true;
    Engine engine((*pipeline)->parts(), options);
    Dice dice(seed + 7);
    std::vector<std::shared_ptr<ResultSink>> sinks;
    for (Request& request : asked(seed)) {
      sinks.push_back(std::make_shared<ResultSink>());
      request.sink = sinks.back();
      if (!adapter_.empty() && dice.once_in(2)) request.adapter = adapter_;
      const auto id = engine.submit(std::move(request));
      EXPECT_TRUE(id.ok()) << id.status().message();
      for (uint32_t steps = dice.once_in(2) ? 0 : dice.below(6); steps > 0; --steps) {
        EXPECT_TRUE(engine.step().ok());
      }
    }
    const Status ended = engine.run_until_idle(20000);
    EXPECT_TRUE(ended.ok()) << ended.message();
    EXPECT_EQ(engine.last_fault(), "");
    drafted_ += engine.totals().drafts.tokens;
    kept_ += engine.totals().drafts.accepted;
    preempted_ += engine.totals().preemptions;
    std::vector<std::string> all;
    for (const auto& sink : sinks) all.push_back(told(*sink));
    return all;
  }

  Overrides surroundings(Dice& dice) {
    static constexpr const char* kSchedulers[] = {"static", "continuous", "chunked", "fair"};
    const std::string scheduler = dice.one_of(kSchedulers);
    const std::string manager = test::kManagers[dice.below(4)];
    Overrides world = {"scheduler.plugin=" + scheduler, "kv_cache.plugin=" + manager,
                       "limits.max_sequences=" + std::to_string(1 + dice.below(8))};
    if (scheduler == "continuous" && dice.once_in(2)) {
      world.push_back("scheduler.options.chunk_tokens=" + std::to_string(1 + dice.below(9)));
    }
    if (dice.once_in(3)) world.emplace_back("engine.plan_ahead=1");
    if (manager == "naive") return world;
    static constexpr const char* kBlocks[] = {"1", "2", "4", "8", "16"};
    world.push_back(std::string("kv_cache.block_tokens=") + dice.one_of(kBlocks));
    if (dice.once_in(4)) world.emplace_back("kv_cache.swap_memory=1MiB");
    return world;
  }

  void live(uint64_t seed) {
    Dice dice(seed ^ 0x9e3779b97f4a7c15u);
    static constexpr const char* kTypes[] = {"f32", "bf16", "f16", "i8", "i4"};
    Overrides common = of_model(dice);
    common.push_back(std::string("kv_cache.dtype=") + dice.one_of(kTypes));
    Overrides world = drafter(dice);
    if (world.empty()) return;
    const Overrides around = surroundings(dice);
    const bool pages = around[1] != "kv_cache.plugin=naive";
    for (const Overrides& more : {common, around}) {
      world.insert(world.end(), more.begin(), more.end());
    }
    // For one sequence of any length, and often not for two.
    if (pages && dice.once_in(2)) world.push_back(memory_for(8, 112 + dice.below(200), world));
    std::string said;
    for (const std::string& each : world) said += each + "\n";
    SCOPED_TRACE("world " + std::to_string(seed) + "\n" + said);
    Overrides plain = {"scheduler.plugin=static", "kv_cache.plugin=naive"};
    plain.insert(plain.end(), common.begin(), common.end());
    const std::vector<std::string> alone = answers(plain, seed), drafted = answers(world, seed);
    ASSERT_EQ(drafted.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(drafted[i], alone[i]) << "request " << i;
    ++lived_;
  }

  void live_all() {
    const char* one = std::getenv("TENON_TEST_WORLD");
    if (one != nullptr) return live(std::strtoull(one, nullptr, 10));
    const char* many = std::getenv("TENON_TEST_WORLDS");
    const uint64_t worlds = many == nullptr ? kWorlds : std::strtoull(many, nullptr, 10);
    for (uint64_t i = 0; i < worlds && !HasFailure(); ++i) live(1 + i);
    if (many == nullptr) return;
    std::printf("%s: %llu worlds, %llu drafted tokens, %llu kept, %llu preemptions\n", GetParam(),
                static_cast<unsigned long long>(lived_), static_cast<unsigned long long>(drafted_),
                static_cast<unsigned long long>(kept_),
                static_cast<unsigned long long>(preempted_));
  }

  // Numbers of drafts, and trees where they may be.
  static Overrides shaped(Dice& dice, Overrides drafter, bool trees) {
    drafter.push_back(std::string("drafter.options.adaptive=") +
                      (dice.once_in(4) ? "true" : "false"));
    if (dice.once_in(2)) {
      drafter.push_back("drafter.options.max_draft_tokens=" + std::to_string(1 + dice.below(7)));
    }
    static constexpr const char* kTrees[] = {"2,2", "3,2,1", "1,2,2", "grow", "2,1,1,1", "5"};
    if (trees && dice.once_in(2)) {
      drafter.push_back(std::string("drafter.options.tree=\"") + dice.one_of(kTrees) + "\"");
    }
    return drafter;
  }
  // A head with random weights.
  Overrides random_head(Dice& dice, const char* kind, bool trees) {
    head_ = std::make_unique<RandomHead>(kind, target(), dice.below(1000));
    const std::string word = kind;
    const bool eagle = word == "eagle" || word == "eagle3" || word == "peagle";
    const std::string plugin = eagle ? "eagle3" : word == "medusa" ? "medusa" : "dflash";
    return shaped(dice, {"drafter.plugin=" + plugin, "drafter.model=" + head_->path()},
                  trees && (word == "eagle" || word == "eagle3"));
  }

  std::string adapter_;
  std::unique_ptr<RandomHead> head_;
  HeadTarget target_;
  uint64_t lived_ = 0, drafted_ = 0, kept_ = 0, preempted_ = 0;
};

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
INSTANTIATE_TEST_SUITE_P(Models, WorldsOfFamilies,
                         testing::Values("bamba", "bloom", "cohere2", "deepseek_v2", "doge",
                                         "falcon", "falcon_h1", "gemma2", "gemma3", "gpt2",
                                         "gpt_oss", "granite4", "jamba", "kimi_linear", "lfm2",
                                         "llama4", "mamba2", "minimax", "olmo2", "phi3",
                                         "qwen2_sliding_layers", "qwen3_next", "smollm3",
                                         "stablelm_parallel", "zamba2"),
                         plain_name);
TEST_P(WorldsOfFamilies, change_nothing) {
  live_all();
}

}  // namespace
}  // namespace tenon
