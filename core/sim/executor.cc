#include "core/sim/executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/sim/made_tokens.h"
#include "core/sim/step_cost.h"

namespace tenon::sim {
namespace {

// Times are whole nanoseconds of 64 bits.
constexpr double kLongestStepSeconds = 1e5;

// Whatever a kernel somewhere can do. Hidden states are not there, nor is a second model.
constexpr Fact kProvides[] = {
    {.key = "device.space", .words = "host"},
    {.key = "kv.dtype", .words = "f32 f16 bf16 i8 i4"},
    {.key = "attn.head_dim", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.group", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.mask.sliding", .words = "no yes"},
    {.key = "attn.mask.tree", .words = "no yes"},
    {.key = "attn.mask.spans", .words = "no yes"},
    {.key = "attn.latent", .words = "no yes"},
    {.key = "attn.chosen", .words = "no yes"},
    {.key = "attn.soft_cap", .words = "no yes"},
    {.key = "attn.sinks", .words = "no yes"},
    {.key = "attn.alibi", .words = "no yes"},
    {.key = "kv.swap", .words = "no yes"},
    {.key = "draft.needs", .op = FactOp::in, .number = 0, .words = "nothing"},
    {.key = "numerics.rows", .words = "invariant"},
};

class MachineTimes final : public StepTimes {
 public:
  MachineTimes(Machine machine, uint32_t ranks, StepModel model, const ExecutorSetup& setup)
      : machine_(std::move(machine)),
        ranks_(ranks),
        model_(std::move(model)),
        turn_(machine_turn(machine_)),
        ledger_group_(setup.shape->ledger_group) {
    for (GroupId group = 0; group < setup.geometry.group_count; ++group) {
      token_bytes_.push_back(static_cast<double>(setup.geometry.groups[group].bytes_per_token));
    }
  }

  int64_t step_ns(const BatchView& batch, std::span<const DecodeRow> before) override {
    StepModel::loads_of(batch, ledger_group_, loads_);
    if (imports_) leave_out_imported(batch);
    if (!before.empty()) {
      loads_.insert(loads_.begin(), before.size(), {});
      std::ranges::transform(before, loads_.begin(), load_of);
    }
    return time_of(static_cast<uint32_t>(batch.logits_rows.size() + before.size()));
  }
  int64_t decode_ns(std::span<const DecodeRow> rows) override {
    loads_.resize(rows.size());
    std::ranges::transform(rows, loads_.begin(), load_of);
    return time_of(static_cast<uint32_t>(rows.size()));
  }
  // What is imported is followed by sequence.
  bool knows_decodes() const override { return !imports_ && !endless_; }
  Status fault() const override {
    if (!endless_) return {};
    return invalid_argument("a step takes more than " + format_real(kLongestStepSeconds) +
                            " seconds on machine " + in_quotes(machine_.name) +
                            "; its file is in bytes and operations a second, and shares are parts "
                            "of 1: look at bandwidth, operations and share");
  }
  // Within the cache bytes are read and written; to and from the pool they cross the link.
  int64_t moves_ns(std::span<const KvMove> moves) override {
    double seconds = 0;
    for (const KvMove& move : moves) {
      const double bytes = token_bytes_[move.group] * move.tokens;
      const bool inside = move.from.tier == move.to.tier;
      seconds += inside ? 2 * bytes / machine_.bandwidth : bytes / machine_.link_bandwidth;
    }
    return static_cast<int64_t>(seconds * 1e9);
  }
  uint64_t expert_bytes() const override { return expert_bytes_; }
  StepTime spent() const override { return spent_; }
  void import_prompts(bool on) override {
    imports_ = on;
    computed_.clear();
  }
  std::optional<double> transfer_seconds(double bytes) const override {
    if (machine_.network_bandwidth <= 0) return std::nullopt;
    return bytes / machine_.network_bandwidth + machine_.network_ns * 1e-9;
  }

