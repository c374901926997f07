#include "core/compare/replay/replay_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "core/base/digest/sha256.h"
#include "core/base/files/new_file.h"
#include "core/base/machine/run_queue.h"
#include "core/compare/json.h"
#include "core/report/pages/answer_text.h"
#include "core/report/statistics/goodput.h"

namespace tenon::compare {
namespace {

constexpr size_t kMostTimelinePoints = 240;

double ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string answer_of(const std::vector<TokenId>& tokens) {
  return sha256_hex(std::as_bytes(std::span(tokens))).substr(0, 16);
}

}  // namespace

ReplayRun::KvMemory ReplayRun::memory_of(const Pipeline& pipeline) {
  KvMemory out;
  const ModelShape& shape = pipeline.shape->shape();
  for (GroupId group = 0; group < pipeline.group_geometry.size(); ++group) {
    const KvGroupGeometry& geometry = pipeline.group_geometry[group];
    const auto bytes = static_cast<double>(geometry.bytes_per_token);
    if (group < shape.group_count && shape.groups[group].kind == KvKind::recurrent) {
      out.state_bytes += bytes;
      continue;
    }
    out.token_bytes += bytes;
    out.block_tokens = std::max<double>(1, geometry.block_tokens);
    out.pool_bytes += bytes * geometry.block_tokens * geometry.blocks;
  }
  return out;
}

ReplayRun::ReplayRun(Pipeline& pipeline, const ReplayWork& work, const ReplayOptions& options,
                     Scheduler* recorder)
    : virtual_(pipeline.virtual_clock),
      clock_(*pipeline.clock),
      turns_(clock_),
      executor_(*pipeline.executor),
      work_(work),
      salt_(options.salt),
      counts_waits_(options.count_waits || virtual_ != nullptr),
      keeps_answers_(!options.record.empty()),
      needed_(work_of(pipeline)),
      memory_(memory_of(pipeline)),
      engine_(parts_of(pipeline, recorder), engine_options(pipeline, options)) {}

void ReplayRun::put_in_order() {
  order_.resize(work_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (work_.in_flight > 0) return;
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return work_.arrivals_ns[a] < work_.arrivals_ns[b]; });
}

void ReplayRun::begin(const TurnOrder& turns) {
  before_ = engine_.totals();
  steps_ = {};
  rows_.clear();
  gaps_ = QuantileSketch();
  fault_.clear();
  open_requests_ = 0;
  open_tokens_ = 0;
  next_ = 0;
  submitted_ = before_.samples_ended;
  turns_.begin(turns);
  if (!counts_waits_) {
    clock_.leave_out([wait = std::make_shared<ThreadWait>(), &executor = executor_] {
      return wait->now_ns() + executor.held_up_ns();
    });
  }
  left_out_before_ns_ = clock_.left_out_ns();
  start_ns_ = clock_.now_ns();
  sinks_.clear();
  open_.clear();
  awaited_.clear();
  late_.clear();
  broken_ = 0;
}

Status ReplayRun::run(const TurnOrder& turns) {
  put_in_order();
  begin(turns);
  while (next_ < order_.size() || !engine_.idle()) {
    TENON_RETURN_IF_ERROR(submit_due());
    if (!engine_.wait_for_work(std::chrono::microseconds(virtual_ == nullptr ? 200 : 0))) {
      TENON_RETURN_IF_ERROR(move_clock());
      continue;
    }
    TENON_RETURN_IF_ERROR(engine_.step());
    if (next_ < order_.size() || !engine_.idle()) TENON_RETURN_IF_ERROR(turns_.after_step());
  }
  return end();
}

Status ReplayRun::end() {
  end_ns_ = clock_.now_ns();
  turns_.end();
  return engine_.last_fault().empty() ? Status() : failed(engine_.last_fault());
}

int64_t ReplayRun::next_ns() const {
  return std::max(engine_.wake_ns(), clock_.now_ns());
}

uint64_t ReplayRun::samples_ended() const {
  return engine_.totals().samples_ended - before_.samples_ended;
}

Status ReplayRun::write_answers(const std::string& path) const {
  std::string text;
  for (const size_t index : order_) {
    const auto sink = sinks_.find(index);
    if (sink == sinks_.end()) continue;
    Json samples = Json::array();
    for (const ReplaySink::Sample& sample : sink->second->samples()) {
      samples.push_back(sample.ids);
    }
    const Json line = {{"request", index}, {"samples", std::move(samples)}};
    text += line.dump() + "\n";
  }
  return write_file(path, {text});
}

