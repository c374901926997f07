// The cpu attention kernel: decoding against long contexts, bound by reading K and V, and prompts,
// bound by FMA. Layers stand one after the other in memory that no cache holds.
//
//   attention_bench --benchmark_filter='decode.*bf16'
//   attention_bench --products=int8     of i8 and i4 alone; bf16: of bf16 alone
#include <sys/mman.h>
#include <tenon/attention.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"

namespace tenon::bench {
namespace {

constexpr uint64_t kFarBytes = uint64_t{640} << 20;

struct Heads {
  const char* name;
  uint32_t kv_heads, query_heads, head_dim;
  uint32_t latent_v_dim = 0;  // latent rows of head_dim elements: V is the first ones

  uint32_t v_dim() const { return latent_v_dim > 0 ? latent_v_dim : head_dim; }
  uint32_t planes() const { return latent_v_dim > 0 ? 1 : 2; }
};
constexpr Heads kHeads[] = {
    {"1B", 8, 32, 64}, {"8B", 8, 32, 128}, {"135M", 3, 9, 64}, {"V2-Lite", 1, 16, 576, 512}};

struct Case {
  Heads heads;
  DType dtype = DType::bf16;
  uint32_t block_tokens = 16;
  uint32_t sequences = 1;
  uint32_t first_token = 0;  // of this step; before it the cache is full
  uint32_t rows = 1;         // of each sequence
  double MachineLimits::*operation_limit = &MachineLimits::fma_flops;
};

// Layers with a cache of their own, and one step over them.
class Attention {
 public:
  Attention(AttentionKernel& kernel, const Case& shape) : kernel_(kernel), shape_(shape) {
    tokens_ = shape.first_token + shape.rows;
    const uint32_t blocks_each = (tokens_ + shape.block_tokens - 1) / shape.block_tokens;
    const uint64_t plane_bytes = uint64_t{blocks_each} * shape.sequences * block_bytes();
    const uint64_t layer_bytes = plane_bytes * shape.heads.planes();
    layers_ = static_cast<uint32_t>(1 + kFarBytes / layer_bytes);
    if (shape.rows > 1) layers_ = 2;  // prompts are not bound by memory
    bytes_ = layer_bytes * layers_;
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    madvise(memory_, bytes_, MADV_HUGEPAGE);
    fill();
    describe(plane_bytes);
    make_batch(blocks_each);
    if (!kernel.bind(binding()).ok()) std::abort();
    workspace_.resize(kernel.workspace_bytes(0) + 64);
    plan_.resize(kernel.plan_bytes(0) + 64);
  }
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;
  ~Attention() { munmap(memory_, bytes_); }

  void plan() {
    if (!kernel_.plan({0, &batch_, all_, aligned(plan_)}, planned_).ok()) std::abort();
    call_.plan = aligned(plan_);
    call_.workspace = aligned(workspace_);
  }
  void next_layer() { call_.layer = (call_.layer + 1) % layers_; }
  void run(uint32_t worker, uint32_t workers) {
    for (uint32_t phase = 0; phase < planned_.phases; ++phase) {
      if (!kernel_.run(call_, phase, {worker, workers}).ok()) std::abort();
      machine().pool->barrier(worker);
    }
  }
  Cost cost(const MachineLimits& limits) const {
    double pairs = 0;  // of a row and a position that it sees
    for (uint32_t row = 0; row < shape_.rows; ++row) pairs += shape_.first_token + row + 1;
    pairs *= shape_.sequences;
    const double dims = shape_.heads.head_dim + shape_.heads.v_dim();
    return {.bytes = static_cast<double>(shape_.heads.planes()) * tokens_ * shape_.sequences *
                     shape_.heads.kv_heads * static_cast<double>(token_bytes()),
            .operations = 2 * pairs * shape_.heads.query_heads * dims,
            .operation_limit = limits.*shape_.operation_limit};
  }

