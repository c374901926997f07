// What <tenon/linear.h> promises.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/quote.h"
#include "core/conformance/cases.h"
#include "core/conformance/exercise.h"
#include "core/conformance/linear_bench.h"

namespace tenon {
namespace {

struct Shape {
  uint32_t n_out, k_in;
};
// Sizes that fit no tile, in whole blocks of 32; fitting() makes them longer for other formats.
constexpr Shape kShapes[] = {{1, 32}, {33, 64}, {70, 320}, {16, 512}, {97, 32}};
constexpr uint32_t kRowCounts[] = {1, 2, 5, 13, 37, 64};

Shape fitting(Shape shape, std::string_view format) {
  return {shape.n_out, whole_blocks_of(format, shape.k_in)};
}

bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// What formats cost in precision, and what kernels may round activations to.
double tolerance_of(std::string_view format) {
  return format == "f32" ? 1e-4 : 2e-2;
}

std::string named(std::string_view format, Shape shape, uint32_t rows) {
  return std::string(format) + " [" + std::to_string(shape.n_out) + ", " +
         std::to_string(shape.k_in) + "], " + std::to_string(rows) + " rows";
}

// Lets `body` look at each format that the kernel takes; its errors are broken promises.
template <typename Body>
Finding each_format(Subject& subject, Body body) {
  auto bench = LinearBench::make(subject);
  if (!bench.ok()) return broke(message_of(bench.status()));
  const std::vector<std::string> formats = (*bench)->formats();
  if (formats.empty()) return skipped("it takes none of the formats that these cases know");
  for (const std::string& format : formats) {
    const Result<Finding> found = body(**bench, format);
    if (!found.ok()) return broke(format + ": " + message_of(found.status()));
    if (found->verdict != CaseVerdict::pass) return *found;
  }
  return {};
}

Finding multiplies(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        for (const Shape given : kShapes) {
          const Shape shape = fitting(given, format);
          TestWeight weight(format, shape.n_out, shape.k_in, subject.seed());
          TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack_for_product(weight));
          for (const uint32_t rows : kRowCounts) {
            const auto x = random_activations(subject.seed() + rows, size_t{rows} * shape.k_in);
            TENON_ASSIGN_OR_RETURN(const std::vector<float> y, bench.multiply(packed, x, rows));
            const double error = relative_error(y, plain_product(weight, x, rows));
            // Not a number is no error either.
            if (error <= tolerance_of(format)) continue;
            return broke(named(format, shape, rows) + ": the relative error is " +
                         std::to_string(error));
          }
        }
        return Finding();
      });
}

Finding gives_rows_their_own_bits(Subject& subject) {
  if (subject.provides("numerics.rows", "batch")) return skipped("it states numerics.rows = batch");
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        const Shape shape = fitting({70, 320}, format);
        constexpr uint32_t kRows = 37;
        const TestWeight weight(format, shape.n_out, shape.k_in, subject.seed());
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight once, bench.pack(weight));
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight sliced, bench.pack(weight, 3));
        const auto x = random_activations(subject.seed(), size_t{kRows} * shape.k_in);
        TENON_ASSIGN_OR_RETURN(const std::vector<float> all, bench.multiply(once, x, kRows));
        for (uint32_t row = 0; row < kRows; ++row) {
          const auto from = x.begin() + static_cast<ptrdiff_t>(size_t{row} * shape.k_in);
          TENON_ASSIGN_OR_RETURN(
              const std::vector<float> alone,
              bench.multiply(once, std::vector<float>(from, from + shape.k_in), 1));
          if (same_bits(alone.data(), &all[size_t{row} * shape.n_out], shape.n_out)) continue;
          return broke(named(format, shape, kRows) + ": row " + std::to_string(row) +
                       " has other bits than alone");
        }
        for (const uint32_t parts : {2u, 3u, 7u, 100u}) {
          for (const bool backwards : {false, true}) {
            ProductOrder order;
            order.parts = parts;
            order.slices = 3;
            order.backwards = backwards;
            TENON_ASSIGN_OR_RETURN(const std::vector<float> again,
                                   bench.multiply(sliced, x, kRows, order));
            if (same_bits(again.data(), all.data(), all.size())) continue;
            return broke(named(format, shape, kRows) + ": other bits in " + std::to_string(parts) +
                         " parts, " + (backwards ? "the last first" : "in order"));
          }
        }
        return Finding();
      });
}