Result<MeasuredPiece> ReplayRun::piece() {
  for (const auto& [index, sink] : sinks_) take_rows(index, *sink);
  if (!fault_.empty()) return failed(fault_);
  MeasuredPiece out;
  out.seconds = static_cast<double>(end_ns_ - start_ns_) * 1e-9;
  out.waited_seconds = static_cast<double>(clock_.left_out_ns() - left_out_before_ns_) * 1e-9;
  out.generated_tokens = engine_.totals().generated_tokens - before_.generated_tokens;
  out.turns = turns_.taken();
  out.requests = std::exchange(rows_, {});
  std::ranges::sort(out.requests, [](const RequestRow& a, const RequestRow& b) {
    return std::pair(a.index, a.sample) < std::pair(b.index, b.sample);
  });
  out.gap_ms = gaps_.quantiles();
  add_steps(out);
  add_totals(out);
  return out;
}

EngineParts ReplayRun::parts_of(Pipeline& pipeline, Scheduler* recorder) {
  EngineParts parts = pipeline.parts();
  // A clock that stands still while others have their turn needs nobody who stops it.
  if (virtual_ == nullptr) parts.clock = &clock_;
  // It sees every step.
  if (recorder != nullptr) {
    parts.scheduler = recorder;
    parts.steady_plans = nullptr;
    parts.decodes_first = nullptr;
  }
  return parts;
}

EngineOptions ReplayRun::engine_options(const Pipeline& pipeline, const ReplayOptions& options) {
  EngineOptions out = pipeline.engine_options();
  out.logits_digest = options.digests;
  out.inbox_requests = static_cast<uint32_t>(work_.size()) + 1;
  out.on_step = [this](const StepRecord& step) { take_step(step); };
  return out;
}

bool ReplayRun::is_due(size_t index) const {
  if (work_.in_flight > 0) {
    return submitted_ - engine_.totals().samples_ended < work_.in_flight;
  }
  return start_ns_ + work_.arrivals_ns[index] <= clock_.now_ns();
}

// A clock that stands still moves to whatever happens next: an arrival, or the time that the
// scheduler named.
Status ReplayRun::move_clock() {
  if (virtual_ == nullptr) return {};
  int64_t next_ns = engine_.idle() ? 0 : engine_.wake_ns();
  if (next_ < order_.size() && work_.in_flight == 0) {
    const int64_t due_ns = start_ns_ + work_.arrivals_ns[order_[next_]];
    next_ns = next_ns == 0 ? due_ns : std::min(next_ns, due_ns);
  }
  if (next_ns <= clock_.now_ns()) {
    return internal("nothing is left to happen in the simulation, and requests are not done");
  }
  virtual_->advance_to(next_ns);
  return {};
}

Status ReplayRun::submit_due() {
  for (; next_ < order_.size() && is_due(order_[next_]); ++next_) {
    TENON_RETURN_IF_ERROR(submit(order_[next_]));
  }
  return {};
}

Status ReplayRun::submit(size_t index, int64_t arrival_ns) {
  TENON_ASSIGN_OR_RETURN(Request request, work_.request(index));
  return submit(index, std::move(request), arrival_ns);
}

Status ReplayRun::submit(size_t index, Request request, int64_t arrival_ns) {
  request.cache_salt = salt_;
  // From when it was due, not from when this loop came round to it.
  if (arrival_ns < 0 && work_.in_flight == 0) arrival_ns = start_ns_ + work_.arrivals_ns[index];
  if (arrival_ns >= 0) request.arrival_ns = arrival_ns;
  const uint64_t tokens = request.prompt.size() + request.max_tokens;
  // On a clock that stands still nobody waits for what is done here, and memory stays flat.
  const bool at_once = virtual_ != nullptr && !keeps_answers_;
  auto sink = std::make_shared<ReplaySink>(request.samples, [this, index, tokens, at_once] {
    --open_requests_;
    open_tokens_ -= tokens;
    if (!at_once) return;
    const auto done = sinks_.extract(index).mapped();
    if (may_lose()) open_.erase(index);
    if (!take_) return take_rows(index, *done);
    take_(index, *done);
  });
  if (watched_) awaited_.push_back({index, arrival_ns >= 0 ? arrival_ns : clock_.now_ns()});
  request.sink = sink;
  sinks_.insert_or_assign(index, std::move(sink));
  submitted_ += request.samples;
  const Result<RequestId> id = engine_.submit(std::move(request));
  if (!id.ok()) return with_context("request " + std::to_string(index), id.status());
  ++open_requests_;
  open_tokens_ += tokens;
  if (may_lose()) open_.emplace(index, *id);
  return {};
}

