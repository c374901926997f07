#include "core/server/models/model_metrics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "core/base/text.h"
#include "core/server/models/served_model.h"

namespace tenon::server {
namespace {

constexpr double kSecondsToFirst[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                      0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0,
                                      20.0,  40.0,  80.0, 160., 640., 2560.};
constexpr double kSecondsBetween[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                      0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr double kSecondsOfRequests[] = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,
                                         5.0,  10.0, 15.0, 20.0, 30.0,  40.0,  50.0,
                                         60.0, 120., 240., 480., 960.0, 1920., 7680.};
constexpr double kTokens[] = {1,   2,    5,    10,   20,    50,    100,   200,
                              500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr double kSamples[] = {1, 2, 5, 10, 20};
constexpr double kStepTokens[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

double seconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<int64_t>(value));
  }
  return format_real(value);
}

std::string label_text(const MetricsText::Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += text.empty() ? "" : ",";
    text += name + "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') text += '\\';
      text += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    text += '"';
  }
  return text;
}

// What vLLM's configuration calls them.
std::string_view cache_dtype(DType type) {
  switch (type) {
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    default:
      return dtype_name(type);
  }
}

// vLLM's gauge of 1, whose labels are the configuration: those of them that there are here.
void write_cache_config(const ServedModel& model, const EngineParts& parts, DType type,
                        MetricsText& out) {
  if (parts.geometry.group_count == 0) return;
  const KvGroupGeometry& group = parts.geometry.groups[parts.shape->ledger_group];
  out.value("vllm:cache_config_info", "gauge", "What the KV cache is like, in labels; always 1.",
            {{"model_name", model.name},
             {"engine", std::to_string(model.rank)},
             {"block_size", std::to_string(group.block_tokens)},
             {"num_gpu_blocks", std::to_string(group.blocks)},
             {"kv_cache_size_tokens", std::to_string(uint64_t{group.blocks} * group.block_tokens)},
             {"cache_dtype", std::string(cache_dtype(type))}},
            1.0);
}

// Those that are shown.
void add_counts(const EngineTotals& more, EngineTotals& sum) {
  sum.steps += more.steps;
  sum.generated_tokens += more.generated_tokens;
  sum.row_steps += more.row_steps;
  sum.idle_row_steps += more.idle_row_steps;
  sum.preemptions += more.preemptions;
  sum.swapped_out_tokens += more.swapped_out_tokens;
  sum.swapped_in_tokens += more.swapped_in_tokens;
  sum.drafts.drafts += more.drafts.drafts;
  sum.drafts.tokens += more.drafts.tokens;
  sum.drafts.accepted += more.drafts.accepted;
  sum.kv_moves += more.kv_moves;
  sum.plan_faults += more.plan_faults;
  sum.forward_faults += more.forward_faults;
  sum.times += more.times;
}

// Of a replica, which engine it is as well.
MetricsText::Labels labels_of(const std::string& name, const ServedModel* model) {
  MetricsText::Labels labels = {{"model_name", name}};
  if (model != nullptr && model->replicas > 1)
    labels.emplace_back("engine", std::to_string(model->rank));
  return labels;
}

MetricsText::Labels with(MetricsText::Labels labels, const MetricsText::Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

std::string_view reason_label(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "abort";
    case FinishReason::error:
      return "error";
    case FinishReason::uncached:
      return "cache_threshold";
    default:
      return "stop";
  }
}

}  // namespace

void Histogram::add(double value) {
  const auto place = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(place)];
  sum_ += value;
}

uint64_t Histogram::up_to(size_t bound) const {
  uint64_t sum = 0;
  for (size_t i = 0; i <= bound && i < counts_.size(); ++i) sum += counts_[i];
  return sum;
}

MetricsText::Family& MetricsText::family(std::string_view name, std::string_view type,
                                         std::string_view help) {
  for (Family& known : families_) {
    if (known.name == name) return known;
  }
  std::string head = "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " +
                     std::string(name) + " " + std::string(type) + "\n";
  families_.push_back({std::string(name), std::move(head), ""});
  return families_.back();
}

