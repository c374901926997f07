#include "core/server/api/write/step_json.h"

#include <charconv>
#include <concepts>
#include <span>
#include <string_view>

namespace tenon::api {
namespace {

// One object: names and values need no escapes here.
class ObjectText {
 public:
  explicit ObjectText(std::string& out) : out_(out) { out_ += '{'; }
  std::string& name(std::string_view name) {
    if (!is_first_) out_ += ',';
    is_first_ = false;
    out_.append("\"").append(name).append("\":");
    return out_;
  }
  template <std::integral Number>
  void number(std::string_view name_of, Number value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    name(name_of).append(digits, end);
  }
  void microseconds(std::string_view name_of, int64_t ns) { number(name_of, ns / 1000); }
  void end() { out_ += '}'; }

 private:
  std::string& out_;
  bool is_first_ = true;
};

std::string_view state_name(ObservedState state) {
  switch (state) {
    case ObservedState::running:
      return "\"running\"";
    case ObservedState::waiting:
      return "\"waiting\"";
    case ObservedState::ended:
      return "\"ended\"";
  }
  return "null";
}

void append_run(int64_t first, size_t count, bool is_first, std::string& out) {
  out += is_first ? "[" : ",[";
  out.append(std::to_string(first)).append(",").append(std::to_string(count)).append("]");
}

// Blocks that follow each other are one pair: the first, and how many.
void append_blocks(std::span<const BlockId> blocks, std::string& out) {
  out += '[';
  for (size_t i = 0, first = 0; i < blocks.size(); ++i) {
    if (i + 1 < blocks.size() && blocks[i + 1] == blocks[i] + 1) continue;
    append_run(blocks[first], i + 1 - first, first == 0, out);
    first = i + 1;
  }
  out += ']';
}

void append_sequence(const ObservedSequence& sequence, std::span<const BlockId> blocks,
                     std::string& out) {
  ObjectText object(out);
  object.number("id", sequence.id);
  object.number("request", sequence.request);
  object.number("sample", sequence.sample);
  object.name("state").append(state_name(sequence.state));
  object.microseconds("arrival_us", sequence.arrival_ns);
  object.number("prompt_tokens", sequence.prompt_tokens);
  object.number("known_tokens", sequence.known_tokens);
  object.number("computed_tokens", sequence.computed_tokens);
  object.number("prefill", sequence.prefill_rows);
  object.number("decode", sequence.decode_rows);
  object.number("drafts", sequence.drafts);
  object.number("kept", sequence.kept_drafts);
  object.number("tokens", sequence.new_tokens);
  object.number("preemptions", sequence.preemptions);
  if (sequence.first_token_ns >= 0) object.microseconds("first_token_us", sequence.first_token_ns);
  if (sequence.gap_ns >= 0) object.microseconds("gap_us", sequence.gap_ns);
  append_blocks(blocks.subspan(sequence.first_block, sequence.block_count), object.name("blocks"));
  object.end();
}

void append_times(const PartTimes& times, std::string& out) {
  ObjectText object(out);
  object.microseconds("scheduler", times.scheduler_ns);
  object.microseconds("kv_cache", times.kv_cache_ns);
  object.microseconds("drafter", times.drafter_ns);
  object.microseconds("executor", times.executor_ns);
  object.microseconds("sampler", times.sampler_ns);
  object.microseconds("engine", times.engine_ns);
  object.end();
}

void append_usage(const KvUsage& usage, std::string& out) {
  ObjectText object(out);
  object.number("total_tokens", usage.total_tokens);
  object.number("reserved_tokens", usage.reserved_tokens);
  object.number("used_tokens", usage.used_tokens);
  object.number("cached_tokens", usage.cached_tokens);
  object.number("free_tokens", usage.free_tokens);
  object.number("swapped_tokens", usage.swapped_tokens);
  object.end();
}

}  // namespace

void append_step_json(const ObservedStep& step, std::string& out) {
  const StepRecord& record = step.record;
  ObjectText object(out);
  object.number("step", record.step_id);
  object.microseconds("start_us", record.start_ns);
  object.microseconds("time_us", record.end_ns - record.start_ns);
  append_times(record.times, object.name("times_us"));
  object.number("rows", record.rows);
  object.number("tokens", record.tokens);
  object.number("drafts", record.draft_rows);
  object.number("kept", record.accepted_drafts);
  object.number("preemptions", record.preemptions);
  object.number("reused_tokens", record.reused_tokens);
  object.number("moves", record.moves);
  object.number("idle_rows", record.idle_rows);
  append_usage(step.usage, object.name("kv"));
  object.number("left_out_sequences", step.left_out_sequences);
  object.name("left_out_blocks").append(step.left_out_blocks ? "true" : "false");
  std::string& list = object.name("sequences");
  list += '[';
  for (size_t i = 0; i < step.sequences.size(); ++i) {
    if (i > 0) list += ',';
    append_sequence(step.sequences[i], step.blocks, list);
  }
  list += ']';
  object.end();
}

}  // namespace tenon::api