Finding finishes_products(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        const Shape shape = fitting({45, 64}, format);
        constexpr uint32_t kRows = 5;
        TestWeight weight(format, shape.n_out, shape.k_in, subject.seed()),
            other(format, shape.n_out, shape.k_in, subject.seed() + 1);
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack_for_product(weight));
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight second, bench.pack_for_product(other));
        const auto x = random_activations(subject.seed(), size_t{kRows} * shape.k_in);
        const auto old = random_activations(subject.seed() + 2, size_t{kRows} * shape.n_out);
        const auto bias = random_activations(subject.seed() + 3, shape.n_out);
        const auto p = plain_product(weight, x, kRows), p2 = plain_product(other, x, kRows);
        for (const Epilogue epilogue :
             {Epilogue::store, Epilogue::add, Epilogue::silu_mul, Epilogue::gelu_mul}) {
          if ((bench.kernel().epilogues() & epilogue_bit(epilogue)) == 0) continue;
          const bool gated = epilogue == Epilogue::silu_mul || epilogue == Epilogue::gelu_mul;
          ProductOrder order;
          order.epilogue = epilogue;
          order.before = old;
          if (gated) {
            order.second = &second;
          } else {
            order.bias = bias;
          }
          TENON_ASSIGN_OR_RETURN(const std::vector<float> y,
                                 bench.multiply(packed, x, kRows, order));
          std::vector<double> wanted(y.size());
          for (size_t i = 0; i < wanted.size(); ++i) {
            const double cubed = 0.7978845608 * (p[i] + 0.044715 * p[i] * p[i] * p[i]);
            wanted[i] = p[i] + bias[i % shape.n_out];
            if (epilogue == Epilogue::add) wanted[i] += old[i];
            if (epilogue == Epilogue::silu_mul) wanted[i] = p[i] / (1 + std::exp(-p[i])) * p2[i];
            if (epilogue == Epilogue::gelu_mul)
              wanted[i] = 0.5 * p[i] * (1 + std::tanh(cubed)) * p2[i];
          }
          if (relative_error(y, wanted) <= 2 * tolerance_of(format)) continue;
          return broke(named(format, shape, kRows) + ": epilogue " +
                       std::to_string(static_cast<int>(epilogue)) + " gives other numbers");
        }
        return Finding();
      });
}

Finding refuses_unknown_epilogues(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        const TestWeight weight(format, 40, whole_blocks_of(format, 64), subject.seed());
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack(weight));
        const auto x = random_activations(subject.seed(), weight.k_in());
        ProductOrder order;
        order.epilogue = static_cast<Epilogue>(31);
        order.second = &packed;
        const auto y = bench.multiply(packed, x, 1, order);
        if (!y.ok() && y.status().code() == StatusCode::unsupported) return Finding();
        return broke("an epilogue that it does not have is not refused as unsupported");
      });
}

Finding chooses_rows(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        const Shape shape = fitting({45, 64}, format);
        TestWeight weight(format, shape.n_out, shape.k_in, subject.seed());
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack_for_product(weight));
        const auto x = random_activations(subject.seed(), size_t{9} * shape.k_in);
        const auto all = plain_product(weight, x, 9);
        ProductOrder order;
        order.rows = {7, 0, 3, 3};
        TENON_ASSIGN_OR_RETURN(const std::vector<float> y, bench.multiply(packed, x, 9, order));
        std::vector<double> wanted;
        for (const uint32_t row : order.rows) {
          const auto from = all.begin() + static_cast<ptrdiff_t>(size_t{row} * shape.n_out);
          wanted.insert(wanted.end(), from, from + shape.n_out);
        }
        if (relative_error(y, wanted) <= tolerance_of(format)) return Finding();
        return broke(format + ": rows 7, 0, 3 and 3 of nine were asked for, and others came");
      });
}

Finding gives_rows_back(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        const uint32_t k_in = whole_blocks_of(format, 64);
        const TestWeight weight(format, 71, k_in, subject.seed());
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack(weight));
        const std::vector<uint32_t> rows = {70, 0, 13, 13, 42};
        TENON_ASSIGN_OR_RETURN(const std::vector<float> out, bench.gather(packed, rows));
        std::vector<double> wanted;
        for (const uint32_t row : rows) {
          const auto from = weight.values().begin() + static_cast<ptrdiff_t>(size_t{row} * k_in);
          wanted.insert(wanted.end(), from, from + k_in);
        }
        const double error = relative_error(out, wanted);
        if (error <= std::max(1e-6, bench.weight_rounding())) return Finding();
        if (bench.weight_rounding() == 0) {
          return broke(format + ": gathered rows are not those of the weight");
        }
        return broke(format + ": gathered rows differ from those of the weight by " +
                     std::to_string(error) + ", where it states a rounding of " +
                     std::to_string(bench.weight_rounding()));
      });
}

}  // namespace

Result<Transcript> exercise_linear(Subject& subject, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<LinearBench> bench, LinearBench::make(subject));
  Transcript transcript;
  for (const std::string& format : bench->formats()) {
    const TestWeight weight(format, 33, whole_blocks_of(format, 64), seed);
    TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench->pack(weight));
    const auto x = random_activations(seed, size_t{5} * weight.k_in());
    TENON_ASSIGN_OR_RETURN(const std::vector<float> y, bench->multiply(packed, x, 5));
    for (size_t i = 0; i < y.size(); i += 7) {
      uint32_t bits;
      std::memcpy(&bits, &y[i], sizeof(bits));
      transcript.push_back(format + " y[" + std::to_string(i) + "] has the bits " +
                           std::to_string(bits));
    }
  }
  return transcript;
}

CaseList linear_cases() {
  constexpr std::string_view kOf = "linear", kHeader = "linear.h";
  return {
      {"linear.products", kOf, kHeader,
       "LinearKernel: y = x · Wᵀ for weights of one or more formats.", &multiplies},
      {"linear.same_bits", kOf, kHeader,
       "A kernel promises the same bits for a row whatever the number of rows, slices and ranges",
       &gives_rows_their_own_bits},
      {"linear.epilogues", kOf, kHeader,
       "What is done with a finished product p = row_scale · (x·Wᵀ) + bias.", &finishes_products},
      {"linear.refusals", kOf, kHeader,
       "unsupported: an epilogue or a dtype that this kernel does not have; nothing was written.",
       &refuses_unknown_epilogues},
      {"linear.rows", kOf, kHeader, "which of them, in the job's order; empty = all",
       &chooses_rows},
      {"linear.gather", kOf, kHeader, "Rows of a packed weight as plain numbers", &gives_rows_back},
  };
}

}  // namespace tenon
