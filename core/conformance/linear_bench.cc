#include "core/conformance/linear_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/half.h"
#include "core/model/quant_format.h"

namespace tenon {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr std::string_view kFormats[] = {"f32",  "f16",  "bf16",   "q8_0",   "q4_0", "q6_k",
                                         "q4_k", "q2_k", "iq4_xs", "iq2_xs", "iq1_m"};

Status wrote_beside(const char* call) {
  return internal(std::string(call) + " wrote beside the memory that it was given");
}

// Blocks of a format that this program does not write. These bytes are f16 scales from 2^-7 to 2^-3
// wherever a format has them, and codes of which every other bit is random.
void fill_blocks(uint64_t seed, std::span<std::byte> bytes) {
  const std::vector<float> noise = random_activations(seed, bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto low = static_cast<uint32_t>(std::fabs(noise[i]) * 4096.0f) & 15;
    bytes[i] = static_cast<std::byte>(0x20 | low);
  }
}

}  // namespace

uint32_t whole_blocks_of(std::string_view format, uint32_t count) {
  const QuantFormat* blocks = find_quant_format(format);
  const uint32_t each = blocks == nullptr ? 1 : blocks->elements;
  return (count + each - 1) / each * each;
}

TestWeight::TestWeight(std::string_view format, uint32_t n_out, uint32_t k_in, uint64_t seed)
    : format_(format),
      n_out_(n_out),
      k_in_(k_in),
      values_(random_activations(seed, size_t{n_out} * k_in)) {
  static uint64_t made = 0;
  name_ = "w" + std::to_string(++made);
  std::vector<std::byte> bytes;
  tensor_.rank = 2;
  tensor_.shape[0] = n_out;
  tensor_.shape[1] = tensor_.stride[0] = k_in;
  if (const QuantFormat* blocks = find_quant_format(format); blocks != nullptr) {
    const uint64_t row_bytes = blocks->row_bytes(k_in);
    bytes.resize(n_out * row_bytes);
    for (uint32_t n = 0; n < n_out; ++n) {
      std::byte* row = bytes.data() + n * row_bytes;
      if (blocks->quantize == nullptr) {
        fill_blocks(seed + n, {row, row_bytes});
      } else {
        quantize_row(*blocks, &values_[size_t{n} * k_in], k_in, row);
      }
      dequantize_row(*blocks, row, k_in, &values_[size_t{n} * k_in]);
    }
    tensor_.dtype = DType::u8;
    tensor_.shape[1] = tensor_.stride[0] = row_bytes;
  } else {
    tensor_.dtype = format == "f32" ? DType::f32 : format == "f16" ? DType::f16 : DType::bf16;
    const size_t size = format == "f32" ? 4 : 2;
    bytes.resize(values_.size() * size);
    for (size_t i = 0; i < values_.size(); ++i) {
      uint16_t half = 0;
      if (format == "f16") values_[i] = float_from_f16(half = f16_from_float(values_[i]));
      if (format == "bf16") values_[i] = float_from_bf16(half = bf16_from_float(values_[i]));
      std::memcpy(&bytes[i * size], size == 4 ? static_cast<const void*>(&values_[i]) : &half,
                  size);
    }
  }
  bytes_.emplace(GuardedMemory::copy_of(std::span<const std::byte>(bytes)));
  tensor_.data = bytes_->get();
}

WeightView TestWeight::view() const {
  return {.format = format_, .name = name_, .n_out = n_out_, .k_in = k_in_, .parts = {&tensor_, 1}};
}

Result<std::unique_ptr<LinearBench>> LinearBench::make(Subject& subject) {
  auto made = std::make_unique<LinearBench>();
  TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<LinearKernel>());
  made->kernel_ = std::make_unique<CheckedLinear>(*made->plugin_, subject.name());
  TENON_RETURN_IF_ERROR(
      made->kernel_->bind({kMostRows, kWorkers, DType::f32, DType::f32, Space()}));
  const auto* rounding = made->plugin_.extension<float>("weight_rounding/1");
  if (rounding != nullptr) made->weight_rounding_ = std::clamp(*rounding, 0.0f, 1.0f);
  return made;
}

std::vector<std::string> LinearBench::formats() {
  std::vector<std::string> taken;
  for (const std::string_view format : kFormats) {
    const TestWeight weight(format, 64, whole_blocks_of(format, 64), 1);
    if (kernel_->accepts(weight.view()).ok()) taken.emplace_back(format);
  }
  return taken;
}

Result<PackedTestWeight> LinearBench::pack(const TestWeight& weight, uint32_t slices) {
  const WeightView view = weight.view();
  TENON_RETURN_IF_ERROR(kernel_->accepts(view));
  PackedTestWeight packed{GuardedMemory(kernel_->packed_bytes(view)), kernel_->preparation(view),
                          weight.n_out()};
  for (uint32_t i = slices; i-- > 0;) {
    TENON_RETURN_IF_ERROR(kernel_->pack(view, packed.memory.get(), {i, slices}));
  }
  if (!packed.memory.intact()) return wrote_beside("pack");
  return packed;
}

