// Drafts never lose: on scripted machines of many kinds, with costs measured before the first step,
// adaptive drafts take no more time for a token than none do, but for what tries cost.
#include <gtest/gtest.h>
#include <tenon/sdk/drafter/adaptive_drafts.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace tenon {
namespace {

using sdk::AdaptiveDrafts;

// A step of n rows takes base + row · n, in millions; a drafter `pass` for each pass.
struct Script {
  double row = 0.01, pass = 0.0;
  bool in_one_pass = false;
  bool busy = false;               // others hold steps and passes up, each by itself
  std::vector<double> acceptance;  // of each sequence
  uint32_t prompt = 0;             // tokens of each that a drafter reads before it drafts
  double read = 0.002;             // for each of them, in millions
};

constexpr uint32_t kAvailable = 8;

class Machine {
 public:
  explicit Machine(const Script& script)
      : script_(script), drafts_(true, false, script.in_one_pass) {
    for (const uint32_t rows : {1, 2, 3, 5, 9, 17, 33, 64}) {
      costs_.push_back({.step_id = 1,
                        .rows = rows,
                        .sequences = 1,
                        .logits_rows = rows,
                        .duration_ns = static_cast<int64_t>(time_of(rows))});
    }
    view_ = costs_;
    HostServices host;
    host.context = this;
    host.extension = [](void* self, std::string_view id) noexcept -> const void* {
      return id == kStepCosts ? &static_cast<Machine*>(self)->view_ : nullptr;
    };
    drafts_.ask_costs(host);
    for (SeqId seq = 0; seq < sequences(); ++seq) drafts_.begin(seq);
    drafted.resize(sequences());
    known_.assign(sequences(), script_.prompt);
    read_.assign(sequences(), 0);
    if (script_.prompt > 0) see_prompts();
  }

  void set_acceptance(SeqId seq, double value) { script_.acceptance[seq] = value; }
  // How much faster tokens come than without drafts, over so many steps.
  double run(uint32_t steps) {
    double time = 0.0, plain = 0.0;
    const auto sequences = static_cast<double>(script_.acceptance.size());
    for (uint32_t i = 0; i < steps; ++i) {
      plain += step(time) / sequences * time_of(sequences);
    }
    return plain / time;
  }

  std::vector<uint64_t> drafted;  // of each sequence

 private:
  size_t sequences() const { return script_.acceptance.size(); }
  double time_of(double rows) const { return 1e6 * (1.0 + script_.row * rows); }

  // A step of prompts, as long as one of so many rows.
  void see_prompts() {
    const uint32_t rows = script_.prompt * static_cast<uint32_t>(sequences());
    drafts_.measured({{.step_id = 1,
                       .rows = rows,
                       .sequences = static_cast<uint32_t>(sequences()),
                       .logits_rows = static_cast<uint32_t>(sequences()),
                       .duration_ns = static_cast<int64_t>(time_of(rows))},
                      0,
                      0});
  }

  double step(double& time) {
    const size_t sequences = script_.acceptance.size();
    const std::vector<TokenId> text(*std::ranges::max_element(known_));
    std::vector<DraftRequest> requests(sequences);
    std::vector<uint64_t> unread;
    for (SeqId seq = 0; seq < sequences; ++seq) {
      requests[seq].seq = seq;
      requests[seq].history = {text.data(), known_[seq]};
      if (script_.prompt > 0) unread.push_back(known_[seq] - read_[seq]);
    }
    std::vector<uint32_t> offered(sequences, kAvailable);
    drafts_.choose(requests, offered, unread);
    double tokens = 0.0, reading = 0.0;
    uint32_t rows = static_cast<uint32_t>(sequences), depth = 0;
    for (SeqId seq = 0; seq < sequences; ++seq) {
      if (offered[seq] > 0) {
        drafts_.granted(offered[seq], unread.empty() ? 0 : unread[seq]);
        if (!unread.empty()) reading += script_.read * static_cast<double>(unread[seq]);
        read_[seq] = known_[seq];
      }
      uint32_t kept = 0;
      while (kept < offered[seq] && uniform_(random_) < script_.acceptance[seq]) ++kept;
      drafts_.learn(seq, std::min(kept + 1, offered[seq]), kept);
      tokens += 1 + kept;
      known_[seq] += 1 + kept;
      rows += offered[seq];
      depth = std::max(depth, offered[seq]);
      drafted[seq] += offered[seq];
    }
    const double passes = script_.in_one_pass ? std::min(depth, 1u) : depth;
    const double draft = 1e6 * (script_.pass * passes + reading) * held_up(),
                 verify = time_of(rows) * held_up();
    drafts_.measured({{.step_id = 1,
                       .rows = rows,
                       .sequences = static_cast<uint32_t>(sequences),
                       .logits_rows = rows,
                       .duration_ns = static_cast<int64_t>(verify + draft)},
                      rows - static_cast<uint32_t>(sequences),
                      static_cast<int64_t>(draft)});
    time += verify + draft;
    return tokens;
  }