 private:
  static SequenceLoad load_of(const DecodeRow& row) { return {1, row.position + 1}; }
  int64_t time_of(uint32_t logits_rows) {
    model_.needs_of(loads_, logits_rows, turn_, needs_);
    expert_bytes_ = static_cast<uint64_t>(needs_.expert_bytes);
    const StepTime time = step_time(machine_, needs_, ranks_);
    spent_ += time;
    endless_ = endless_ || !(time.seconds() < kLongestStepSeconds);
    return std::max<int64_t>(1, std::llround(std::min(time.seconds(), kLongestStepSeconds) * 1e9));
  }
  // Of a prompt that was never here all rows but the one that gives the next token; one that is
  // computed again after it lost its memory takes its time.
  void leave_out_imported(const BatchView& batch) {
    size_t logits = 0;
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const BatchSequence& sequence = batch.sequences[i];
      const uint32_t end = sequence.first_row + sequence.rows;
      uint32_t sampled = 0;
      for (; logits < batch.logits_rows.size() && batch.logits_rows[logits] < end; ++logits) {
        ++sampled;
      }
      SequenceLoad& load = loads_[i];
      uint32_t& computed = computed_[sequence.seq];
      const uint32_t own = std::max(sampled, sequence.drafts);
      if (load.kv_tokens - load.rows >= computed && load.rows > own) load.rows = own;
      computed = std::max(computed, loads_[i].kv_tokens);
    }
    // Without rows a sequence is not in the step.
    std::erase_if(loads_, [](const SequenceLoad& load) { return load.rows == 0; });
  }

  Machine machine_;
  uint32_t ranks_;
  StepModel model_;
  double turn_;
  GroupId ledger_group_;
  std::vector<double> token_bytes_;  // by group
  uint64_t expert_bytes_ = 0;
  StepTime spent_;
  bool endless_ = false;  // a step took longer than anybody waits
  bool imports_ = false;
  std::unordered_map<SeqId, uint32_t> computed_;  // the most entries that each had, with imports
  std::vector<SequenceLoad> loads_;               // of the latest step
  StepNeeds needs_;
};

// Logits that are 0 and take no memory: pages that nobody writes are one page.
class ZeroLogits {
 public:
  ZeroLogits() = default;
  ZeroLogits(const ZeroLogits&) = delete;
  ZeroLogits& operator=(const ZeroLogits&) = delete;
  ~ZeroLogits() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  Status map(size_t floats) {
    bytes_ = std::max<size_t>(floats, 1) * sizeof(float);
    void* made =
        ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) {
      return out_of_memory("there is no address space for " + approximate_bytes(bytes_) +
                           " of logits; lower limits.max_batch_tokens");
    }
    data_ = made;
    return {};
  }
  const float* data() const { return static_cast<const float*>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class SimExecutor final : public Executor, private DecodeSteps {
 public:
  explicit SimExecutor(SimOptions options) : options_(std::move(options)) {}

  std::string_view name() const override { return "sim"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return false; }
  bool is_exact() const override { return false; }
  uint32_t workers() const override { return 1; }

  Status load(const ExecutorSetup& setup) override {
    TENON_ASSIGN_OR_RETURN(times_, options_.times(setup));
    vocabulary_ = setup.shape->vocabulary;
    weight_bytes_ = setup.model->weight_bytes();
    for (GroupId group = 0; group < setup.geometry.group_count; ++group) {
      const KvGroupGeometry& each = setup.geometry.groups[group];
      kv_bytes_ += each.bytes_per_token * each.block_tokens * each.blocks;
    }
    std::vector<TokenId> ends = setup.model->plan.eos;
    for (const TextEnd& end : setup.model->ends) ends.push_back(end.token);
    tokens_ = std::make_unique<MadeTokens>(vocabulary_, std::move(ends), options_.acceptance);
    return logits_.map(size_t{setup.max_rows} * vocabulary_);
  }

  void follow(const RecordedStep* record) { record_ = record; }
  void import_prompts(bool on) {
    if (times_) times_->import_prompts(on);
  }
  std::optional<double> transfer_seconds(double bytes) const {
    return times_ ? times_->transfer_seconds(bytes) : std::nullopt;
  }
  std::optional<StepTime> spent() const {
    return times_ ? std::optional(times_->spent()) : std::nullopt;
  }

  Status apply(std::span<const KvMove> moves) override {
    if (record_ == nullptr) options_.clock->advance(times_->moves_ns(moves));
    return {};
  }

  Status launch(const BatchView& batch) override {
    if (!batch.hidden_rows.empty()) {
      return unsupported(
          "executor \"sim\" computes no hidden states, which a vector of a text or "
          "a drafter asks for; simulate requests that generate tokens");
    }
    output_ = {};
    output_.step_id = batch.step_id;
    output_.logits = logits_.data();
    output_.logits_rows = static_cast<uint32_t>(batch.logits_rows.size());
    output_.vocabulary = vocabulary_;
    if (record_ != nullptr) {
      take_recorded(batch);
    } else if (options_.makes_tokens) {
      tokens_->draw(batch, drawn_);
    }
    if (record_ != nullptr || options_.makes_tokens) output_.drawn = drawn_;
    duration_ns_ =
        record_ != nullptr ? record_->step_ns : times_->step_ns(batch, std::exchange(before_, {}));
    TENON_RETURN_IF_ERROR(times_->fault());
    output_.expert_bytes = times_->expert_bytes();
    return {};
  }

  bool reads_tables() const override { return false; }
  DecodeSteps* decode_steps() override {
    return record_ == nullptr && options_.makes_tokens && times_->knows_decodes() ? this : nullptr;
  }

  Result<StepOutput> collect(uint64_t step_id) override {
    if (output_.step_id != step_id) {
      return internal("step " + std::to_string(step_id) + " was not the last one launched");
    }
    options_.clock->advance(std::exchange(duration_ns_, 0));
    return output_;
  }

  std::string numerics() const override { return "sim"; }
  uint64_t weight_bytes() const override { return weight_bytes_; }
  uint64_t kv_bytes() const override { return kv_bytes_; }

 private:
  uint64_t step(std::span<const DecodeRow> rows, std::span<TokenId> drawn) override {
    draw_after(rows, drawn);
    options_.clock->advance(times_->decode_ns(rows));
    return times_->expert_bytes();
  }
  void beside(std::span<const DecodeRow> rows, std::span<TokenId> drawn) override {
    draw_after(rows, drawn);
    before_ = rows;
  }
  void draw_after(std::span<const DecodeRow> rows, std::span<TokenId> drawn) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      drawn[i] = tokens_->after(rows[i].token, rows[i].position);
    }
  }
  void take_recorded(const BatchView& batch) {
    drawn_.clear();
    const size_t axes = batch.positions.size() / batch.rows;
    size_t at = 0;
    for (const uint32_t row : batch.logits_rows) {
      while (row >= batch.sequences[at].first_row + batch.sequences[at].rows) ++at;
      drawn_.push_back(record_->token(batch.sequences[at].seq, batch.positions[row * axes]));
    }
  }