Result<PackedTestWeight> LinearBench::pack_for_product(TestWeight& weight) {
  TENON_ASSIGN_OR_RETURN(PackedTestWeight packed, pack(weight));
  if (weight_rounding_ == 0) return packed;
  std::vector<uint32_t> rows(weight.n_out());
  std::iota(rows.begin(), rows.end(), 0);
  TENON_ASSIGN_OR_RETURN(std::vector<float> values, gather(packed, rows));
  weight.take_values(std::move(values));
  return packed;
}

Result<std::vector<float>> LinearBench::multiply(const PackedTestWeight& weight,
                                                 const std::vector<float>& x, uint32_t rows,
                                                 const ProductOrder& order) {
  const uint32_t k_in = weight.preparation.k_in;
  const GuardedMemory activations = GuardedMemory::copy_of(std::span<const float>(x));
  const uint64_t prepared_bytes = kernel_->prepared_bytes(weight.preparation, rows);
  const GuardedMemory prepared(prepared_bytes);
  for (uint32_t i = 0; prepared_bytes > 0 && i < order.slices; ++i) {
    PrepareCall call;
    call.preparation = weight.preparation;
    call.packed = weight.memory.get();
    call.x = activations.get();
    call.x_stride = k_in;
    call.rows = rows;
    call.prepared = prepared.get();
    TENON_RETURN_IF_ERROR(kernel_->prepare(call, {i, order.slices}));
  }
  const auto y_rows = static_cast<uint32_t>(order.rows.empty() ? rows : order.rows.size());
  std::vector<float> y(size_t{y_rows} * weight.n_out, NAN);
  if (!order.before.empty()) y = order.before;
  const GuardedMemory result = GuardedMemory::copy_of(std::span<const float>(y));
  const GuardedMemory bias = GuardedMemory::copy_of(std::span<const float>(order.bias));
  LinearJob job;
  job.packed = weight.memory.get();
  if (order.second != nullptr) job.packed_second = order.second->memory.get();
  job.n_out = weight.n_out;
  job.k_in = k_in;
  job.prepared = prepared_bytes > 0 ? prepared.get() : activations.get();
  job.x_stride = k_in;
  job.x_rows = rows;
  job.rows = order.rows;
  job.y = result.get();
  job.y_stride = weight.n_out;
  if (!order.bias.empty()) job.bias = bias.as<float>();
  job.epilogue = order.epilogue;
  for (uint32_t i = 0; i < order.parts; ++i) {
    const uint32_t part = order.backwards ? order.parts - 1 - i : i;
    TENON_RETURN_IF_ERROR(
        kernel_->run({&job, 1}, {part, part + 1, order.parts, part % kWorkers}, nullptr));
  }
  if (!prepared.intact()) return wrote_beside("prepare");
  if (!result.intact() || !activations.intact()) return wrote_beside("run");
  y.assign(result.as<float>(), result.as<float>() + y.size());
  return y;
}

Result<std::vector<float>> LinearBench::gather(const PackedTestWeight& weight,
                                               const std::vector<uint32_t>& rows) {
  const uint32_t k_in = weight.preparation.k_in;
  std::vector<float> out(rows.size() * k_in, NAN);
  const GuardedMemory memory(out.size() * sizeof(float));
  GatherCall call;
  call.packed = weight.memory.get();
  call.n_out = weight.n_out;
  call.k_in = k_in;
  call.rows = rows;
  call.out = memory.get();
  call.out_stride = k_in;
  for (uint32_t i = 0; i < 3; ++i) TENON_RETURN_IF_ERROR(kernel_->gather(call, {i, 3}));
  if (!memory.intact()) return wrote_beside("gather");
  out.assign(memory.as<float>(), memory.as<float>() + out.size());
  return out;
}

std::vector<float> random_activations(uint64_t seed, size_t count) {
  CaseRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.value();
  return values;
}

std::vector<double> plain_product(const TestWeight& weight, const std::vector<float>& x,
                                  uint32_t rows) {
  std::vector<double> y(size_t{rows} * weight.n_out());
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t n = 0; n < weight.n_out(); ++n) {
      double sum = 0;
      for (uint32_t k = 0; k < weight.k_in(); ++k) {
        sum += double{weight.values()[size_t{n} * weight.k_in() + k]} *
               x[size_t{r} * weight.k_in() + k];
      }
      y[size_t{r} * weight.n_out() + n] = sum;
    }
  }
  return y;
}

double relative_error(const std::vector<float>& found, const std::vector<double>& wanted) {
  double error = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    error += (found[i] - wanted[i]) * (found[i] - wanted[i]);
    size += wanted[i] * wanted[i];
  }
  return std::sqrt(error / size);
}

}  // namespace tenon
