// A linear kernel under test: weights, activations and results in memory that nobody may leave.
#pragma once

#include <tenon/linear.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/conformance/subject.h"
#include "core/conformance/watch/guarded_memory.h"
#include "core/conformance/watch/run_watch.h"
#include "core/contract/checked_linear.h"

namespace tenon {

// `count` or a few more: whole blocks of a format.
uint32_t whole_blocks_of(std::string_view format, uint32_t count);

// A weight [n_out, k_in] of random numbers, in a format as checkpoints have it.
class TestWeight {
 public:
  // `turned`: the last row is stored first, and rows of plain formats have room after them.
  TestWeight(std::string_view format, uint32_t n_out, uint32_t k_in, uint64_t seed,
             bool turned = false);
  TestWeight(const TestWeight&) = delete;
  TestWeight& operator=(const TestWeight&) = delete;

  WeightView view() const;
  const std::vector<float>& values() const { return values_; }  // what the bytes stand for
  // What is left of them once a kernel that rounds weights has packed them.
  void take_values(std::vector<float> values) { values_ = std::move(values); }
  uint32_t n_out() const { return n_out_; }
  uint32_t k_in() const { return k_in_; }

 private:
  std::vector<std::byte> turn(const std::vector<std::byte>& bytes);

  std::string format_, name_;  // the name is no other weight's
  uint32_t n_out_, k_in_;
  std::vector<float> values_;
  std::optional<GuardedMemory> bytes_;
  TensorView tensor_;
  std::vector<uint32_t> row_order_;
};

struct PackedTestWeight {
  GuardedMemory memory;
  Preparation preparation;
  uint32_t n_out = 0;
};

// How a product is asked for.
struct ProductOrder {
  uint32_t parts = 1;      // of the work
  uint32_t slices = 1;     // of `prepare`
  bool backwards = false;  // the last part first
  Epilogue epilogue = Epilogue::store;
  const PackedTestWeight* second = nullptr;
  std::vector<float> before;  // what y has at first
  std::vector<float> bias;
  std::vector<uint32_t> rows;  // of the prepared ones; empty = all
  // Elements between a row of x, or of y, and the next one.
  uint32_t x_room = 0, y_room = 0;
  std::vector<uint32_t> y_rows;              // where rows go; empty = 0, 1 …
  std::vector<float> row_scale;              // of each row; empty = none
  const PackedTestWeight* beside = nullptr;  // another job of the same call, a plain product
  bool on_threads = false;                   // a part a worker, all at once
};

class LinearBench {
 public:
  static constexpr uint32_t kMostRows = 64;
  static Result<std::unique_ptr<LinearBench>> make(Subject& subject);

  LinearKernel& kernel() { return *kernel_; }
  // From here on; null = not.
  void watch_runs(RunWatch* watch) { watch_ = watch; }
  // Formats that it takes, of those that these cases know. `k_in` of each is a multiple of its
  // block.
  std::vector<std::string> formats();
  Result<PackedTestWeight> pack(const TestWeight& weight, uint32_t slices = 1);
  // The same; where the kernel rounds weights, `weight` has the values of its packed rows then.
  Result<PackedTestWeight> pack_for_product(TestWeight& weight);
  // The largest relative error of packed weights, as the kernel states it by its extension
  // "weight_rounding/1", a `const float`; 0 where it states none.
  double weight_rounding() const { return weight_rounding_; }
  // y [rows, n_out] of x [rows, k_in], in the job's order, followed by `beside`. Errors: the
  // kernel's, and internal if it wrote outside the memory that it was given.
  Result<std::vector<float>> multiply(const PackedTestWeight& weight, const std::vector<float>& x,
                                      uint32_t rows, const ProductOrder& order = {});
  // Rows of a weight, with so many elements between one and the next.
  Result<std::vector<float>> gather(const PackedTestWeight& weight,
                                    const std::vector<uint32_t>& rows, uint32_t room = 0);

 private:
  Status run_parts(std::span<const LinearJob> jobs, const ProductOrder& order);
  Status run_on_threads(std::span<const LinearJob> jobs);

  PluginInstance<LinearKernel> plugin_;
  std::unique_ptr<CheckedLinear> kernel_;
  double weight_rounding_ = 0;
  RunWatch* watch_ = nullptr;
};

std::vector<float> random_activations(uint64_t seed, size_t count);
// In double precision.
std::vector<double> plain_product(const TestWeight& weight, const std::vector<float>& x,
                                  uint32_t rows);
// What a product's size is where its terms do not cancel each other: of few elements that is luck.
double usual_size(const TestWeight& weight, const std::vector<float>& x, uint32_t rows);
// Of the size of what is wanted, or of `least_size`.
double relative_error(const std::vector<float>& found, const std::vector<double>& wanted,
                      double least_size = 0);

}  // namespace tenon
