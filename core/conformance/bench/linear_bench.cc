#include "core/conformance/bench/linear_bench.h"

#include <tenon/formats/block_scales.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/half.h"
#include "core/conformance/worlds/slices.h"
#include "core/model/formats/quant_format.h"

namespace tenon {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr std::string_view kFormats[] = {
    "f32",
    "f16",
    "bf16",
#define TENON_FORMAT(name, ...) #name,
#include <tenon/formats/weight_formats.def>
};

Status wrote_beside(const char* call) {
  return internal(std::string(call) + " wrote beside the memory that it was given");
}

// Blocks of a format that this program does not write. These bytes are f16 scales from 2^-7 to 2^-3
// wherever a format has them, and codes of which every other bit is random. Other scales are 2^-5.
void fill_blocks(const QuantFormat& blocks, uint64_t seed, std::span<std::byte> bytes) {
  const std::vector<float> noise = random_activations(seed, bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto low = static_cast<uint32_t>(std::fabs(noise[i]) * 4096.0f) & 15;
    bytes[i] = static_cast<std::byte>(0x20 | low);
  }
  const BlockScales& place = block_scales_of(blocks.name);
  for (size_t at = place.at; at < bytes.size(); at += blocks.bytes) {
    constexpr float kScale = 0x1p-5f;
    if (place.scale == BlockScale::f32) std::memcpy(&bytes[at], &kScale, sizeof(kScale));
    if (place.scale == BlockScale::power) bytes[at] = std::byte{127 - 5};
  }
}

// Rows of `width` elements with `room` more after each, NaN.
std::vector<float> with_room(const std::vector<float>& values, uint32_t width, uint32_t room) {
  if (room == 0) return values;
  std::vector<float> spread;
  for (size_t i = 0; i < values.size(); i += width) {
    const auto row = values.begin() + static_cast<ptrdiff_t>(i);
    spread.insert(spread.end(), row, row + width);
    spread.insert(spread.end(), room, NAN);
  }
  return spread;
}

// Where a call writes rows: with room between them, and in any order.
class TestResult {
 public:
  // `before`: what the rows have at first, in the order of the job; empty = NaN.
  TestResult(uint32_t width, uint32_t room, uint32_t rows, std::vector<uint32_t> places,
             const std::vector<float>& before)
      : width_(width), stride_(width + room), places_(std::move(places)) {
    if (places_.empty()) {
      places_.resize(rows);
      std::iota(places_.begin(), places_.end(), 0u);
    }
    const uint32_t last = rows == 0 ? 0 : *std::max_element(places_.begin(), places_.end()) + 1;
    std::vector<float> all(size_t{last} * stride_, NAN);
    for (size_t row = 0; !before.empty() && row < rows; ++row) {
      std::copy_n(&before[row * width], width, &all[size_t{places_[row]} * stride_]);
    }
    // The room after the last row is nobody's.
    if (!all.empty()) all.resize(all.size() - room);
    memory_.emplace(GuardedMemory::copy_of(std::span<const float>(all)));
    was_ = std::move(all);
  }

  float* begin() const { return memory_->as<float>(); }
  void receive(LinearJob& job) const {
    job.y = begin();
    job.y_stride = stride_;
    job.y_rows = in_order() ? std::span<const uint32_t>() : places_;
  }
  // Whether all that lies between the rows is as it was.
  bool intact() const {
    if (!memory_->intact()) return false;
    std::vector<bool> written(was_.size());
    for (const uint32_t place : places_) {
      std::fill_n(written.begin() + static_cast<ptrdiff_t>(size_t{place} * stride_), width_, true);
    }
    for (size_t i = 0; i < was_.size(); ++i) {
      if (!written[i] && std::memcmp(&was_[i], begin() + i, sizeof(float)) != 0) return false;
    }
    return true;
  }
  // The rows, in the order of the job.
  std::vector<float> values() const {
    std::vector<float> all;
    for (const uint32_t place : places_) {
      const float* row = begin() + size_t{place} * stride_;
      all.insert(all.end(), row, row + width_);
    }
    return all;
  }

 private:
  bool in_order() const {
    for (uint32_t i = 0; i < places_.size(); ++i) {
      if (places_[i] != i) return false;
    }
    return true;
  }

  uint32_t width_, stride_;
  std::vector<uint32_t> places_;
  std::vector<float> was_;
  std::optional<GuardedMemory> memory_;
};

}  // namespace

uint32_t whole_blocks_of(std::string_view format, uint32_t count) {
  const QuantFormat* blocks = find_quant_format(format);
  const uint32_t each = blocks == nullptr ? 1 : blocks->elements;
  return (count + each - 1) / each * each;
}

TestWeight::TestWeight(std::string_view format, uint32_t n_out, uint32_t k_in, uint64_t seed,
                       bool turned)
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
        fill_blocks(*blocks, seed + n, {row, row_bytes});
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
  if (turned) bytes = turn(bytes);
  bytes_.emplace(GuardedMemory::copy_of(std::span<const std::byte>(bytes)));
  tensor_.data = bytes_->get();
}

std::vector<std::byte> TestWeight::turn(const std::vector<std::byte>& bytes) {
  constexpr uint64_t kRoom = 3;  // elements
  const uint64_t row_bytes = bytes.size() / n_out_;
  const uint64_t room_bytes = tensor_.dtype == DType::u8 ? 0 : kRoom * row_bytes / k_in_;
  if (room_bytes > 0) tensor_.stride[0] += kRoom;
  std::vector<std::byte> turned(n_out_ * (row_bytes + room_bytes), std::byte{0xff});
  for (uint32_t n = 0; n < n_out_; ++n) {
    row_order_.push_back(n_out_ - 1 - n);
    std::memcpy(&turned[row_order_.back() * (row_bytes + room_bytes)], &bytes[n * row_bytes],
                row_bytes);
  }
  return turned;
}