  // One time in four it takes 2.5 times as long, else half of it.
  double held_up() { return !script_.busy ? 1.0 : uniform_(random_) < 0.25 ? 2.5 : 0.5; }

  Script script_;
  std::vector<size_t> known_, read_;  // tokens of each sequence
  std::vector<StepCost> costs_;
  std::span<const StepCost> view_;
  AdaptiveDrafts drafts_;
  std::mt19937 random_{11};
  std::uniform_real_distribution<double> uniform_{0.0, 1.0};
};

TEST(NeverLoses, whatever_rows_and_passes_cost_and_however_often_drafts_are_right) {
  for (const size_t batch : {1, 8, 32}) {
    for (const double acceptance : {0.0, 0.3, 0.6, 0.9}) {
      for (const double row : {0.005, 0.05, 0.3}) {
        for (const double pass : {0.0, 0.1, 0.5}) {
          for (const bool in_one_pass : {false, true}) {
            Machine machine({.row = row,
                             .pass = pass,
                             .in_one_pass = in_one_pass,
                             .acceptance = std::vector<double>(batch, acceptance)});
            EXPECT_GE(machine.run(2000), 0.98)
                << batch << " sequences, acceptance " << acceptance << ", row " << row << ", pass "
                << pass << (in_one_pass ? ", in one pass" : "");
          }
        }
      }
    }
  }
}

TEST(NeverLoses, on_a_busy_machine) {
  for (const double acceptance : {0.2, 0.3, 0.5}) {
    for (const double pass : {0.2, 0.3, 0.5}) {
      Machine machine({.row = 0.02, .pass = pass, .busy = true, .acceptance = {acceptance}});
      EXPECT_GE(machine.run(8000), 0.93) << "acceptance " << acceptance << ", pass " << pass;
    }
  }
}

TEST(NeverLoses, and_gains_where_there_is_something_to_gain) {
  Machine cheap({.row = 0.005, .pass = 0.05, .in_one_pass = true, .acceptance = {0.9}});
  EXPECT_GT(cheap.run(2000), 3.5);
  Machine by_level({.row = 0.005, .pass = 0.05, .in_one_pass = false, .acceptance = {0.9}});
  EXPECT_GT(by_level.run(2000), 2.5);
}

// Slots go to the sequences whose drafts are kept; the others stop, and are tried again.
TEST(NeverLoses, one_budget_for_sequences_that_are_not_alike) {
  Machine machine(
      {.row = 0.05, .pass = 0.02, .in_one_pass = true, .acceptance = {0.95, 0.95, 0.05, 0.05}});
  EXPECT_GE(machine.run(1000), 1.1);
  EXPECT_GT(machine.drafted[0], 10 * machine.drafted[2]);
  EXPECT_GT(machine.drafted[1], 10 * machine.drafted[3]);
  machine.drafted.assign(4, 0);
  machine.set_acceptance(2, 0.95);
  machine.run(2000);
  EXPECT_GT(machine.drafted[2], 4 * machine.drafted[3]) << "it is found out by a try";
}

// Texts that come and go, one after the other: the drafter has to read a prompt before it drafts.
struct Texts {
  uint32_t prompt = 1000, answer = 100;
  double prompt_row = 0.02;  // of the target, in steps of one row
  double read = 0.005;       // the drafter's
  double acceptance = 0.8, row = 0.02, pass = 0.05;
  double states = 0.0;  // of the target's time for a prompt, to show them
};

// How much faster they are done than without drafts.
double gain(const Texts& texts, uint32_t count) {
  AdaptiveDrafts drafts(true, false);
  drafts.seeing_takes(texts.states, UINT64_MAX);
  std::mt19937 random{5};
  std::uniform_real_distribution<double> uniform{0.0, 1.0};
  const auto time_of = [&](double rows) { return 1e6 * (1.0 + texts.row * rows); };
  double time = 0.0, plain = 0.0;
  const auto spend = [&](uint32_t rows, bool prompt, double target, double drafter) {
    drafts.measured({{.step_id = 1,
                      .rows = rows,
                      .sequences = 1,
                      .logits_rows = prompt ? 1 : rows,
                      .duration_ns = static_cast<int64_t>(target + drafter)},
                     prompt ? 0 : rows - 1,
                     static_cast<int64_t>(drafter)});
    time += target + drafter;
  };
  for (SeqId seq = 0; seq < count; ++seq) {
    drafts.begin(seq);
    std::vector<TokenId> text(texts.prompt + texts.answer + 1);
    const bool is_seen = drafts.sees_next();
    const double prompt = 1e6 * texts.prompt_row * texts.prompt;
    spend(texts.prompt, true, prompt * (is_seen ? 1 + texts.states : 1), 0.0);
    plain += prompt + (texts.answer - 1) * time_of(1);
    uint64_t read = 0;
    for (uint32_t got = 1; got < texts.answer;) {
      const std::span<const TokenId> history(text.data(), texts.prompt + got);
      const DraftRequest request{.seq = seq, .history = history, .max_tokens = 0, .key = {}};
      uint32_t offered = is_seen ? std::min(4u, texts.answer - got - 1) : 0;
      const uint64_t unread = history.size() - read;
      drafts.choose({&request, 1}, {&offered, 1}, {&unread, 1});
      uint32_t kept = 0;
      double drafter = 0.0;
      if (offered > 0) {
        drafts.granted(offered, unread);
        drafter = 1e6 * (texts.pass * offered + texts.read * static_cast<double>(unread));
        read = history.size();
        while (kept < offered && uniform(random) < texts.acceptance) ++kept;
      }
      drafts.learn(seq, std::min(kept + 1, offered), kept);
      spend(offered + 1, false, time_of(offered + 1), drafter);
      got += 1 + kept;
    }
    drafts.end(seq);
  }
  return plain / time;
}

TEST(NeverLoses, what_it_costs_to_read_a_prompt) {
  for (const uint32_t prompt : {30, 300, 3000}) {
    for (const uint32_t answer : {2, 10, 50, 300}) {
      for (const double read : {0.002, 0.01}) {
        for (const double acceptance : {0.0, 0.5, 0.9}) {
          const Texts texts{
              .prompt = prompt, .answer = answer, .read = read, .acceptance = acceptance};
          EXPECT_GE(gain(texts, 40), 0.98) << prompt << " tokens, then " << answer << ", reading "
                                           << read << ", acceptance " << acceptance;
        }
      }
    }
  }
}

// A head whose drafts save a little sees no prompts that take more than that.
TEST(NeverLoses, what_it_costs_to_see_a_prompt) {
  for (const uint32_t prompt : {30, 300, 3000}) {
    for (const uint32_t answer : {10, 50, 300}) {
      for (const double acceptance : {0.2, 0.3, 0.4, 0.5, 0.9}) {
        const Texts texts{
            .prompt = prompt, .answer = answer, .acceptance = acceptance, .states = 0.17};
        EXPECT_GE(gain(texts, 300), 0.98)
            << prompt << " tokens, then " << answer << ", acceptance " << acceptance;
      }
    }
  }
}

// One text is read to begin with, whose drafts alone are not worth a pass: what all of them are
// worth is found nevertheless.
TEST(NeverLoses, and_gains_where_only_many_texts_are_worth_a_pass) {
  const Script copies{
      .row = 0.01, .pass = 0.2, .acceptance = std::vector<double>(8, 1.0), .prompt = 300};
  EXPECT_GT(Machine(copies).run(300), 2.0);
  Script wrong = copies;
  wrong.acceptance.assign(8, 0.0);
  EXPECT_GE(Machine(wrong).run(1000), 0.98);
}

TEST(NeverLoses, and_prompts_are_read_where_answers_pay_for_it) {
  EXPECT_GT(gain({.prompt = 300, .answer = 300, .acceptance = 0.9}, 20), 2.0);
  EXPECT_GT(gain({.prompt = 3000, .answer = 1000, .prompt_row = 0.005, .acceptance = 0.9}, 20),
            1.8);
}

}  // namespace
}  // namespace tenon