  SimOptions options_;
  const RecordedStep* record_ = nullptr;
  std::unique_ptr<StepTimes> times_;
  std::unique_ptr<MadeTokens> tokens_;
  ZeroLogits logits_;
  std::vector<TokenId> drawn_;
  std::span<const DecodeRow> before_;  // of the next launch
  StepOutput output_;
  int64_t duration_ns_ = 0;
  uint32_t vocabulary_ = 0;
  uint64_t weight_bytes_ = 0, kv_bytes_ = 0;
};

}  // namespace

TimesFactory times_of(Machine machine, uint32_t ranks) {
  return [machine = std::move(machine),
          ranks](const ExecutorSetup& setup) -> Result<std::unique_ptr<StepTimes>> {
    StepModel model(*setup.model, *setup.shape, setup.geometry, ranks);
    TENON_RETURN_IF_ERROR(check_formats(machine, model));
    return std::unique_ptr<StepTimes>(
        std::make_unique<MachineTimes>(machine, ranks, std::move(model), setup));
  };
}

std::optional<StepTime> spent(const Executor& executor) {
  const auto* simulated = dynamic_cast<const SimExecutor*>(&executor);
  return simulated == nullptr ? std::nullopt : simulated->spent();
}

Status import_prompts(Executor& executor, bool on) {
  auto* simulated = dynamic_cast<SimExecutor*>(&executor);
  if (simulated == nullptr) {
    return invalid_argument("executor " + in_quotes(executor.name()) +
                            " computes; prompts come from elsewhere in simulations alone");
  }
  simulated->import_prompts(on);
  return {};
}

std::optional<double> transfer_seconds(const Executor& executor, double bytes) {
  const auto* simulated = dynamic_cast<const SimExecutor*>(&executor);
  return simulated == nullptr ? std::nullopt : simulated->transfer_seconds(bytes);
}

Status follow_record(Executor& executor, const RecordedStep* record) {
  auto* simulated = dynamic_cast<SimExecutor*>(&executor);
  if (simulated == nullptr) {
    return invalid_argument("executor " + in_quotes(executor.name()) +
                            " computes; a record is followed by \"sim\" alone");
  }
  simulated->follow(record);
  return {};
}

std::unique_ptr<Executor> make_sim_executor(SimOptions options) {
  return std::make_unique<SimExecutor>(std::move(options));
}

}  // namespace tenon::sim
