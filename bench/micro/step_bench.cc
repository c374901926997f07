// Whole steps of the CPU executor: decoding one or more sequences, and prefill, in fractions of
// what memory and arithmetic allow.
//
//   step_bench --model=FOLDER [--shape=llama-3.2-1b] --benchmark_filter='decode/batch:1$'
//
// With --shape a checkpoint of random bf16 weights is made in FOLDER where there is none.
#include <tenon/attention.h>
#include <tenon/linear.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"
#include "core/exec/cpu/cpu_executor.h"
#include "core/model/synth.h"

namespace tenon::bench {
namespace {

constexpr uint32_t kContext = 1024;  // one KV block a sequence holds all of it
constexpr uint32_t kMaxSequences = 32;
constexpr uint32_t kMaxRows = 512;

template <typename T>
T value_or_leave(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%.*s\n", static_cast<int>(result.status().message().size()),
               result.status().message().data());
  std::exit(1);
}
void leave_unless(Status status) {
  if (!status.ok()) value_or_leave(Result<int>(std::move(status)));
}

// A loaded executor, with steps whose work is known.
class Stepper {
 public:
  explicit Stepper(const std::string& folder)
      : model_(value_or_leave(open_model(folder))),
        shape_(model_->config, kContext),
        executor_(
            value_or_leave(make_cpu_executor({machine().facts.workers, machine().facts.cpu_isa}))) {
    LinearKernel& linear = kernel<LinearKernel>("linear_dense", kLinearInterface, "dense");
    group_ = {kContext, kMaxSequences, kv_bytes_per_token(shape_.shape(), 0, DType::bf16)};
    ExecutorSetup setup;
    setup.model = model_.get();
    setup.shape = &shape_.shape();
    setup.geometry = {DType::bf16, kContext, kMaxSequences, 1, &group_};
    setup.max_rows = kMaxRows;
    setup.max_sequences = kMaxSequences;
    setup.attention = &kernel<AttentionKernel>("attention_cpu", kAttentionInterface, "cpu");
    setup.linear = [&linear](const WeightView&) -> Result<LinearKernel*> { return &linear; };
    leave_unless(executor_->load(setup));
    std::printf("%s: %s, %.2f GB of weights\n", folder.c_str(), executor_->numerics().c_str(),
                static_cast<double>(executor_->weight_bytes()) / 1e9);
  }

  // `sequences` with `rows` rows each, the last at position `last`; logits of each last row.
  void step(uint32_t sequences, uint32_t rows, uint32_t last) {
    std::vector<TokenId> tokens;
    std::vector<uint32_t> positions;
    std::vector<uint32_t> wanted;
    std::vector<BlockId> blocks(sequences);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::vector<KvTableView> tables(sequences);
    std::vector<BatchSequence> parts;
    for (uint32_t s = 0; s < sequences; ++s) {
      for (uint32_t row = 0; row < rows; ++row) {
        tokens.push_back(static_cast<TokenId>((s * 31 + row * 7 + 1) % model_->config.vocabulary));
        positions.push_back(last + 1 - rows + row);
      }
      tables[s].blocks = {&blocks[s], 1};
      parts.push_back({s, s * rows, rows, last + 1, {&tables[s], 1}});
      wanted.push_back(s * rows + rows - 1);
    }
    const uint32_t all = sequences * rows;
    const BatchView batch{++step_id_, all, all,   tokens, positions,
                          positions,  {},  parts, wanted, nullptr};
    leave_unless(executor_->launch(batch));
    value_or_leave(executor_->collect(step_id_));
  }

  // Weights are read once, K and V of the positions before once a sequence. Of the last layer and
  // the head only wanted rows are counted in full.
  Cost cost(uint32_t sequences, uint32_t rows, uint32_t last, const MachineLimits& limits) const {
    const ModelConfig& c = model_->config;
    const double head = double{1} * c.vocabulary * c.hidden;
    const double all = static_cast<double>(model_->parameter_count());
    const double layers = all - head * (c.tied_embeddings ? 1 : 2);
    const double products = (layers * rows + head) * sequences;
    const double scores = 2.0 * c.layers * c.heads * c.head_dim * rows * (last + 1 - rows / 2.0);
    return {.bytes = static_cast<double>(executor_->weight_bytes()) +
                     static_cast<double>(group_.bytes_per_token) * sequences * last,
            .operations = 2 * (products + scores * sequences),
            .operation_limit = limits.fma_flops};
  }

 private:
  std::unique_ptr<Model> model_;
  ModelShapeStorage shape_;
  KvGroupGeometry group_;
  std::unique_ptr<Executor> executor_;
  uint64_t step_id_ = 0;
};

void bench_step(benchmark::State& state, Stepper& stepper, uint32_t sequences, uint32_t rows,
                uint32_t last) {
  stepper.step(sequences, rows, last);  // touches what the steps touch
  const MachineLimits limits = limits_now();
  std::vector<double> seconds;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    stepper.step(sequences, rows, last);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
    state.SetIterationTime(took.count());
  }
  report(state, limits, stepper.cost(sequences, rows, last, limits), seconds);
  state.counters["tok/s"] = sequences * rows / seconds[seconds.size() / 2];
}

// Takes --model and --shape out of argv.
std::string take_model_folder(int& argc, char** argv) {
  std::string folder;
  std::string shape;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag.starts_with("--model=")) {
      folder = flag.substr(8);
    } else if (flag.starts_with("--shape=")) {
      shape = flag.substr(8);
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  if (!shape.empty() && !std::filesystem::exists(folder + "/config.json")) {
    SynthesisOptions options;
    options.out_folder = folder;
    leave_unless(synthesize_model(shape, options));
  }
  return folder;
}

void add(Stepper& stepper, const std::string& name, uint32_t sequences, uint32_t rows,
         uint32_t last) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [&stepper, sequences, rows, last](auto& state) {
                                 bench_step(state, stepper, sequences, rows, last);
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->MinTime(1.0);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon::bench;
  const std::string folder = take_model_folder(argc, argv);
  if (!start_machine(argc, argv)) return 1;
  Stepper stepper(folder);
  for (const uint32_t sequences : {1u, 2u, 8u, 32u}) {
    add(stepper, "decode/batch:" + std::to_string(sequences), sequences, 1, 63);
  }
  add(stepper, "decode/batch:1/context:1000", 1, 1, 999);
  for (const uint32_t rows : {16u, 128u, 512u}) {
    add(stepper, "prefill/rows:" + std::to_string(rows), 1, rows, rows - 1);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
