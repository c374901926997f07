// A machine whose steps take what a script says, with adaptive drafts on it.
#pragma once

#include <tenon/sdk/drafter/adaptive_drafts.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::scripted {

using sdk::AdaptiveDrafts;

// A step of n rows takes 1 + row · n, in millions, and `steep` for each of the rows after `knee`; a
// drafter `pass` for each pass.
struct Script {
  double row = 0.01, pass = 0.0;
  bool in_one_pass = false;
  bool busy = false;               // others hold steps and passes up, each by itself
  double noise = 0.0;              // steps and passes take up to so much more or less
  std::vector<double> acceptance;  // of each sequence
  // Of the steps that are run before the first one, those that were held up, and how far.
  std::vector<uint32_t> held = {};
  double held_by = 1.0;
  uint32_t knee = 0;
  double steep = 0.0;
  uint32_t prompt = 0;  // tokens of each that a drafter reads before it drafts
  uint32_t cold = 0;    // the first so many steps with drafts, whose passes take six times as long
  double read = 0.002;  // for each of them, in millions
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
                        .duration_ns = static_cast<int64_t>(time_of(rows) * held_by(rows))});
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

  void set_row(double value) { script_.row = value; }
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
  double time_of(double rows) const {
    return 1e6 * (1.0 + script_.row * rows + script_.steep * std::max(0.0, rows - script_.knee));
  }

  double held_by(uint32_t rows) const {
    return std::ranges::find(script_.held, rows) == script_.held.end() ? 1.0 : script_.held_by;
  }

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
    text_.resize(std::max(text_.size(), *std::ranges::max_element(known_)));
    std::vector<DraftRequest> requests(sequences);
    std::vector<uint64_t> unread;
    for (SeqId seq = 0; seq < sequences; ++seq) {
      requests[seq].seq = seq;
      requests[seq].history = {text_.data(), known_[seq]};
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
    const bool is_cold = depth > 0 && cold_ < script_.cold;
    if (is_cold) ++cold_;
    const double passes =
        (script_.in_one_pass ? std::min(depth, 1u) : depth) * (is_cold ? 6.0 : 1.0);
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
  double held_up() {
    if (script_.noise > 0) return 1.0 + script_.noise * (2.0 * uniform_(random_) - 1.0);
    return !script_.busy ? 1.0 : uniform_(random_) < 0.25 ? 2.5 : 0.5;
  }

  Script script_;
  uint32_t cold_ = 0;  // steps with drafts so far, up to those
  std::vector<TokenId> text_;
  std::vector<size_t> known_, read_;  // tokens of each sequence
  std::vector<StepCost> costs_;
  std::span<const StepCost> view_;
  AdaptiveDrafts drafts_;
  std::mt19937 random_{11};
  std::uniform_real_distribution<double> uniform_{0.0, 1.0};
};

}  // namespace tenon::scripted