 private:
  uint64_t token_bytes() const { return kv_row_bytes(shape_.dtype, shape_.heads.head_dim); }
  uint64_t block_bytes() const {
    return token_bytes() * shape_.block_tokens * shape_.heads.kv_heads;
  }
  void fill() {
    auto* words = static_cast<uint16_t*>(memory_);
    uint32_t state = 1;
    for (uint64_t i = 0; i < bytes_ / 2; ++i) {
      state = state * 1664525u + 1013904223u;
      // Small numbers in every type, and as scales too.
      words[i] = static_cast<uint16_t>(0x3c00 | (state >> 25));
    }
  }
  void describe(uint64_t plane_bytes) {
    const uint32_t planes = shape_.heads.planes();
    group_.kind = planes == 1 ? KvKind::latent : KvKind::attention;
    group_.layers = layers_;
    group_.kv_heads = shape_.heads.kv_heads;
    group_.k_dim = shape_.heads.head_dim;
    group_.v_dim = shape_.heads.v_dim();
    LayerShape layer;
    layer.query_heads = shape_.heads.query_heads;
    layer.scale = 0.125f;
    for (; layer.index_in_group < layers_; ++layer.index_in_group) layer_shapes_.push_back(layer);
    model_.layer_count = layers_;
    model_.context_tokens = tokens_;
    model_.group_count = 1;
    model_.groups = &group_;
    model_.layers = layer_shapes_.data();
    auto* base = static_cast<std::byte*>(memory_);
    for (uint32_t i = 0; i < layers_; ++i) {
      const KvPlane k{base + planes * i * plane_bytes, block_bytes(),
                      token_bytes() * shape_.block_tokens, token_bytes()};
      KvPlane v = k;
      if (planes == 2) v.base += plane_bytes;
      planes_.push_back({k, v});
    }
    storage_ = {shape_.dtype, shape_.block_tokens, planes_};
  }
  AttentionBinding binding() const {
    static constexpr GroupId kGroups[] = {0};
    AttentionBinding binding;
    binding.model = &model_;
    binding.groups = kGroups;
    binding.storage = {&storage_, 1};
    binding.max_rows = shape_.rows * shape_.sequences;
    binding.max_sequences = shape_.sequences;
    binding.slices = machine().pool->size();
    return binding;
  }
  static void* aligned(std::vector<std::byte>& bytes) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }
  void make_batch(uint32_t blocks_each) {
    tables_.resize(shape_.sequences);
    for (uint32_t s = 0; s < shape_.sequences; ++s) {
      // Neighbouring blocks of a sequence lie apart, as in a cache that has been used for a while.
      for (uint32_t i = 0; i < blocks_each; ++i) {
        tables_[s].push_back(static_cast<BlockId>(i * shape_.sequences + s));
      }
      views_.emplace_back().blocks = tables_[s];
      all_.push_back(s);
    }
    for (uint32_t s = 0; s < shape_.sequences; ++s) {
      BatchSequence sequence;
      sequence.seq = s;
      sequence.first_row = s * shape_.rows;
      sequence.rows = shape_.rows;
      sequences_.push_back(sequence);
      for (uint32_t r = 0; r < shape_.rows; ++r) slots_.push_back(shape_.first_token + r);
    }
    lengths_.assign(shape_.sequences, tokens_);
    in_group_ = {slots_, lengths_, views_};
    batch_.rows = batch_.padded_rows = static_cast<uint32_t>(slots_.size());
    batch_.padded_sequences = shape_.sequences;
    batch_.positions = slots_;
    batch_.sequences = sequences_;
    batch_.groups = {&in_group_, 1};
    const uint64_t row_floats = uint64_t{shape_.heads.query_heads} * shape_.heads.head_dim;
    q_.assign(batch_.rows * row_floats, 0.25f);
    out_.resize(q_.size());
    kv_.assign(uint64_t{batch_.rows} * shape_.heads.kv_heads * shape_.heads.head_dim, 0.01f);
    call_.q = q_.data();
    call_.k = call_.v = kv_.data();
    if (group_.v_inside_k()) call_.v = nullptr;
    call_.out = out_.data();
    call_.padded_rows = batch_.padded_rows;
    call_.padded_sequences = batch_.padded_sequences;
  }

