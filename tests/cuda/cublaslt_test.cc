// Products by cuBLASLt, over its double: how the executor describes them, and what it does where
// the library fails. Whole models follow in cublaslt_models_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/exec/cuda/products/cublaslt_products.h"
#include "tests/cuda/rig/cublaslt_double.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

using testing::HasSubstr;

int up_to(int count, int multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

struct Shape {
  uint32_t rows;
  int n, k;
};

// Arrays of a product on the emulated device. What comes after a row's elements is no number.
struct Problem {
  EmulatedDriver driver{uint64_t{1} << 30, 3};
  CublasLtDouble library{driver};
  CublasLtProducts products{driver, library};
  std::vector<float> x, w, bias, y;
  MultiplyCall call = {};

  explicit Problem(const Shape& shape, Input type = Input::bf16) : type_(type) {
    EXPECT_TRUE(products.load().ok());
    Numbers numbers(7);
    call.rows = shape.rows;
    call.n_out = shape.n;
    call.k_in = shape.k;
    call.x_stride = up_to(shape.k, 8);
    call.w_stride = up_to(shape.k, 32);
    call.y_stride = shape.n + 3;
    x = widened(rounded(numbers.many(uint64_t{shape.rows} * static_cast<uint64_t>(shape.k))));
    w = widened(rounded(numbers.many(static_cast<uint64_t>(shape.n) * shape.k)));
    bias = numbers.many(static_cast<uint64_t>(shape.n));
    y = numbers.many(uint64_t{shape.rows} * static_cast<uint64_t>(call.y_stride));
    call.x = upload(x, shape.k, call.x_stride);
    call.w = upload(w, shape.k, call.w_stride);
    call.bias = static_cast<const float*>(send(bias.data(), bias.size() * sizeof(float)));
    call.y = static_cast<float*>(send(y.data(), y.size() * sizeof(float)));
  }
  Status multiply() { return products.multiply(type_, call); }
  std::vector<float> result() {
    EXPECT_TRUE(driver.wait().ok());
    std::vector<float> values(y.size());
    EXPECT_TRUE(driver.machine().copy_out(values.data(), call.y, values.size() * sizeof(float)));
    return values;
  }
  void expect_product(float bias_factor) {
    const std::vector<float> got = result();
    for (uint32_t row = 0; row < call.rows; ++row) {
      for (int column = 0; column < call.y_stride; ++column) {
        const size_t at = row * static_cast<size_t>(call.y_stride) + static_cast<size_t>(column);
        double expected = y[at];
        if (column < call.n_out) {
          const double sum = dot(row, column) * (call.add ? call.factor : 1.0f);
          expected = sum + bias_factor * double{bias[static_cast<size_t>(column)]} +
                     (call.add ? double{y[at]} : 0.0);
        }
        ASSERT_NEAR(got[at], expected, 1e-4 * call.k_in) << row << ", " << column;
      }
    }
  }
  void* send(const void* from, uint64_t bytes) {
    void* const at = driver.machine().allocate(bytes, "an array");
    EXPECT_TRUE(driver.machine().copy_in(at, from, bytes));
    return at;
  }

 private:
  double dot(uint32_t row, int column) const {
    double sum = 0.0;
    for (int i = 0; i < call.k_in; ++i) {
      sum += double{x[row * static_cast<size_t>(call.k_in) + static_cast<size_t>(i)]} *
             double{w[static_cast<size_t>(column) * call.k_in + static_cast<size_t>(i)]};
    }
    return sum;
  }
  const void* upload(const std::vector<float>& from, int width, int stride) {
    std::vector<float> wide;
    for (size_t i = 0; i < from.size(); ++i) {
      wide.push_back(from[i]);
      const bool last = (i + 1) % static_cast<size_t>(width) == 0;
      if (last) wide.resize(wide.size() + static_cast<size_t>(stride - width), NAN);
    }
    if (type_ == Input::f32) return send(wide.data(), wide.size() * sizeof(float));
    const std::vector<BFloat16> narrow = rounded(wide);
    return send(narrow.data(), narrow.size() * sizeof(BFloat16));
  }

  Input type_;
};

TEST(CublasLtProducts, are_those_of_the_formula_in_any_shape) {
  for (const Input type : {Input::f32, Input::bf16}) {
    for (const Shape& shape : {Shape{1, 16, 32}, Shape{1, 61, 37}, Shape{5, 7, 64},
                               Shape{17, 33, 9}, Shape{67, 130, 40}}) {
      SCOPED_TRACE(std::to_string(shape.rows) + " rows, " + std::to_string(shape.n) + " x " +
                   std::to_string(shape.k));
      Problem p(shape, type);
      ASSERT_TRUE(p.multiply().ok());
      p.expect_product(1.0f);
    }
  }
}

TEST(CublasLtProducts, read_nothing_of_a_result_that_they_do_not_add_to) {
  Problem p({3, 20, 16});
  p.call.bias = nullptr;
  p.driver.machine().forget(p.call.y);
  ASSERT_TRUE(p.multiply().ok());
  EXPECT_TRUE(p.driver.wait().ok());
  p.call.add = true;
  p.call.factor = 0.5f;
  p.driver.machine().forget(p.call.y);
  ASSERT_TRUE(p.multiply().ok());
  EXPECT_TRUE(p.driver.wait().ok());
  EXPECT_THAT(p.library.take_findings(), testing::Contains(HasSubstr("column 0 of D")));
}

TEST(CublasLtProducts, are_added_with_a_factor_where_no_bias_has_one_too) {
  Problem p({4, 24, 40});
  p.call.add = true;
  p.call.factor = 1.0f;
  ASSERT_TRUE(CublasLtProducts::takes(p.call));
  ASSERT_TRUE(p.multiply().ok());
  p.expect_product(1.0f);
  Problem scaled({4, 24, 40});
  scaled.call.add = true;
  scaled.call.factor = 0.25f;
  EXPECT_FALSE(CublasLtProducts::takes(scaled.call)) << "the library adds a bias behind the factor";
  scaled.call.bias = nullptr;
  ASSERT_TRUE(CublasLtProducts::takes(scaled.call));
  ASSERT_TRUE(scaled.multiply().ok());
  scaled.expect_product(0.0f);
}

TEST(CublasLtProducts, are_planned_once_for_each_number_of_rows_and_alignment) {
  Problem p({6, 16, 32});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(p.multiply().ok());
  EXPECT_EQ(p.products.plans(), 1u);
  p.call.rows = 5;
  ASSERT_TRUE(p.multiply().ok());
  p.call.y += p.call.y_stride;  // of no whole 256 bytes
  ASSERT_TRUE(p.multiply().ok());
  EXPECT_EQ(p.products.plans(), 3u);
  EXPECT_EQ(p.library.runs(), 5u);
  EXPECT_TRUE(p.driver.wait().ok());
}

TEST(CublasLtProducts, wait_on_the_queue_as_kernels_do) {
  Problem p({2, 16, 32});
  ASSERT_TRUE(p.multiply().ok());
  EXPECT_EQ(p.driver.waiting(), 1u);
  std::vector<float> now(p.y.size());
  p.driver.machine().copy_out(now.data(), p.call.y, now.size() * sizeof(float));
  EXPECT_EQ(now, p.y);
  p.expect_product(1.0f);
}

TEST(CublasLtProducts, are_captured_where_they_were_planned_before) {
  Problem p({2, 16, 32});
  ASSERT_TRUE(p.multiply().ok());
  EXPECT_TRUE(p.driver.wait().ok());
  ASSERT_TRUE(p.driver.begin_capture().ok());
  p.products.only_planned(true);
  EXPECT_TRUE(p.multiply().ok());
  p.call.rows = 1;
  const Status unplanned = p.multiply();
  EXPECT_THAT(std::string(unplanned.message()),
              HasSubstr("a product of 1 rows with a matrix of 16 x 32 in bf16 by cuBLASLt: it was "
                        "not planned before launches were captured"));
  p.products.only_planned(false);
  EXPECT_THAT(std::string(p.multiply().message()),
              HasSubstr("a plan is made while launches are captured"));
  const auto graph = p.driver.end_capture();
  ASSERT_TRUE(graph.ok());
  p.call.rows = 2;
  ASSERT_TRUE(p.driver.replay(graph->handle).ok());
  p.expect_product(1.0f);
}

TEST(CublasLtProducts, say_the_shape_where_the_library_has_no_algorithm_or_fails) {
  Problem refused({3, 48, 32}, Input::f32);
  refused.library.refuse_plans();
  const Status status = refused.multiply();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_EQ(std::string(status.message()),
            "a product of 3 rows with a matrix of 48 x 32 in f32 by cuBLASLt: the library has no "
            "algorithm for it on this device");
  Problem failing({3, 48, 32});
  failing.library.fail_run(1);
  EXPECT_EQ(std::string(failing.multiply().message()),
            "a product of 3 rows with a matrix of 48 x 32 in bf16 by cuBLASLt: the function failed "
            "to launch (CUBLAS_STATUS_EXECUTION_FAILED)");
  ASSERT_TRUE(failing.multiply().ok());
  failing.expect_product(1.0f);
}

TEST(CublasLtProducts, have_a_workspace_that_counts) {
  EmulatedDriver driver(CublasLtProducts::kWorkspaceBytes - 1);
  CublasLtDouble library(driver);
  CublasLtProducts products(driver, library);
  const Status loaded = products.load();
  EXPECT_EQ(loaded.code(), StatusCode::out_of_memory);
  EXPECT_THAT(std::string(loaded.message()), HasSubstr("cuBLASLt's workspace"));
}

// The double finds what an executor could do wrong.
class PlantedMistakes : public testing::Test {
 protected:
  PlantedMistakes() {
    const auto k = static_cast<uint64_t>(p_.call.k_in), n = static_cast<uint64_t>(p_.call.n_out);
    right_.a = {Input::bf16, k, n, static_cast<uint64_t>(p_.call.w_stride), 256};
    right_.b = {Input::bf16, k, p_.call.rows, static_cast<uint64_t>(p_.call.x_stride), 256};
    right_.d = {Input::f32, n, p_.call.rows, static_cast<uint64_t>(p_.call.y_stride), 256};
    right_.transpose_a = true;
    arrays_ = {p_.call.w, p_.call.x, p_.call.y, nullptr};
    workspace_ = p_.send(std::vector<char>(1 << 16).data(), 1 << 16);
  }
  std::string plan_error(const LtProduct& product) {
    return std::string(p_.library.plan(product, arrays_, 1 << 16).status().message());
  }
  std::unique_ptr<LtPlan> planned(const LtProduct& product, uint64_t most = 1 << 16) {
    auto plan = p_.library.plan(product, arrays_, most);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return *std::move(plan);
  }
  std::string found_in_run(const LtProduct& product) {
    const auto plan = planned(product);
    const Status status =
        p_.library.run(p_.driver.stream(), *plan, arrays_, 1.0f, 0.0f, workspace_);
    EXPECT_TRUE(p_.driver.wait().ok());
    const auto findings = p_.library.take_findings();
    return !status.ok() ? std::string(status.message()) : findings.empty() ? "" : findings[0];
  }

  Problem p_{{4, 24, 40}};
  LtProduct right_;
  LtArrays arrays_;
  void* workspace_ = nullptr;
};

TEST_F(PlantedMistakes, in_descriptions_are_found_when_a_plan_is_made) {
  EXPECT_EQ(plan_error(right_), "");
  LtProduct wrong = right_;
  wrong.transpose_a = false;
  EXPECT_THAT(plan_error(wrong), HasSubstr("do not fit"));
  wrong = right_;
  std::swap(wrong.a, wrong.b);
  EXPECT_THAT(plan_error(wrong), HasSubstr("do not fit"));
  wrong = right_;
  wrong.a.leading = wrong.a.rows - 1;
  EXPECT_THAT(plan_error(wrong), HasSubstr("columns of A overlap"));
  wrong = right_;
  wrong.d.type = Input::bf16;
  EXPECT_THAT(plan_error(wrong), HasSubstr("types"));
  wrong = right_;
  wrong.bias_alignment = 4;
  EXPECT_THAT(plan_error(wrong), HasSubstr("a bias"));
  arrays_.b = static_cast<const char*>(arrays_.b) + 16;
  EXPECT_THAT(plan_error(right_), HasSubstr("B is not aligned"));
}

TEST_F(PlantedMistakes, in_arrays_are_found_when_they_are_read_and_written) {
  LtProduct longer = right_;
  longer.a.rows = longer.b.rows = static_cast<uint64_t>(p_.call.w_stride) + 1;
  longer.a.leading = longer.b.leading = longer.a.rows;
  EXPECT_THAT(found_in_run(longer), HasSubstr("is outside of its array"));
  LtProduct rows = right_;
  rows.b.columns = rows.d.columns = 5;
  EXPECT_THAT(found_in_run(rows), HasSubstr("column 4 of B"));
  LtProduct wide = right_;
  wide.d.leading += 2;
  EXPECT_THAT(found_in_run(wide), HasSubstr("D is outside"));
  p_.driver.machine().forget(const_cast<void*>(arrays_.b));
  EXPECT_THAT(found_in_run(right_), HasSubstr("nobody wrote"));
}

TEST_F(PlantedMistakes, in_runs_are_found) {
  const auto run = [&](void* stream, LtPlan& plan, void* workspace) {
    return std::string(p_.library.run(stream, plan, arrays_, 1.0f, 0.0f, workspace).message());
  };
  const auto plan = planned(right_);
  ASSERT_GT(plan->workspace_bytes(), 0u);
  LateQueue other;
  EXPECT_THAT(run(&other, *plan, workspace_), HasSubstr("another queue"));
  EXPECT_THAT(run(p_.driver.stream(), *plan, static_cast<char*>(workspace_) + 16),
              HasSubstr("not aligned to 256"));
  CublasLtDouble second(p_.driver);
  const auto foreign = second.plan(right_, arrays_, 0);
  ASSERT_TRUE(foreign.ok());
  EXPECT_EQ((*foreign)->workspace_bytes(), 0u);
  EXPECT_THAT(run(p_.driver.stream(), **foreign, workspace_), HasSubstr("another library"));
  void* const small = p_.send("", 1);
  EXPECT_EQ(run(p_.driver.stream(), *plan, small), "");
  EXPECT_TRUE(p_.driver.wait().ok());
  EXPECT_THAT(p_.library.take_findings(),
              testing::ElementsAre(HasSubstr("the workspace is smaller")));
}

}  // namespace
}  // namespace tenon::cuda::test
