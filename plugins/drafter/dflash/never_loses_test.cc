// Drafts never lose: on scripted machines of many kinds, with costs measured before the first step,
// adaptive drafts take no more time for a token than none do, but for what tries cost.
#include <gtest/gtest.h>
#include <tenon/sdk/drafter/adaptive_drafts.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plugins/drafter/dflash/scripted_machine.h"

namespace tenon {
namespace {

using scripted::Machine;
using scripted::Script;
using sdk::AdaptiveDrafts;

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