void MetricsText::value(std::string_view name, std::string_view type, std::string_view help,
                        const Labels& labels, double value) {
  Family& lines = family(name, type, help);
  const std::string label = label_text(labels);
  lines.lines += std::string(name) + (label.empty() ? "" : "{" + label + "}") + " " +
                 number_text(value) + "\n";
}

void MetricsText::histogram(std::string_view name, std::string_view help, const Labels& labels,
                            const Histogram& values) {
  Family& lines = family(name, "histogram", help);
  const std::string label = label_text(labels);
  const std::string start(name);
  for (size_t i = 0; i <= values.bounds().size(); ++i) {
    const std::string bound =
        i == values.bounds().size() ? "+Inf" : number_text(values.bounds()[i]);
    lines.lines += start + "_bucket{" + label + (label.empty() ? "" : ",") + "le=\"" + bound +
                   "\"} " + std::to_string(values.up_to(i)) + "\n";
  }
  lines.lines += start + "_sum{" + label + "} " + format_real(values.sum()) + "\n";
  lines.lines += start + "_count{" + label + "} " +
                 std::to_string(values.up_to(values.bounds().size())) + "\n";
}

std::string MetricsText::text() const {
  std::string all;
  for (const Family& lines : families_) all += lines.head + lines.lines;
  return all;
}

ModelMetrics::ModelMetrics()
    : first_token_(kSecondsToFirst),
      token_gap_(kSecondsBetween),
      whole_(kSecondsOfRequests),
      queue_(kSecondsOfRequests),
      inference_(kSecondsOfRequests),
      prefill_(kSecondsOfRequests),
      decode_(kSecondsOfRequests),
      prompt_sizes_(kTokens),
      answer_sizes_(kTokens),
      step_sizes_(kStepTokens),
      asked_samples_(kSamples),
      asked_tokens_(kTokens),
      longest_answers_(kTokens) {}

void ModelMetrics::add(const StepRecord& step) {
  const std::lock_guard lock(mutex_);
  step_sizes_.add(step.rows);
}

void ModelMetrics::add(FinishReason reason, const RequestRecord& record) {
  const std::lock_guard lock(mutex_);
  ++ends_[static_cast<size_t>(reason)];
  if (record.sample == 0) {
    prompt_tokens_ += record.prompt_tokens;
    cached_tokens_ += record.reused_tokens;
    prompt_sizes_.add(record.prompt_tokens);
  }
  answer_sizes_.add(record.generated_tokens);
  whole_.add(seconds(record.end_ns - record.arrival_ns));
  if (record.admitted_ns >= 0) queue_.add(seconds(record.admitted_ns - record.arrival_ns));
  if (record.token_ns.empty()) return;
  first_token_.add(seconds(record.time_to_first_token_ns()));
  if (record.admitted_ns >= 0) {
    prefill_.add(seconds(record.token_ns.front() - record.admitted_ns));
    inference_.add(seconds(record.token_ns.back() - record.admitted_ns));
  }
  decode_.add(seconds(record.token_ns.back() - record.token_ns.front()));
  for (size_t i = 1; i < record.token_ns.size(); ++i) {
    token_gap_.add(seconds(record.token_ns[i] - record.token_ns[i - 1]));
  }
}

void ModelMetrics::add(const RequestShape& request) {
  const std::lock_guard lock(mutex_);
  asked_samples_.add(request.samples);
  if (request.max_tokens == 0) return;
  for (uint32_t i = 0; i < request.samples; ++i) asked_tokens_.add(request.max_tokens);
  longest_answers_.add(request.longest_tokens);
}

void ModelMetrics::count_aborted() {
  const std::lock_guard lock(mutex_);
  ++aborted_;
}

void ModelMetrics::count_slow_reader() {
  const std::lock_guard lock(mutex_);
  ++slow_readers_;
}

