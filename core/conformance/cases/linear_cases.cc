// What <tenon/linear.h> promises.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/quote.h"
#include "core/conformance/bench/linear_bench.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"

namespace tenon {
namespace {

struct Shape {
  uint32_t n_out, k_in;
};
// Sizes that fit no tile; fitting() makes them longer for formats of blocks.
constexpr Shape kShapes[] = {{1, 32}, {33, 64}, {70, 320}, {16, 512}, {97, 32}, {29, 67}, {300, 1}};
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
          // A kernel with blocks of its own may refuse rows that fill none, in words.
          const bool fills_blocks = shape.k_in % 32 == 0;
          if (!fills_blocks && !bench.kernel().accepts(weight.view()).ok()) continue;
          TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack_for_product(weight));
          for (const uint32_t rows : kRowCounts) {
            const auto x = random_activations(subject.seed() + rows, size_t{rows} * shape.k_in);
            TENON_ASSIGN_OR_RETURN(const std::vector<float> y, bench.multiply(packed, x, rows));
            const double error =
                relative_error(y, plain_product(weight, x, rows), usual_size(weight, x, rows));
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

// One weight and nine rows of x, for calls that are asked in unusual ways.
struct Product {
  static constexpr uint32_t kRows = 9;
  TestWeight weight;
  std::optional<PackedTestWeight> packed;
  std::vector<float> x;
  std::vector<double> all;

  Product(std::string_view format, Shape shape, uint64_t seed)
      : weight(format, shape.n_out, shape.k_in, seed),
        x(random_activations(seed, size_t{kRows} * shape.k_in)) {}
  static Result<std::unique_ptr<Product>> make(Subject& subject, LinearBench& bench,
                                               const std::string& format) {
    auto made = std::make_unique<Product>(format, fitting({45, 64}, format), subject.seed());
    TENON_ASSIGN_OR_RETURN(PackedTestWeight packed, bench.pack_for_product(made->weight));
    made->packed.emplace(std::move(packed));
    made->all = plain_product(made->weight, made->x, kRows);
    return made;
  }
  // `wanted` may be another product.
  Result<Finding> holds(LinearBench& bench, const std::string& format, const ProductOrder& order,
                        const std::vector<double>& wanted, const std::string& what) const {
    TENON_ASSIGN_OR_RETURN(const std::vector<float> y, bench.multiply(*packed, x, kRows, order));
    if (relative_error(y, wanted) <= 2 * tolerance_of(format)) return Finding();
    return broke(format + ": " + what);
  }
};

Finding finds_stored_rows(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        const Shape shape = fitting({45, 64}, format);
        TestWeight weight(format, shape.n_out, shape.k_in, subject.seed(), true);
        // A kernel may refuse the layout, in words.
        if (!bench.kernel().accepts(weight.view()).ok()) return Finding();
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack_for_product(weight));
        const auto x = random_activations(subject.seed(), shape.k_in);
        TENON_ASSIGN_OR_RETURN(const std::vector<float> y, bench.multiply(packed, x, 1));
        const double error =
            relative_error(y, plain_product(weight, x, 1), usual_size(weight, x, 1));
        if (error <= tolerance_of(format)) return Finding();
        return broke(format + ": of a weight whose rows are stored in another order, with room " +
                     "between them, the product is another");
      });
}

Finding follows_strides(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        TENON_ASSIGN_OR_RETURN(const auto product, Product::make(subject, bench, format));
        ProductOrder order;
        order.x_room = 5;
        order.y_room = 3;
        TENON_ASSIGN_OR_RETURN(
            Finding found, product->holds(bench, format, order, product->all,
                                          "with room between the rows of x and of y the product is "
                                          "another"));
        if (found.verdict != CaseVerdict::pass) return found;
        const std::vector<uint32_t> rows = {3, 0, 44};
        TENON_ASSIGN_OR_RETURN(const std::vector<float> dense,
                               bench.gather(*product->packed, rows));
        TENON_ASSIGN_OR_RETURN(const std::vector<float> spread,
                               bench.gather(*product->packed, rows, 7));
        if (same_bits(dense.data(), spread.data(), dense.size())) return found;
        return broke(format + ": with room between them, gathered rows are others");
      });
}

Finding writes_where_it_should(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        TENON_ASSIGN_OR_RETURN(const auto product, Product::make(subject, bench, format));
        ProductOrder order;
        order.y_rows = {4, 11, 0, 2, 7, 8, 1, 3, 9};
        return product->holds(bench, format, order, product->all,
                              "where rows go to other places in y, they are not what stands there");
      });
}

