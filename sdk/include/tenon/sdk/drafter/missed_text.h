// Whether a drafter that runs a model should read what it has not read of a text, a long prompt
// say: that is paid at once, and pays off token by token.
#pragma once

#include <tenon/drafter.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon::sdk {

// How many tokens a sequence is still to get, learned from those that have ended.
class AnswerLengths {
 public:
  // A sequence has `known` tokens; the first time it is asked about, its answer begins.
  void see(SeqId seq, size_t known);
  void end(SeqId seq);
  // Of answers that were longer, what they had more; else, and a little always, as much as there is
  // already.
  double left(SeqId seq) const;
  // Of the answers that have ended, and of what was before them; 0 as long as there are none.
  double usual() const { return mean(ended_); }
  double usual_prompt() const { return mean(prompts_); }

 private:
  static constexpr size_t kKept = 64;
  static constexpr double kAtLeast = 32;

  struct Answer {
    size_t began = 0, known = 0;  // tokens
  };
  static double mean(const std::vector<double>& lengths);

  std::unordered_map<SeqId, Answer> running_;
  std::vector<double> ended_, prompts_;  // of the last kKept
  size_t next_ = 0;
};

// What it costs to read a row, and what may be spent on tries that promise nothing yet.
class ReadingCost {
 public:
  // `rows` were read in a step of which the drafter took so long, `usual_ns` of it for its drafts.
  void learn(const DraftStepCost& cost, uint64_t rows, double usual_ns);
  // Of so many rows, in nanoseconds.
  double of(double rows) const;
  // What the target takes for as many rows of a prompt.
  double of_prompt(double rows) const { return rows * prompt_row_ns_; }
  bool may_try(uint64_t rows) const { return of(static_cast<double>(rows)) <= saved_ns_; }
  void tried(uint64_t rows) { saved_ns_ -= of(static_cast<double>(rows)); }

 private:
  // Of all time, for tries.
  static constexpr double kTries = 0.01;
  // Until a row was read: of what one of a prompt costs the target.
  static constexpr double kOfPrompt = 0.25;

  double row_ns_ = 0, prompt_row_ns_ = 0, saved_ns_ = 0;
};

}  // namespace tenon::sdk
