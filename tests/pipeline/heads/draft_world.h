// Worlds of models, drafters and whatever composes them, drawn from a seed, and the requests that
// live in them with and without drafts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/grammar/grammar.h"
#include "tests/support/models/chosen_executors.h"
#include "tests/support/models/random_head.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon::test {

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

inline std::string bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return std::to_string(bits);
}

// All that whoever asked is told, but for times.
inline std::string told(const ResultSink& sink) {
  std::string text;
  for (const float value : sink.embedding()) text += bits_of(value) + ";";
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

// What is held against what.
enum class Promise : uint8_t {
  everything,  // is as without drafts
  greedy,      // answers are; what is drawn is the same again in the same world
};

class DraftWorlds : public RecurrentPipelinesOn {
 protected:
  DraftWorlds() : RecurrentPipelinesOn(chosen_executors()) {}

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
      ask_something(request, dice, seed * 100 + i, vocabulary);
      all.push_back(std::move(request));
    }
    return all;
  }

  // A vector, the likeliest answers, or tokens one after the other.
  void ask_something(Request& request, Dice& dice, uint64_t seed, uint32_t vocabulary) {
    if (dice.once_in(16)) {
      request.pooling = dice.once_in(2) ? Pooling::mean : Pooling::last;
      return;
    }
    const auto token = [&] { return static_cast<TokenId>(3 + dice.below(vocabulary - 3)); };
    request.max_tokens = 1 + dice.below(36);
    request.ignore_eos = !dice.once_in(4);
    request.priority = static_cast<int32_t>(dice.below(3));
    request.tenant = dice.below(3);
    if (dice.once_in(8)) request.cache_salt = 1 + dice.below(2);
    if (dice.once_in(8)) request.prompt_logprobs = true;
    if (dice.once_in(6)) request.min_tokens = request.max_tokens / 2;
    if (dice.once_in(6)) request.stop_tokens = {token()};
    if (dice.once_in(16)) {
      request.beams = 2 + dice.below(2);
      request.samples = 1 + dice.below(request.beams);
      return;
    }
    if (dice.once_in(8)) request.samples = 2 + dice.below(2);
    if (dice.once_in(16)) request.best_of = request.samples + 1;
    sample_somehow(request, dice, seed);
    if (has_text()) write_somehow(request, dice);
  }

  static void sample_somehow(Request& request, Dice& dice, uint64_t seed) {
    SamplingParams& how = request.sampling;
    how.seed = seed;
    how.temperature = dice.once_in(2) ? 0.0f : 0.9f;
    if (dice.once_in(3)) how.repetition_penalty = 1.2f;
    if (dice.once_in(6)) how.presence_penalty = 0.4f;
    if (dice.once_in(6)) how.frequency_penalty = 0.3f;
    if (dice.once_in(6)) {
      how.dry_multiplier = 0.6f;
      if (dice.once_in(2)) request.lists.dry_breakers = {4, 9};
      if (dice.once_in(2)) how.dry_last_tokens = 12;
    }
    if (dice.once_in(6)) how.penalty_last_tokens = 1 + dice.below(20);
    if (dice.once_in(4)) how.logprobs = 1 + dice.below(3);
    if (dice.once_in(8)) request.lists.logit_bias = {{4, 1.5f}, {6, -2.0f}};
    if (dice.once_in(8)) request.lists.bad_words = {{5}, {7, 8}};
    if (dice.once_in(12)) {
      for (TokenId allowed = 3; allowed < 17; ++allowed) {
        request.lists.allowed_tokens.push_back(allowed);
      }
    }
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
    if (dice.once_in(8)) {
      request.lists.order = {SamplingStage::top_k, SamplingStage::temperature,
                             SamplingStage::penalties, SamplingStage::min_p};
    }
  }
  static void write_somehow(Request& request, Dice& dice) {
    using grammar::GrammarKind;
    if (dice.once_in(3)) {
      static constexpr std::pair<GrammarKind, const char*> kForms[] = {
          {GrammarKind::regex, "[a-m]{3,40}"},
          {GrammarKind::regex, "([a-f]{1,3} ){1,9}[A-Z]{1,20}"},
          {GrammarKind::regex, "(.[a-z ]{0,4}){2,30}"},
          {GrammarKind::regex, "(yes|no|perhaps, perhaps not)"},
          {GrammarKind::json_object, ""},
          {GrammarKind::json_schema,
           R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["xy","z"]}},)"
           R"("required":["a","b"]})"},
          {GrammarKind::gbnf, "root ::= (\"ab\" | \"cd\" [e-k])+ \".\""}};
      const auto& [kind, text] = dice.one_of(kForms);
      auto compiled = grammar::compile({kind, text});
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      request.grammar = *compiled;
      request.lists.allowed_tokens.clear();
      request.ignore_eos = false;
      request.min_tokens = 0;
      request.stop_tokens.clear();
    } else if (dice.once_in(3)) {
      request.stop = {std::string(1, static_cast<char>('a' + dice.below(20))), "BC"};
      if (dice.once_in(2)) request.stop.emplace_back("or");
      request.include_stop = dice.once_in(2);
    }
  }

  // Some arrive while others run, and some are given up: of those and of what cannot run nothing is
  // told.
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
      const bool beams = request.beams > 0, gives_up = dice.once_in(16);
      const auto id = engine.submit(std::move(request));
      // Beams may need more memory than there is, or more sequences.
      if (!id.ok() && beams) sinks.back() = nullptr;
      EXPECT_TRUE(id.ok() || beams) << id.status().message();
      for (uint32_t steps = dice.once_in(2) ? 0 : dice.below(6); steps > 0; --steps) {
        EXPECT_TRUE(engine.step().ok());
      }
      if (!gives_up || !id.ok()) continue;
      engine.cancel(*id);
      sinks.back() = nullptr;
    }
    const Status ended = engine.run_until_idle(20000);
    EXPECT_TRUE(ended.ok()) << ended.message();
    EXPECT_EQ(engine.last_fault(), "");
    drafted_ += engine.totals().drafts.tokens;
    kept_ += engine.totals().drafts.accepted;
    preempted_ += engine.totals().preemptions;
    std::vector<std::string> all;
    for (const auto& sink : sinks) all.push_back(sink == nullptr ? "" : told(*sink));
    return all;
  }

  Overrides surroundings(Dice& dice) {
    static constexpr const char* kSchedulers[] = {"static", "continuous", "chunked", "fair"};
    static constexpr const char* kRows[] = {"20", "33", "64", "64"};
    const std::string scheduler = dice.one_of(kSchedulers);
    const std::string manager = kManagers[dice.below(4)];
    const std::string sequences = std::to_string(1 + dice.below(8)), rows = dice.one_of(kRows);
    Overrides world = {"scheduler.plugin=" + scheduler, "kv_cache.plugin=" + manager,
                       "limits.max_sequences=" + sequences, "limits.max_batch_tokens=" + rows};
    // Budgets that follow what steps cost would cut drafts by the clock, and with them what is
    // drawn.
    const bool cuts = scheduler == "chunked" || scheduler == "fair";
    if (cuts && promise_ == Promise::greedy) {
      world.push_back("scheduler.options.step_tokens=" + rows);
    }
    if (scheduler == "continuous" && dice.once_in(2)) {
      world.push_back("scheduler.options.chunk_tokens=" + std::to_string(1 + dice.below(9)));
    }
    if (dice.once_in(3)) world.emplace_back("engine.plan_ahead=1");
    if (dice.once_in(6)) world.emplace_back("engine.guard=checks");
    if (manager == "naive") return world;
    static constexpr const char* kBlocks[] = {"1", "2", "4", "8", "16"};
    world.push_back(std::string("kv_cache.block_tokens=") + dice.one_of(kBlocks));
    if (dice.once_in(4)) world.emplace_back("kv_cache.swap_memory=1MiB");
    if (manager != "paged" && dice.once_in(4)) {
      world.emplace_back("kv_cache.tiers.1.kind=host");
      world.emplace_back("kv_cache.tiers.1.memory=1MiB");
    }
    return world;
  }

  // Managers that forget are held against themselves.
  Overrides forgetting(Dice& dice) {
    const bool streams = dice.once_in(2);
    Overrides manager = {
        std::string("kv_cache.plugin=") + (streams ? "streaming" : "heavy_hitters"),
        "kv_cache.block_tokens=4", "kv_cache.options.window_tokens=24",
        "kv_cache.options.sink_tokens=4", "kv_cache.options.stride_tokens=8"};
    if (!streams) manager.emplace_back("kv_cache.options.heavy_tokens=12");
    return manager;
  }

  void live(uint64_t seed) {
    Dice dice(seed ^ 0x9e3779b97f4a7c15u);
    static constexpr const char* kTypes[] = {"f32", "bf16", "f16", "i8", "i4"};
    Overrides common = of_model(dice);
    common.push_back(std::string("kv_cache.dtype=") + dice.one_of(kTypes));
    promise_ = Promise::everything;
    Overrides world = drafter(dice);
    if (world.empty()) return;
    Overrides around = surroundings(dice);
    Overrides plain = {"scheduler.plugin=static", "kv_cache.plugin=naive"};
    bool pages = around[1] != "kv_cache.plugin=naive";
    if (may_forget(world[0]) && dice.once_in(4)) {
      std::erase_if(around, [](const std::string& each) { return each.starts_with("kv_cache."); });
      const Overrides manager = forgetting(dice);
      around.insert(around.end(), manager.begin(), manager.end());
      plain = {"scheduler.plugin=static"};
      plain.insert(plain.end(), manager.begin(), manager.end());
      pages = false;
    }
    for (const Overrides& more : {common, around}) {
      world.insert(world.end(), more.begin(), more.end());
    }
    // For one sequence of any length, and often not for two.
    if (pages && dice.once_in(2)) world.push_back(memory_for(8, 112 + dice.below(200), world));
    plain.insert(plain.end(), common.begin(), common.end());
    if (refused(world)) return;
    compare(plain, world, seed);
    ++lived_;
  }

  // Of models that are tried by hand: what is not built is told of.
  bool refused(const Overrides& world) {
    if (std::getenv("TENON_TEST_MODELS") == nullptr) return false;
    const auto pipeline = build(world);
    if (pipeline.ok()) return false;
    std::printf("%s: refused %s\n", GetParam(), std::string(pipeline.status().message()).c_str());
    return true;
  }

  void compare(const Overrides& plain, const Overrides& world, uint64_t seed) {
    std::string said;
    for (const std::string& each : world) said += each + "\n";
    SCOPED_TRACE("world " + std::to_string(seed) + "\n" + said);
    const std::vector<std::string> alone = answers(plain, seed), drafted = answers(world, seed);
    ASSERT_EQ(drafted.size(), alone.size());
    const std::vector<std::string> again =
        promise_ == Promise::greedy ? answers(world, seed) : drafted;
    const std::vector<Request> requests = asked(seed);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(again[i], drafted[i]) << "request " << i << ", a second time";
      const bool drawn = requests[i].sampling.temperature > 0.0f && requests[i].beams == 0 &&
                         requests[i].pooling == Pooling::none;
      if (drawn && promise_ == Promise::greedy) continue;
      if (!drafted[i].empty() && !alone[i].empty()) {
        EXPECT_EQ(drafted[i], alone[i]) << "request " << i;
      }
    }
  }

  void live_all() {
    const char* one = std::getenv("TENON_TEST_WORLD");
    if (one != nullptr) return live(std::strtoull(one, nullptr, 10));
    const char *many = std::getenv("TENON_TEST_WORLDS"), *from = std::getenv("TENON_TEST_FIRST");
    const uint64_t worlds = many == nullptr ? 1 : std::strtoull(many, nullptr, 10);
    const uint64_t first = from == nullptr ? 1 : std::strtoull(from, nullptr, 10);
    for (uint64_t i = 0; i < worlds && !HasFailure(); ++i) live(first + i);
    if (many == nullptr) return;
    std::printf("%s: %llu worlds, %llu drafted tokens, %llu kept, %llu preemptions\n", GetParam(),
                static_cast<unsigned long long>(lived_), static_cast<unsigned long long>(drafted_),
                static_cast<unsigned long long>(kept_),
                static_cast<unsigned long long>(preempted_));
  }

  // Numbers of drafts, trees where they may be, and how they are judged.
  Overrides shaped(Dice& dice, Overrides drafter, bool trees) {
    const bool adaptive = dice.once_in(4);
    drafter.push_back(std::string("drafter.options.adaptive=") + (adaptive ? "true" : "false"));
    if (dice.once_in(2)) {
      drafter.push_back("drafter.options.max_draft_tokens=" + std::to_string(1 + dice.below(7)));
    }
    static constexpr const char* kTrees[] = {"2,2", "3,2,1", "1,2,2", "grow", "2,1,1,1", "5"};
    std::string tree;
    if (trees && dice.once_in(2)) {
      tree = dice.one_of(kTrees);
      drafter.push_back("drafter.options.tree=\"" + tree + "\"");
    }
    // How many drafts there are then follows from the clock, and what is drawn from that.
    if (adaptive || !dice.once_in(4)) return drafter;
    const bool typical = tree == "grow" || dice.once_in(2);
    drafter.push_back(std::string("drafter.verify=") + (typical ? "typical" : "rejection"));
    promise_ = Promise::greedy;
    return drafter;
  }
  // Managers that forget run with drafters that read no states and have no K/V.
  static bool may_forget(const std::string& drafter) {
    return drafter == "drafter.plugin=ngram" || drafter == "drafter.plugin=suffix";
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
  Promise promise_ = Promise::everything;
  std::unique_ptr<RandomHead> head_;
  HeadTarget target_;
  uint64_t lived_ = 0, drafted_ = 0, kept_ = 0, preempted_ = 0;
};

}  // namespace tenon::test