void ModelMetrics::write_histograms(const MetricsText::Labels& labels, MetricsText& out) const {
  out.histogram("vllm:time_to_first_token_seconds", "From a request's arrival to its first token.",
                labels, first_token_);
  out.histogram("vllm:inter_token_latency_seconds", "Between two tokens of one answer.", labels,
                token_gap_);
  out.histogram("vllm:e2e_request_latency_seconds", "From arrival to end.", labels, whole_);
  out.histogram("vllm:request_queue_time_seconds", "From arrival to the first step.", labels,
                queue_);
  out.histogram("vllm:request_inference_time_seconds", "From the first step to the last token.",
                labels, inference_);
  out.histogram("vllm:request_prefill_time_seconds", "From the first step to the first token.",
                labels, prefill_);
  out.histogram("vllm:request_decode_time_seconds", "From the first token to the last.", labels,
                decode_);
  out.histogram("vllm:request_prompt_tokens", "Tokens of prompts.", labels, prompt_sizes_);
  out.histogram("vllm:request_generation_tokens", "Tokens of answers.", labels, answer_sizes_);
  out.histogram("vllm:request_params_n", "Answers that a request asked for.", labels,
                asked_samples_);
  out.histogram("vllm:request_params_max_tokens", "Tokens that an answer might have.", labels,
                asked_tokens_);
  out.histogram("vllm:request_max_num_generation_tokens", "Tokens of a request's longest answer.",
                labels, longest_answers_);
  out.histogram("vllm:iteration_tokens_total", "Tokens that a step computed.", labels, step_sizes_);
}

namespace {

// Of each tier of K/V, and of all.
void write_tiers(const MetricsText::Labels& labels, const Tiers& tiers, MetricsText& out) {
  const TierTotals totals = tiers.totals();
  const auto counter = [&](std::string_view name, std::string_view help, uint64_t value) {
    out.value(name, "counter", help, labels, static_cast<double>(value));
  };
  counter("tenon:kv_tier_found_tokens_total", "Tokens whose K/V came from a tier.",
          totals.found_tokens);
  counter("tenon:kv_tier_late_total", "Prompts whose K/V would have come too late.", totals.late);
  counter("tenon:kv_tier_refused_blocks_total", "Blocks not kept, as too much was under way.",
          totals.refused_blocks);
  const auto each = [&](std::string_view name, const char* type, std::string_view help,
                        uint64_t (*value)(const TierTotals::Store&)) {
    for (const TierTotals::Store& store : totals.stores) {
      out.value(name, type, help, with(labels, {{"tier", store.kind}}),
                static_cast<double>(value(store)));
    }
  };
  using Store = TierTotals::Store;
  each("tenon:kv_tier_read_bytes_total", "counter", "K/V read from a tier.",
       [](const Store& store) { return store.read_bytes; });
  each("tenon:kv_tier_written_bytes_total", "counter", "K/V written to a tier.",
       [](const Store& store) { return store.written_bytes; });
  each("tenon:kv_tier_held_bytes", "gauge", "K/V that lies in a tier.",
       [](const Store& store) { return store.totals.held_bytes; });
  each("tenon:kv_tier_damaged_total", "counter", "Entries that were not what was written.",
       [](const Store& store) { return store.totals.damaged; });
  each("tenon:kv_tier_faults_total", "counter", "Reads and writes that failed.",
       [](const Store& store) { return store.totals.faults; });
}

// Of what goes to other workers, and comes from them.
void write_transfer(const MetricsText::Labels& labels, const KvTransfer& transfer,
                    MetricsText& out) {
  const TransferTotals totals = transfer.totals();
  const auto put = [&](std::string_view name, const char* type, std::string_view help,
                       uint64_t value) {
    out.value(name, type, help, labels, static_cast<double>(value));
  };
  const ExportTotals& sent = totals.exports;
  put("tenon:kv_transfer_sent_bytes_total", "counter", "K/V sent to decode workers.",
      sent.sent_bytes);
  put("tenon:kv_transfer_sent_blocks_total", "counter", "Of them, blocks and states.",
      sent.sent_blocks);
  put("tenon:kv_transfer_sent_early_bytes_total", "counter",
      "Of these bytes, those sent before later layers of their blocks were computed.",
      sent.early_bytes);
  put("tenon:kv_transfer_held_bytes", "gauge", "K/V that waits to be fetched.", sent.held_bytes);
  put("tenon:kv_transfer_leases", "gauge", "Prompts whose K/V waits, or is computed for others.",
      sent.leases);
  put("tenon:kv_transfer_expired_total", "counter", "Of them, those that nobody fetched in time.",
      sent.expired);
  put("tenon:kv_transfer_refused_total", "counter", "Of them, those cut short for lack of memory.",
      sent.refused_blocks);
  const ImportTotals& got = totals.imports;
  put("tenon:kv_transfer_received_bytes_total", "counter", "K/V from prefill workers.",
      got.received_bytes);
  put("tenon:kv_transfer_found_tokens_total", "counter", "Tokens whose K/V came from others.",
      got.found_tokens);
  put("tenon:kv_transfer_awaited", "gauge", "Requests whose K/V others have, or compute.",
      got.holds);
  put("tenon:kv_transfer_complete_total", "counter", "Prompts that came whole.", got.complete);
  put("tenon:kv_transfer_partial_total", "counter", "Prompts of which less came, or nothing.",
      got.partial);
  put("tenon:kv_transfer_lost_links_total", "counter", "Prefill workers lost, or not reached.",
      got.lost_links);
}

}  // namespace