Status ReplayRun::step() {
  TENON_RETURN_IF_ERROR(engine_.step());
  if (watched_) count_late();
  return {};
}

// The time of a first token that is still to come is now or later.
void ReplayRun::count_late() {
  if (watched_->slo_ttft_ms <= 0) return awaited_.clear();
  const int64_t now_ns = clock_.now_ns();
  for (; !awaited_.empty(); awaited_.pop_front()) {
    const Awaited& first = awaited_.front();
    if (ms(now_ns - first.arrival_ns) <= watched_->slo_ttft_ms) return;
    const auto sink = sinks_.find(first.index);
    if (sink == sinks_.end()) continue;  // its row has told
    const auto& samples = sink->second->samples();
    const bool speaks =
        std::ranges::any_of(samples, [](const auto& one) { return !one.ids.empty(); });
    if (!speaks && late_.insert(first.index).second) ++broken_;
  }
}

Status ReplayRun::lose_all() {
  for (const auto& [index, id] : open_) engine_.cancel(id);
  while (!open_.empty()) TENON_RETURN_IF_ERROR(engine_.step());
  // What is cached has other salts than what comes.
  salt_ += uint64_t{1} << 40;
  return {};
}

void ReplayRun::take_step(const StepRecord& step) {
  const bool prefill = step.rows - step.draft_rows > step.sequences;
  Phase& phase = prefill ? steps_.prefill : steps_.decode;
  const int64_t ns[] = {step.times.executor_ns, step.times.scheduler_ns, step.times.kv_cache_ns,
                        step.times.sampler_ns,  step.times.drafter_ns,   step.times.engine_ns};
  for (size_t part = 0; part < phase.parts.size(); ++part) {
    phase.parts[part] += static_cast<double>(ns[part]) * 1e-9;
  }
  take_memory(step);
  ++phase.steps;
  phase.rows += step.rows;
  take_needs(step, prefill);
  if (steps_.count++ % steps_.stride != 0) return;
  steps_.timeline.push_back(
      {ms(step.end_ns - start_ns_), step.running, step.waiting, step.rows, step.kv_used_tokens});
  if (steps_.timeline.size() <= kMostTimelinePoints) return;
  // Every second one goes.
  for (size_t i = 1; 2 * i < steps_.timeline.size(); ++i)
    steps_.timeline[i] = steps_.timeline[2 * i];
  steps_.timeline.resize((steps_.timeline.size() + 1) / 2);
  steps_.stride *= 2;
}

// The most K/V memory that any step had.
void ReplayRun::take_memory(const StepRecord& step) {
  const auto reserved = static_cast<double>(step.kv_reserved_tokens);
  steps_.peak_used_tokens =
      std::max(steps_.peak_used_tokens, static_cast<double>(step.kv_used_tokens));
  steps_.peak_blocks = std::max(steps_.peak_blocks, std::ceil(reserved / memory_.block_tokens));
  steps_.peak_bytes = std::max(steps_.peak_bytes, reserved * memory_.token_bytes);
}

// What the step's arithmetic has to read at least, and to compute.
void ReplayRun::take_needs(const StepRecord& step, bool prefill) {
  if (step.rows == 0) return;
  const StepLoad load = {.rows = static_cast<double>(step.rows),
                         .sampled_rows = static_cast<double>(step.logits_rows),
                         .kv_tokens = static_cast<double>(step.kv_used_tokens),
                         .expert_bytes = static_cast<double>(step.expert_bytes)};
  const StepOperations operations = operations_of(needed_, load);
  Phase& phase = prefill ? steps_.prefill : steps_.decode;
  phase.weight_bytes += weight_bytes_of(needed_, load);
  phase.kv_bytes += needed_.bytes_of(load);
  phase.operations.int8 += operations.int8;
  phase.operations.bf16 += operations.bf16;
  phase.operations.f32 += operations.f32;
}

