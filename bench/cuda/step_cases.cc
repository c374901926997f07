#include "bench/cuda/step_cases.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/exec/cuda/step/attention_plan.h"

namespace tenon::cuda::bench {
namespace {

constexpr int kGroup = 128;
constexpr uint32_t kBlockTokens = 16;

int up_to(int count, int multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
uint64_t product(uint64_t a, int b) {
  return a * static_cast<uint64_t>(b);
}
// Of a row that has q, K and V side by side.
int qkv_width(const DecoderShape& m) {
  return (m.heads + 2 * m.kv_heads) * m.head_dim;
}

// As the executor does.
bool gates_at_once(const Workload& w) {
  return w.weight_bits != 16 && is_few_quant(w.rows, 2 * w.model.mlp) &&
         w.tiles == ProductTiles::by_shape;
}

// A product of `rows` with W [n, k]; `gated`: W is a gate and an up.
class Product {
 public:
  Product(uint32_t rows, int n, int k, bool add, int bits, bool floats = false, bool gated = false)
      : bits_(bits) {
    call_.rows = rows;
    call_.n_out = n;
    call_.k_in = k;
    call_.x_stride = up_to(k, 8);
    call_.w_stride = bits == 16 ? up_to(k, 32) : static_cast<int>(quant_stride(k, bits));
    call_.y_stride = n;
    call_.add = add;
    call_.factor = 1.0f;
    if (bits == 16) return;
    quant_.quant.groups = (k + kGroup - 1) / kGroup;
    quant_.quant.group = kGroup;
    quant_.quant.bits = bits;
    quant_.quant.rows = n;
    quant_.quant.floats = floats;
    gated_ = gated;
  }
  Cost cost() const {
    if (bits_ == 16) return multiply_cost(Input::bf16, call_);
    QuantCall call = quant_;
    call.call = call_;
    static constexpr uint8_t kSome = 8;
    call.quant.zeros = bits_ == 4 ? &kSome : nullptr;
    static uint8_t some = 0;
    if (gated_) call.gated = gated_output(&some);
    return multiply_quant_cost(call);
  }
  KernelCase::Launch prepare(CaseArrays& arrays) const {
    if (bits_ != 16) return prepare_quant(arrays, with_rows(arrays));
    return prepare_bf16(arrays, [](void* stream, const MultiplyCall& call) {
      return launch_multiply(stream, Input::bf16, call);
    });
  }
  bool is_bf16() const { return bits_ == 16; }
  void choose(ProductTiles tiles) { call_.tiles = tiles; }
  KernelCase::Launch prepare_bf16(CaseArrays& arrays, const KernelCase::Multiply& multiply) const {
    MultiplyCall call = with_rows(arrays);
    const uint64_t count = product(static_cast<uint64_t>(call.n_out), call.w_stride);
    const auto weights = arrays.cold(count * 2, [&] { return arrays.bfloats(count); });
    return [=, next = size_t{0}](void* stream) mutable {
      call.w = weights[next++ % weights.size()];
      return multiply(stream, call);
    };
  }

 private:
  GatedOutput gated_output(void* out) const { return {out, call_.n_out / 2, ActivationKind::silu}; }
  MultiplyCall with_rows(CaseArrays& arrays) const {
    MultiplyCall call = call_;
    const uint64_t elements = product(call.rows, call.n_out);
    call.x = arrays.bfloats(product(call.rows, call.x_stride));
    call.y = call.add ? arrays.floats(elements) : arrays.room<float>(elements);
    return call;
  }
  KernelCase::Launch prepare_quant(CaseArrays& arrays, const MultiplyCall& call) const {
    const auto n = static_cast<uint64_t>(call.n_out);
    GatedOutput gated = {};
    if (gated_) gated = gated_output(arrays.room<uint16_t>(product(call.rows, call.n_out) / 2));
    const auto all = arrays.cold(product(n, call.w_stride), [&] {
      QuantCall one = quant_;
      one.call = call;
      one.gated = gated;
      one.call.w = arrays.bytes(product(n, call.w_stride), 256);
      const uint64_t scales = product(n, one.quant.groups);
      one.quant.scales = one.quant.floats ? static_cast<const void*>(arrays.floats(scales))
                                          : arrays.half_scales(scales);
      one.quant.zeros = bits_ == 4 ? arrays.bytes(product(n, one.quant.groups), 16) : nullptr;
      return one;
    });
    return [=, next = size_t{0}](void* stream) mutable {
      return launch_multiply_quant(stream, all[next++ % all.size()]);
    };
  }

  MultiplyCall call_ = {};
  QuantCall quant_ = {};
  int bits_;
  bool gated_ = false;
};

// Attention of the last rows of each sequence in bf16.
class Attention {
 public:
  explicit Attention(const Workload& w)
      : rows_(w.rows), entries_(w.sequences, w.entries), tables_(w.sequences) {
    const uint32_t each = w.rows / w.sequences;
    for (std::vector<BlockId>& table : tables_) {
      for (uint32_t slot = w.entries - each; slot < w.entries; ++slot) slots_.push_back(slot);
      for (uint32_t i = 0; i <= (w.entries - 1) / kBlockTokens; ++i) {
        table.push_back(static_cast<BlockId>(blocks_++));
      }
    }
    const DecoderShape& m = w.model;
    shape_.cache = {CacheType::bf16, m.kv_heads, m.head_dim, static_cast<int>(kBlockTokens)};
    shape_.q_stride = qkv_width(m);
    shape_.v_dim = shape_.out_head_stride = m.head_dim;
    shape_.out_type = Input::bf16;
    shape_.out_stride = m.heads * m.head_dim;
    shape_.heads = m.heads;
    shape_.scale = 0.1f;
    planned().describe(shape_);
  }
  Cost cost() const {
    const SequenceRows sequence = {entries_[0], rows_each()};
    const std::vector<SequenceRows> all(entries_.size(), sequence);
    return attention_cost(shape_, all, false).all();
  }
  KernelCase::Launch prepare(CaseArrays& arrays) const {
    const AttentionPlanArrays plan = planned();
    const uint64_t width = product(rows_, shape_.out_stride);
    AttentionArrays a = {};
    a.q = arrays.floats(product(rows_, shape_.q_stride));
    a.sequences = arrays.upload(plan.sequences);
    a.tiles = arrays.upload(plan.tiles);
    a.slots = arrays.upload(plan.slots);
    a.row_sequence = arrays.upload(plan.row_sequence);
    a.tables = arrays.upload(plan.tables);
    a.first_ranges = arrays.upload(plan.first_ranges);
    if (plan.ranges > 0) {
      a.split_rows = arrays.upload(plan.split_rows);
      a.partial = arrays.room<float>(product(plan.ranges, shape_.out_stride));
      a.sums = arrays.room<float>(2 * product(plan.ranges, shape_.heads));
    }
    a.out = arrays.room<uint16_t>(width);
    const uint64_t plane = product(product(uint64_t{blocks_} * kBlockTokens, shape_.cache.kv_heads),
                                   shape_.cache.head_dim);
    const auto planes = arrays.cold(plane * 4, [&] {
      return std::pair<const void*, const void*>(arrays.bfloats(plane), arrays.bfloats(plane));
    });
    return [=, shape = shape_, next = size_t{0}](void* stream) mutable {
      std::tie(a.k, a.v) = planes[next++ % planes.size()];
      return launch_attention(stream, a, shape);
    };
  }

 private:
  AttentionPlanArrays planned() const {
    std::vector<KvTableView> views(tables_.size());
    std::vector<BatchSequence> sequences(tables_.size());
    for (size_t i = 0; i < tables_.size(); ++i) {
      views[i].blocks = tables_[i];
      sequences[i].first_row = static_cast<uint32_t>(i) * rows_each();
      sequences[i].rows = rows_each();
    }
    const BatchGroup group{slots_, entries_, views};
    BatchView batch;
    batch.rows = rows_;
    batch.sequences = sequences;
    batch.groups = {&group, 1};
    KvGroup kv;
    kv.kv_heads = static_cast<uint32_t>(shape_.cache.kv_heads);
    kv.k_dim = kv.v_dim = static_cast<uint32_t>(shape_.cache.head_dim);
    return plan_attention(batch, 0, kv, kBlockTokens, static_cast<uint32_t>(shape_.heads));
  }

  uint32_t rows_each() const { return rows_ / static_cast<uint32_t>(tables_.size()); }

  uint32_t rows_;
  uint32_t blocks_ = 0;            // of all sequences
  std::vector<uint32_t> entries_;  // of each
  std::vector<uint32_t> slots_;
  std::vector<std::vector<BlockId>> tables_;
  AttentionShape shape_ = {};
};

// The cases of one workload, in the making.
class Cases {
 public:
  explicit Cases(const Workload& workload) : w_(workload), m_(workload.model) {}

  std::vector<KernelCase> all() {
    const auto layers = static_cast<uint32_t>(m_.layers);
    const int q = m_.heads * m_.head_dim;
    embed();
    norm("norm", w_.rows, 2 * layers);
    multiply("product.qkv", layers,
             {w_.rows, qkv_width(m_), m_.hidden, false, w_.weight_bits, w_.floats});
    place_heads();
    attention();
    multiply("product.output", layers, {w_.rows, m_.hidden, q, true, w_.weight_bits, w_.floats});
    multiply("product.gate_up", layers,
             {w_.rows, 2 * m_.mlp, m_.hidden, false, w_.weight_bits, w_.floats, gates_at_once(w_)});
    if (!gates_at_once(w_)) gate();
    multiply("product.down", layers, {w_.rows, m_.hidden, m_.mlp, true, w_.weight_bits, w_.floats});
    take_rows();
    norm("norm.last", w_.sequences, 1);
    multiply("product.head", 1, {w_.sequences, m_.vocabulary, m_.hidden, false, 16});
    return std::move(cases_);
  }

 private:
  void embed() {
    EmbedCall call = {};
    call.weights = Input::bf16;
    call.rows = w_.rows;
    call.width = m_.hidden;
    call.stride = m_.hidden;
    call.scale = 1.0f;
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < w_.rows; ++i) tokens.push_back(static_cast<int32_t>(i));
    const uint64_t table = product(static_cast<uint64_t>(m_.vocabulary), m_.hidden);
    add("embed", 1, embed_cost(call, w_.rows), [=](CaseArrays& arrays) {
      EmbedCall own = call;
      own.tokens = arrays.upload(tokens);
      own.table = arrays.bfloats(table);
      own.hidden = arrays.floats(product(own.rows, own.width));
      return [=](void* stream) { return launch_embed(stream, own); };
    });
  }
  void norm(const char* name, uint32_t rows, uint32_t calls) {
    NormShape shape;
    shape.rows = rows;
    shape.width = shape.out_stride = m_.hidden;
    shape.eps = 1e-5f;
    add(name, calls, norm_cost(Input::bf16, shape, true, false), [=](CaseArrays& arrays) {
      const uint64_t count = product(shape.rows, shape.width);
      const float* x = arrays.floats(count);
      const float* weight = arrays.floats(static_cast<uint64_t>(shape.width));
      void* out = arrays.room<uint16_t>(count);
      return [=](void* stream) {
        return launch_norm(stream, x, weight, nullptr, out, Input::bf16, shape);
      };
    });
  }
  void multiply(const char* name, uint32_t calls, Product product) {
    product.choose(w_.tiles);
    add(name, calls, product.cost(),
        [product](CaseArrays& arrays) { return product.prepare(arrays); });
    if (!product.is_bf16()) return;
    cases_.back().prepare_for = [product](CaseArrays& arrays,
                                          const KernelCase::Multiply& multiply) {
      return product.prepare_bf16(arrays, multiply);
    };
  }
  void place_heads() {
    static float some = 0.0f;  // for the formula
    HeadsCall call = {};
    call.q = &some;
    call.k = call.v = call.angles = &some;
    call.cache = {CacheType::bf16, m_.kv_heads, m_.head_dim, static_cast<int>(kBlockTokens)};
    call.rows = w_.rows;
    call.q_stride = call.kv_stride = qkv_width(m_);
    call.q_heads = m_.heads;
    call.q_dim = m_.head_dim;
    call.half = m_.head_dim / 2;
    std::vector<uint32_t> blocks, offsets;
    for (uint32_t i = 0; i < w_.rows; ++i) {
      blocks.push_back(i / kBlockTokens);
      offsets.push_back(i % kBlockTokens);
    }
    add("heads", layers(), place_heads_cost(call), [=](CaseArrays& arrays) {
      HeadsCall own = call;
      const CacheShape& cache = own.cache;
      own.q = arrays.floats(product(own.rows, own.q_stride));
      own.k = own.q + own.q_heads * own.q_dim;
      own.v = own.k + cache.kv_heads * cache.head_dim;
      own.angles = arrays.floats(product(2 * uint64_t{own.rows}, own.half));
      own.blocks = arrays.upload(blocks);
      own.offsets = arrays.upload(offsets);
      const uint64_t token = product(static_cast<uint64_t>(cache.kv_heads), cache.head_dim);
      const uint64_t plane = (blocks.back() + 1) * kBlockTokens * token;
      own.k_cache = arrays.room<uint16_t>(plane);
      own.v_cache = arrays.room<uint16_t>(plane);
      return [=](void* stream) { return launch_place_heads(stream, own); };
    });
  }
  void attention() {
    const Attention attention(w_);
    add("attention", layers(), attention.cost(),
        [attention](CaseArrays& arrays) { return attention.prepare(arrays); });
  }
  void gate() {
    add("gate", layers(), gate_cost(Input::bf16, w_.rows, m_.mlp, true),
        [rows = w_.rows, width = m_.mlp](CaseArrays& arrays) {
          const uint64_t count = product(rows, width);
          const float* both = arrays.floats(2 * count);
          void* out = arrays.room<uint16_t>(count);
          return [=](void* stream) {
            return launch_gate(stream, both, both + width, out, Input::bf16, rows, width, 2 * width,
                               width, ActivationKind::silu);
          };
        });
  }
  void take_rows() {
    std::vector<uint32_t> last;  // of each sequence
    for (uint32_t i = 1; i <= w_.sequences; ++i) last.push_back(w_.rows / w_.sequences * i - 1);
    add("take_rows", 1, take_rows_cost(Input::f32, w_.sequences, m_.hidden, true),
        [=, rows = w_.rows, width = m_.hidden](CaseArrays& arrays) {
          const auto count = static_cast<uint32_t>(last.size());
          const float* from = arrays.floats(product(rows, width));
          const uint32_t* which = arrays.upload(last);
          float* to = arrays.room<float>(product(count, width));
          return [=](void* stream) {
            return launch_take_rows(stream, from, which, to, Input::f32, count, width, width);
          };
        });
  }
  uint32_t layers() const { return static_cast<uint32_t>(m_.layers); }
  void add(const char* name, uint32_t calls, const Cost& cost,
           std::function<KernelCase::Launch(CaseArrays&)> prepare) {
    cases_.push_back({name, calls, cost, std::move(prepare), {}});
  }

  Workload w_;
  DecoderShape m_;
  std::vector<KernelCase> cases_;
};

}  // namespace

std::vector<KernelCase> step_cases(const Workload& workload) {
  return Cases(workload).all();
}

std::vector<size_t> step_order(const Workload& workload, const std::vector<KernelCase>& cases) {
  std::vector<size_t> order;
  const auto add = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      if (name == "gate" && gates_at_once(workload)) continue;
      const auto found = std::find_if(cases.begin(), cases.end(),
                                      [&](const KernelCase& one) { return one.name == name; });
      order.push_back(static_cast<size_t>(found - cases.begin()));
    }
  };
  add({"embed"});
  for (int layer = 0; layer < workload.model.layers; ++layer) {
    add({"norm", "product.qkv", "heads", "attention", "product.output", "norm", "product.gate_up",
         "gate", "product.down"});
  }
  add({"take_rows", "norm.last", "product.head"});
  return order;
}

}  // namespace tenon::cuda::bench