void write_replicas(const Replicas& replicas, MetricsText& out) {
  if (replicas.is_one()) return;
  for (uint32_t rank = 0; rank < replicas.size(); ++rank) {
    const ServedModel& model = *replicas.all()[rank].model;
    out.value("tenon:replica_up", "gauge", "1 while a replica works, 0 once it is lost.",
              labels_of(model.name, &model), replicas.problem_of(rank).empty() ? 1.0 : 0.0);
  }
  out.value("tenon:repeated_requests_total", "counter",
            "Requests that one replica failed and another made again.",
            {{"model_name", replicas.all().front().model->name}},
            static_cast<double>(replicas.repeated()));
}

void ModelMetrics::carry(const ServedModel& model) {
  if (model.host == nullptr) return;
  const llm::HostFigures last = model.host->figures();
  const std::lock_guard lock(mutex_);
  add_counts(last.totals, carried_);
}

void ModelMetrics::write(const std::string& model, const ServedModel* served,
                         MetricsText& out) const {
  const llm::HostFigures now = served == nullptr ? llm::HostFigures() : served->host->figures();
  EngineTotals totals = now.totals;
  const std::lock_guard lock(mutex_);
  add_counts(carried_, totals);
  const MetricsText::Labels labels = labels_of(model, served);
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    out.value(name, "gauge", help, labels, value);
  };
  const auto counter = [&](std::string_view name, std::string_view help, uint64_t value) {
    out.value(name, "counter", help, labels, static_cast<double>(value));
  };
  gauge("vllm:num_requests_running", "Sequences that hold KV memory.", now.running);
  gauge("vllm:num_requests_waiting", "Sequences that wait for it.", now.waiting);
  gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is all.", now.kv_used);
  counter("vllm:num_preemptions_total", "Sequences that had to give their memory back.",
          totals.preemptions);
  counter("vllm:generation_tokens_total", "Tokens generated.", totals.generated_tokens);
  counter("vllm:spec_decode_num_drafts_total", "Drafts.", totals.drafts.drafts);
  counter("vllm:spec_decode_num_draft_tokens_total", "Tokens of drafts.", totals.drafts.tokens);
  counter("vllm:spec_decode_num_accepted_tokens_total", "Of them, kept.", totals.drafts.accepted);
  counter("tenon:steps_total", "Steps that computed something.", totals.steps);
  counter("tenon:row_steps_total", "Slots of sequences held, a step each.", totals.row_steps);
  counter("tenon:idle_row_steps_total", "Of them, held for finished sequences.",
          totals.idle_row_steps);
  counter("tenon:kv_moves_total", "Copies inside the KV cache.", totals.kv_moves);
  counter("tenon:swapped_out_tokens_total", "K/V moved to the swap pool.",
          totals.swapped_out_tokens);
  counter("tenon:swapped_in_tokens_total", "And back.", totals.swapped_in_tokens);
  counter("tenon:plan_faults_total", "Plans that failed.", totals.plan_faults);
  counter("tenon:forward_faults_total", "Steps whose forward pass failed.", totals.forward_faults);
  if (served != nullptr) write_engine(labels, *served, totals.times, out);
  counter("vllm:prompt_tokens_total", "Tokens of prompts.", prompt_tokens_);
  counter("vllm:prefix_cache_queries_total", "Tokens of prompts that were looked for.",
          prompt_tokens_);
  counter("vllm:prefix_cache_hits_total", "Of them, found in the cache.", cached_tokens_);
  counter("tenon:aborted_requests_total",
          "Requests whose client went away before it had all, or read too slowly.", aborted_);
  counter("tenon:slow_readers_total", "Requests ended because their reader was too slow.",
          slow_readers_);
  for (const FinishReason reason :
       {FinishReason::stop, FinishReason::length, FinishReason::cancelled, FinishReason::error,
        FinishReason::uncached}) {
    uint64_t count = ends_[static_cast<size_t>(reason)];
    if (reason == FinishReason::stop) {
      count += ends_[static_cast<size_t>(FinishReason::eos)] +
               ends_[static_cast<size_t>(FinishReason::pooled)];
    }
    out.value("vllm:request_success_total", "counter", "Answers that ended, by reason.",
              with(labels, {{"finished_reason", std::string(reason_label(reason))}}),
              static_cast<double>(count));
  }
  write_histograms(labels, out);
  const size_t adapters = served == nullptr ? 0 : served->host->parts().adapters.size();
  if (adapters > 0) write_adapters(labels, adapters, out);
}

