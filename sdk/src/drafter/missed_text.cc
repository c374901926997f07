#include <tenon/sdk/drafter/missed_text.h>

#include <algorithm>
#include <numeric>

namespace tenon::sdk {
namespace {

// A single step may have been held up by something else.
void follow(double& value, double seen) {
  if (value == 0) {
    value = seen;
  } else {
    value += seen < value ? 0.5 * (seen - value) : 0.1 * (std::min(seen, 2 * value) - value);
  }
}

}  // namespace

void AnswerLengths::see(SeqId seq, size_t known) {
  Answer& answer = running_[seq];
  if (answer.known == 0) answer.began = known;
  answer.known = std::max(answer.known, known);
}

void AnswerLengths::end(SeqId seq) {
  const auto found = running_.find(seq);
  if (found == running_.end()) return;
  const auto [began, known] = found->second;
  const auto length = static_cast<double>(known - began), prompt = static_cast<double>(began);
  running_.erase(found);
  if (ended_.size() < kKept) {
    ended_.push_back(length);
    prompts_.push_back(prompt);
  } else {
    ended_[next_ % kKept] = length;
    prompts_[next_++ % kKept] = prompt;
  }
}

double AnswerLengths::mean(const std::vector<double>& lengths) {
  if (lengths.empty()) return 0;
  return std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
}

double AnswerLengths::left(SeqId seq) const {
  const auto found = running_.find(seq);
  const double length = found == running_.end()
                            ? 0.0
                            : static_cast<double>(found->second.known - found->second.began);
  double sum = std::max(kAtLeast, length), count = 1.0;
  for (const double ended : ended_) {
    if (ended <= length) continue;
    sum += ended - length;
    ++count;
  }
  return sum / count;
}

void ReadingCost::learn(const DraftStepCost& cost, uint64_t rows, double usual_ns) {
  const StepCost& step = cost.step;
  saved_ns_ += kTries * static_cast<double>(step.duration_ns);
  if (rows > 0) {
    const double reading = static_cast<double>(cost.drafter_ns) - usual_ns;
    if (reading > 0) follow(row_ns_, reading / static_cast<double>(rows));
  }
  if (step.rows > 2 * step.logits_rows) {
    const auto time = static_cast<double>(step.duration_ns - cost.drafter_ns);
    if (time > 0) follow(prompt_row_ns_, time / step.rows);
  }
}

double ReadingCost::of(double rows) const {
  return rows * (row_ns_ > 0 ? row_ns_ : kOfPrompt * prompt_row_ns_);
}

}  // namespace tenon::sdk