WeightView TestWeight::view() const {
  return {.format = format_,
          .name = name_,
          .n_out = n_out_,
          .k_in = k_in_,
          .parts = {&tensor_, 1},
          .row_order = row_order_};
}

Result<std::unique_ptr<LinearBench>> LinearBench::make(Subject& subject) {
  auto made = std::make_unique<LinearBench>();
  TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<LinearKernel>());
  made->kernel_ = std::make_unique<CheckedLinear>(*made->plugin_, subject.name(), subject.checks());
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
  const std::vector<float> spread = with_room(x, k_in, order.x_room);
  const GuardedMemory activations = GuardedMemory::copy_of(std::span<const float>(spread));
  const uint64_t prepared_bytes = kernel_->prepared_bytes(weight.preparation, rows);
  const GuardedMemory prepared(prepared_bytes);
  for (uint32_t i = 0; prepared_bytes > 0 && i < order.slices; ++i) {
    PrepareCall call;
    call.preparation = weight.preparation;
    call.packed = weight.memory.get();
    call.x = activations.get();
    call.x_stride = k_in + order.x_room;
    call.rows = rows;
    call.prepared = prepared.get();
    TENON_RETURN_IF_ERROR(kernel_->prepare(call, {i, order.slices}));
  }
  const auto job_rows = static_cast<uint32_t>(order.rows.empty() ? rows : order.rows.size());
  TestResult result(weight.n_out, order.y_room, job_rows, order.y_rows, order.before);
  const GuardedMemory bias = GuardedMemory::copy_of(std::span<const float>(order.bias));
  const GuardedMemory scale = GuardedMemory::copy_of(std::span<const float>(order.row_scale));
  LinearJob job;
  job.packed = weight.memory.get();
  if (order.second != nullptr) job.packed_second = order.second->memory.get();
  job.n_out = weight.n_out;
  job.k_in = k_in;
  job.prepared = prepared_bytes > 0 ? prepared.get() : activations.get();
  job.x_stride = k_in + order.x_room;
  job.x_rows = rows;
  job.rows = order.rows;
  result.receive(job);
  if (!order.bias.empty()) job.bias = bias.as<float>();
  if (!order.row_scale.empty()) job.row_scale = scale.as<float>();
  job.epilogue = order.epilogue;
  std::vector<LinearJob> jobs = {job};
  std::optional<TestResult> beside;
  if (order.beside != nullptr) {
    beside.emplace(order.beside->n_out, 0, job_rows, std::vector<uint32_t>(), std::vector<float>());
    LinearJob& other = jobs.emplace_back(job);
    other.packed = order.beside->memory.get();
    other.n_out = order.beside->n_out;
    other.bias = other.row_scale = nullptr;
    other.epilogue = Epilogue::store;
    beside->receive(other);
  }
  if (watch_ != nullptr) watch_->begin();
  TENON_RETURN_IF_ERROR(order.on_threads ? run_on_threads(jobs) : run_parts(jobs, order));
  if (watch_ != nullptr) watch_->end();
  if (!prepared.intact()) return wrote_beside("prepare");
  if (!activations.intact() || !result.intact() || (beside && !beside->intact())) {
    return wrote_beside("run");
  }
  std::vector<float> y = result.values();
  if (beside) {
    const std::vector<float> more = beside->values();
    y.insert(y.end(), more.begin(), more.end());
  }
  return y;
}

Status LinearBench::run_parts(std::span<const LinearJob> jobs, const ProductOrder& order) {
  for (uint32_t i = 0; i < order.parts; ++i) {
    const uint32_t part = order.backwards ? order.parts - 1 - i : i;
    TENON_RETURN_IF_ERROR(
        kernel_->run(jobs, {part, part + 1, order.parts, part % kWorkers}, nullptr));
  }
  return {};
}

Status LinearBench::run_on_threads(std::span<const LinearJob> jobs) {
  return run_at_once(kWorkers, [&](uint32_t worker) {
    return kernel_->run(jobs, {worker, worker + 1, kWorkers, worker}, nullptr);
  });
}

Result<std::vector<float>> LinearBench::gather(const PackedTestWeight& weight,
                                               const std::vector<uint32_t>& rows, uint32_t room) {
  const uint32_t k_in = weight.preparation.k_in;
  const auto count = static_cast<uint32_t>(rows.size());
  TestResult result(k_in, room, count, {}, {});
  GatherCall call;
  call.packed = weight.memory.get();
  call.n_out = weight.n_out;
  call.k_in = k_in;
  call.rows = rows;
  call.out = result.begin();
  call.out_stride = k_in + room;
  for (uint32_t i = 0; i < 3; ++i) TENON_RETURN_IF_ERROR(kernel_->gather(call, {i, 3}));
  if (!result.intact()) return wrote_beside("gather");
  return result.values();
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

double usual_size(const TestWeight& weight, const std::vector<float>& x, uint32_t rows) {
  double sum = 0;
  for (uint32_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < weight.values().size(); ++i) {
      const double term =
          double{weight.values()[i]} * x[size_t{r} * weight.k_in() + i % weight.k_in()];
      sum += term * term;
    }
  }
  return std::sqrt(sum);
}

double relative_error(const std::vector<float>& found, const std::vector<double>& wanted,
                      double least_size) {
  double error = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    error += (found[i] - wanted[i]) * (found[i] - wanted[i]);
    size += wanted[i] * wanted[i];
  }
  return std::sqrt(error) / std::max(std::sqrt(size), least_size);
}

}  // namespace tenon