Finding scales_rows(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        TENON_ASSIGN_OR_RETURN(const auto product, Product::make(subject, bench, format));
        const uint32_t n_out = product->packed->n_out;
        ProductOrder order;
        order.row_scale = {0.5f, -2, 1, 3, 0.25f, 1, 7, -1, 0};
        order.bias = random_activations(subject.seed() + 3, n_out);
        std::vector<double> wanted = product->all, gated = product->all;
        for (size_t i = 0; i < wanted.size(); ++i) {
          const double p = order.row_scale[i / n_out] * wanted[i];
          wanted[i] = p + order.bias[i % n_out];
          gated[i] = p / (1 + std::exp(-p)) * p;
        }
        TENON_ASSIGN_OR_RETURN(
            Finding found,
            product->holds(bench, format, order, wanted,
                           "with a factor for each row, and a bias, the product is another"));
        const bool is_gated = (bench.kernel().epilogues() & epilogue_bit(Epilogue::silu_mul)) != 0;
        if (found.verdict != CaseVerdict::pass || !is_gated) return found;
        order.bias.clear();
        order.epilogue = Epilogue::silu_mul;
        order.second = &*product->packed;
        return product->holds(bench, format, order, gated,
                              "with a factor for each row, the gated product is another");
      });
}

Finding runs_several_jobs(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        TENON_ASSIGN_OR_RETURN(const auto product, Product::make(subject, bench, format));
        TestWeight other(format, 13, product->weight.k_in(), subject.seed() + 1);
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight beside, bench.pack_for_product(other));
        // Jobs share what was prepared, which is one for weights of the same preparation alone.
        if (beside.preparation != product->packed->preparation) return Finding();
        std::vector<double> wanted = product->all;
        const auto more = plain_product(other, product->x, Product::kRows);
        wanted.insert(wanted.end(), more.begin(), more.end());
        for (const uint32_t parts : {1u, 5u}) {
          ProductOrder order;
          order.beside = &beside;
          order.parts = parts;
          TENON_ASSIGN_OR_RETURN(
              Finding found, product->holds(bench, format, order, wanted,
                                            "of two jobs in a call, in " + std::to_string(parts) +
                                                " parts, a product is another"));
          if (found.verdict != CaseVerdict::pass) return found;
        }
        return Finding();
      });
}

// Each worker with a part of its own, all at once.
Finding runs_on_threads(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        // So much work, and so often, that workers meet, also where they share one processor.
        constexpr uint32_t kRows = 9, kRounds = 20;
        const Shape shape = fitting({300, 512}, format);
        const TestWeight weight(format, shape.n_out, shape.k_in, subject.seed());
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack(weight));
        const auto x = random_activations(subject.seed(), size_t{kRows} * shape.k_in);
        TENON_ASSIGN_OR_RETURN(const std::vector<float> alone, bench.multiply(packed, x, kRows));
        ProductOrder order;
        order.on_threads = true;
        for (uint32_t round = 0; round < kRounds; ++round) {
          TENON_ASSIGN_OR_RETURN(const std::vector<float> y,
                                 bench.multiply(packed, x, kRows, order));
          if (same_bits(y.data(), alone.data(), alone.size())) continue;
          return broke(format + ": other bits when several workers run parts at once");
        }
        return Finding();
      });
}

// Nothing forbids it; that it is slow, and ends the program where there is no memory, is worth a
// word.
Finding runs_without_allocating(Subject& subject) {
  return each_format(
      subject, [&](LinearBench& bench, const std::string& format) -> Result<Finding> {
        const Shape shape = fitting({33, 64}, format);
        const TestWeight weight(format, shape.n_out, shape.k_in, subject.seed());
        TENON_ASSIGN_OR_RETURN(const PackedTestWeight packed, bench.pack(weight));
        const auto x = random_activations(subject.seed(), size_t{5} * shape.k_in);
        RunWatch watch(subject);
        for (uint32_t i = 0; i < 3; ++i) {
          bench.watch_runs(i == 2 ? &watch : nullptr);
          TENON_RETURN_IF_ERROR(bench.multiply(packed, x, 5).take_status());
        }
        bench.watch_runs(nullptr);
        return watch.finding(CaseVerdict::warn, "expected memory that each worker keeps");
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
      {"linear.y_rows", kOf, kHeader, "where the job's rows go in y, each once; empty = 0, 1 …",
       &writes_where_it_should},
      {"linear.strides", kOf, kHeader, "elements from row to row", &follows_strides},
      {"linear.row_scale", kOf, kHeader, "a factor for each of the job's rows, or null",
       &scales_rows},
      {"linear.jobs", kOf, kHeader, "All jobs of one call are independent of each other",
       &runs_several_jobs},
      {"linear.threads", kOf, kHeader,
       "`pack`, `gather`, `prepare` and `run` are [worker], called by all slices or ranges with "
       "equal arguments",
       &runs_on_threads},
      {"linear.stored_rows", kOf, kHeader,
       "the row of the parts that is row n of the matrix; each stands there once.",
       &finds_stored_rows},
      {"linear.gather", kOf, kHeader, "Rows of a packed weight as plain numbers", &gives_rows_back},
      {"linear.memory", kOf, kHeader,
       "two calls of one worker never overlap, so scratch memory can be a worker's.",
       &runs_without_allocating},
  };
}

}  // namespace tenon