void ReplayRun::add_steps(MeasuredPiece& out) const {
  out.prefill = steps_.prefill.parts;
  out.decode = steps_.decode.parts;
  for (const auto& [name, of] :
       {std::pair("prefill_", &steps_.prefill), std::pair("decode_", &steps_.decode)}) {
    if (of->steps == 0) continue;
    const std::string phase = name;
    out.counters[phase + "steps"] = of->steps;
    out.counters[phase + "rows"] = of->rows;
    if (of->rows == 0) continue;
    out.counters[phase + "weight_bytes"] = of->weight_bytes;
    out.counters[phase + "kv_bytes"] = of->kv_bytes;
    out.counters[phase + "int8_operations"] = of->operations.int8;
    out.counters[phase + "bf16_operations"] = of->operations.bf16;
    out.counters[phase + "f32_operations"] = of->operations.f32;
  }
  out.timeline = steps_.timeline;
  if (steps_.count == 0) return;
  out.counters["kv_peak_used_tokens"] = steps_.peak_used_tokens;
  out.counters["kv_peak_blocks"] = steps_.peak_blocks;
  out.counters["kv_peak_bytes"] = steps_.peak_bytes;
  out.counters["kv_pool_bytes"] = memory_.pool_bytes;
}

void ReplayRun::take_rows(size_t index, const ReplaySink& sink) {
  for (size_t number = 0; number < sink.samples().size(); ++number) {
    const ReplaySink::Sample& sample = sink.samples()[number];
    if (sample.reason == FinishReason::error && fault_.empty()) {
      fault_ = "request " + std::to_string(index) + " failed: " + sample.message;
    }
    rows_.push_back(row_of(index, number, sample));
    if (!watched_ || within_bounds(rows_.back(), *watched_)) continue;
    if (late_.erase(index) == 0) ++broken_;
  }
}

RequestRow ReplayRun::row_of(size_t index, size_t number, const ReplaySink::Sample& sample) {
  const RequestRecord& record = sample.record;
  RequestRow row;
  row.index = static_cast<uint32_t>(index);
  row.sample = static_cast<uint32_t>(number);
  row.prompt_tokens = record.prompt_tokens;
  row.tokens = record.generated_tokens;
  row.reused_tokens = record.reused_tokens;
  row.preemptions = record.preemptions;
  row.arrival_ms = ms(record.arrival_ns - start_ns_);
  const int64_t first_ns = record.time_to_first_token_ns();
  row.ttft_ms = first_ns < 0 ? -1 : ms(first_ns);
  row.tpot_ms = record.time_per_output_token_ns() * 1e-6;
  row.latency_ms = ms(record.end_ns - record.arrival_ns);
  for (size_t i = 1; i < record.token_ns.size(); ++i) {
    const double gap = ms(record.token_ns[i] - record.token_ns[i - 1]);
    gaps_.add(gap);
    row.longest_gap_ms = std::max(row.longest_gap_ms, gap);
  }
  row.finish = finish_reason_name(sample.reason);
  row.answer = answer_of(sample.ids);
  row.text = text_hash(sample.text);
  if (record.logits_digest != 0) row.digest = hex(record.logits_digest);
  return row;
}

void ReplayRun::add_totals(MeasuredPiece& out) const {
  const EngineTotals& totals = engine_.totals();
  const auto add = [&](const char* name, auto&& member) {
    out.counters[name] = static_cast<double>(member(totals) - member(before_));
  };
  add("steps", [](const EngineTotals& of) { return of.steps; });
  add("rows", [](const EngineTotals& of) { return of.rows_computed; });
  add("idle_row_steps", [](const EngineTotals& of) { return of.idle_row_steps; });
  add("preemptions", [](const EngineTotals& of) { return of.preemptions; });
  add("reused_tokens", [](const EngineTotals& of) { return of.reused_tokens; });
  add("swapped_out_tokens", [](const EngineTotals& of) { return of.swapped_out_tokens; });
  add("swapped_in_tokens", [](const EngineTotals& of) { return of.swapped_in_tokens; });
  add("drafted_tokens", [](const EngineTotals& of) { return of.drafts.tokens; });
  add("accepted_tokens", [](const EngineTotals& of) { return of.drafts.accepted; });
  add("kv_moves", [](const EngineTotals& of) { return of.kv_moves; });
  out.counters["kv_mean_reserved_tokens"] = totals.mean_kv_reserved_tokens();
  out.counters["kv_unused_fraction"] = totals.kv_unused_fraction();
}

}  // namespace tenon::compare