  AttentionKernel& kernel_;
  Case shape_;
  uint32_t tokens_ = 0;
  uint32_t layers_ = 0;
  uint64_t bytes_ = 0;
  void* memory_ = nullptr;
  KvGroup group_;
  std::vector<LayerShape> layer_shapes_;
  ModelShape model_;
  std::vector<KvLayerStorage> planes_;
  KvGroupStorage storage_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<KvTableView> views_;
  std::vector<BatchSequence> sequences_;
  std::vector<uint32_t> slots_, lengths_, all_;
  BatchGroup in_group_;
  BatchView batch_;
  std::vector<float> q_, kv_, out_;
  AttentionCall call_;
  KernelPlanOut planned_;
  std::vector<std::byte> workspace_, plan_;
};

void add_case(AttentionKernel& kernel, const std::string& kind, const Case& shape) {
  const std::string name = kind + "/" + shape.heads.name + "/" +
                           std::string(dtype_name(shape.dtype)) +
                           "/context:" + std::to_string(shape.first_token + shape.rows) +
                           "/sequences:" + std::to_string(shape.sequences) +
                           "/block:" + std::to_string(shape.block_tokens);
  benchmark::RegisterBenchmark(name.c_str(),
                               [&kernel, shape](benchmark::State& state) {
                                 Attention attention(kernel, shape);
                                 const MachineLimits limits = limits_now();
                                 attention.plan();
                                 measure(
                                     state, limits, attention.cost(limits),
                                     [&] { attention.next_layer(); },
                                     [&](Slice slice) { attention.run(slice.index, slice.count); });
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(0.2);
}

// What the kernel's option `products` may be, the types of K and V that go with it, and what limits
// its operations.
struct Products {
  std::string_view flag;
  PluginOption option;
  std::vector<DType> types;
  double MachineLimits::*operation_limit;
};
// Takes the flag out of argv; absent after a message about a bad one.
std::optional<Products> take_products(int& argc, char** argv) {
  const Products known[] = {
      {"--products=f32",
       {"products", 0},
       {DType::bf16, DType::f16, DType::f32, DType::i8, DType::i4},
       &MachineLimits::fma_flops},
      {"--products=bf16", {"products", 1}, {DType::bf16}, &MachineLimits::bf16_flops},
      {"--products=int8", {"products", 2}, {DType::i8, DType::i4}, &MachineLimits::int8_ops}};
  const Products* chosen = known;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (!flag.starts_with("--products=")) continue;
    chosen = std::ranges::find(known, flag, &Products::flag);
    if (chosen == std::end(known)) {
      std::fprintf(stderr, "%s: expected f32, bf16 or int8\n", argv[i]);
      return std::nullopt;
    }
    std::copy(argv + i + 1, argv + argc, argv + i);
    --argc;
    break;
  }
  return *chosen;
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon;
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 1;
  const std::optional<Products> products = take_products(argc, argv);
  if (!products) return 1;
  auto& kernel = bench::kernel<AttentionKernel>("attention_cpu", kAttentionInterface, "cpu",
                                                {&products->option, 1});
  for (const Heads& heads : kHeads) {
    for (DType dtype : products->types) {
      for (uint32_t context : {512u, 2048u, 8192u}) {
        for (uint32_t block_tokens : {16u, context}) {
          add_case(kernel, "decode",
                   {.heads = heads,
                    .dtype = dtype,
                    .block_tokens = block_tokens,
                    .first_token = context - 1,
                    .operation_limit = products->operation_limit});
        }
      }
      for (uint32_t sequences : {8u, 32u}) {
        add_case(kernel, "decode",
                 {.heads = heads,
                  .dtype = dtype,
                  .sequences = sequences,
                  .first_token = 1023,
                  .operation_limit = products->operation_limit});
      }
      for (uint32_t before : {0u, 3584u}) {
        add_case(kernel, before == 0 ? "prompt" : "chunk",
                 {.heads = heads,
                  .dtype = dtype,
                  .first_token = before,
                  .rows = 512,
                  .operation_limit = products->operation_limit});
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