// What only a loaded model's engine can say.
void ModelMetrics::write_engine(const MetricsText::Labels& labels, const ServedModel& served,
                                const PartTimes& times, MetricsText& out) const {
  const Pipeline& pipeline = *served.pipeline;
  const EngineParts& parts = served.host->parts();
  write_cache_config(served, parts, pipeline.kv_dtype, out);
  if (pipeline.tiers != nullptr) write_tiers(labels, *pipeline.tiers, out);
  if (pipeline.transfer != nullptr) write_transfer(labels, *pipeline.transfer, out);
  const uint64_t shared = pipeline.executor->shared_weight_bytes();
  const auto weights = [&](const char* kind, uint64_t bytes) {
    out.value("tenon:weight_bytes", "gauge", "Memory of weights: its own, or another model's.",
              with(labels, {{"held", kind}}), static_cast<double>(bytes));
  };
  weights("own", pipeline.executor->weight_bytes() - shared);
  weights("shared", shared);
  const auto part = [&](const char* name, const std::string& plugin, int64_t ns) {
    out.value("tenon:part_seconds_total", "counter", "Time inside each part of the engine.",
              with(labels, {{"part", name}, {"plugin", plugin}}), seconds(ns));
  };
  part("scheduler", parts.scheduler_name, times.scheduler_ns);
  part("kv_cache", parts.kv_cache_name, times.kv_cache_ns);
  part("sampler", parts.sampler_name, times.sampler_ns);
  if (parts.drafter != nullptr) part("drafter", parts.drafter_name, times.drafter_ns);
  part("executor", pipeline.config.executor.value, times.executor_ns);
  part("engine", "", times.engine_ns);
}

// vLLM's way: the labels say what there is, and the value is when that was so.
void ModelMetrics::write_adapters(const MetricsText::Labels& labels, size_t adapters,
                                  MetricsText& out) const {
  std::vector<std::string> running, waiting;
  for (const auto& [name, use] : adapters_) {
    if (use.running > 0) running.push_back(name);
    if (use.waiting > 0) waiting.push_back(name);
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  out.value("vllm:lora_requests_info", "gauge",
            "Adapters of requests that answer, and of those that do not yet; when that was so.",
            with(labels, {{"max_lora", std::to_string(adapters)},
                          {"running_lora_adapters", join(running, ",")},
                          {"waiting_lora_adapters", join(waiting, ",")}}),
            std::chrono::duration<double>(now).count());
}

void ModelMetrics::note_adapter(const std::string& name, int waiting, int running) {
  if (name.empty()) return;
  const std::lock_guard lock(mutex_);
  AdapterUse& use = adapters_[name];
  use.waiting += waiting;
  use.running += running;
}

}  // namespace tenon::server
