// What experts and adapters ask of every linear kernel: rows that are chosen, repeated, scaled and
// put where they belong, in jobs of different sizes.
#pragma once

#include <gtest/gtest.h>
#include <tenon/linear.h>

#include <algorithm>
#include <vector>

#include "tests/support/linear/linear_rig.h"

namespace tenon {

// y [.., n_out] keeps what no row of the job is put on; the others are
// old (where added) + scale · (x·Wᵀ) + bias, each operation rounded by itself. The products are
// those of the same rows without any of this.
inline void expect_rows_to_be_chosen_scaled_and_scattered(LinearRig& rig,
                                                          const WeightView& weight) {
  constexpr uint32_t kRows = 150, kTarget = 200;
  const std::vector<float> x = random_values(5, size_t{kRows} * weight.k_in);
  PackedWeight packed = rig.pack(weight);
  Aligned prepared = rig.prepare(packed, x, kRows);
  const std::vector<float> bias = random_values(8, weight.n_out);
  for (uint32_t count : {1u, 3u, 20u, 140u}) {
    std::vector<uint32_t> rows(count), y_rows(count);
    for (uint32_t i = 0; i < count; ++i) {
      rows[i] = i * 67 % kRows / 2;
      y_rows[i] = (i * 83 + 7) % kTarget;
    }
    const std::vector<float> scale = random_values(13, count);
    std::vector<float> plain(size_t{count} * weight.n_out, NAN);
    LinearJob job = rig.job(packed, prepared, kRows, plain);
    job.rows = rows;
    rig.run({job}, 3);
    for (Epilogue epilogue : {Epilogue::store, Epilogue::add}) {
      std::vector<float> y = random_values(9, size_t{kTarget} * weight.n_out);
      std::vector<float> want = y;
      job.y = y.data();
      job.y_rows = y_rows;
      job.row_scale = scale.data();
      job.bias = bias.data();
      job.epilogue = epilogue;
      rig.run({job}, 3);
      for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t n = 0; n < weight.n_out; ++n) {
          const float p = plain[i * weight.n_out + n] * scale[i] + bias[n];
          float& to = want[y_rows[i] * weight.n_out + n];
          to = epilogue == Epilogue::add ? to + p : p;
        }
      }
      ASSERT_TRUE(same_bits(y.data(), want.data(), y.size())) << count << " rows";
    }
  }
}

// A device that chooses experts itself says how many rows count; the host may as well.
inline void expect_only_the_leading_rows_to_be_used(LinearRig& rig, const WeightView& weight) {
  constexpr uint32_t kRows = 9;
  const std::vector<float> x = random_values(5, size_t{kRows} * weight.k_in);
  PackedWeight packed = rig.pack(weight);
  Aligned prepared = rig.prepare(packed, x, kRows);
  const auto all = rig.multiply(weight, x, kRows);
  for (uint32_t used : {0u, 1u, 8u, 9u}) {
    std::vector<float> y = random_values(9, size_t{kRows} * weight.n_out);
    std::vector<float> want = y;
    std::copy_n(all.begin(), used * weight.n_out, want.begin());
    LinearJob job = rig.job(packed, prepared, kRows, y);
    job.rows_used = &used;
    rig.run({job}, 2);
    if (rig.batch_invariant()) {
      ASSERT_TRUE(same_bits(y.data(), want.data(), y.size())) << used << " rows";
    } else {
      ASSERT_LE(relative_rms(y, {want.begin(), want.end()}), 1e-5) << used << " rows";
    }
  }
}

// A layer of experts as an executor composes it: x is prepared once, each expert takes the tokens
// that chose it and puts them, scaled, on places of their own; those of a token are added in the
// order of its choices.
inline void expect_experts_to_give_what_a_plain_loop_gives(LinearRig& rig,
                                                           const std::vector<WeightView>& experts) {
  constexpr uint32_t kTokens = 40, kChoices = 2;
  const uint32_t n_out = experts[0].n_out, k_in = experts[0].k_in;
  const std::vector<float> x = random_values(5, size_t{kTokens} * k_in);
  const std::vector<float> router = random_values(6, kTokens * kChoices);
  // Most tokens want expert 0, and few the last.
  const auto chosen = [&](uint32_t token, uint32_t choice) {
    const uint32_t first =
        token % 5 == 0 ? static_cast<uint32_t>(1 + token % (experts.size() - 1)) : 0;
    return choice == 0 ? first : static_cast<uint32_t>((first + 1) % experts.size());
  };

  std::vector<PackedWeight> packed;
  for (const WeightView& expert : experts) packed.push_back(rig.pack(expert));
  Aligned prepared = rig.prepare(packed[0], x, kTokens);
  std::vector<std::vector<uint32_t>> rows(experts.size()), y_rows(experts.size());
  std::vector<std::vector<float>> scale(experts.size());
  for (uint32_t place = 0; place < kTokens * kChoices; ++place) {
    const uint32_t expert = chosen(place / kChoices, place % kChoices);
    rows[expert].push_back(place / kChoices);
    y_rows[expert].push_back(place);
    scale[expert].push_back(router[place]);
  }
  std::vector<float> y(size_t{kTokens} * kChoices * n_out, NAN);
  std::vector<LinearJob> jobs;
  for (size_t e = 0; e < experts.size(); ++e) {
    ASSERT_EQ(packed[e].preparation, packed[0].preparation);
    jobs.push_back(rig.job(packed[e], prepared, kTokens, y));
    jobs.back().rows = rows[e];
    jobs.back().y_rows = y_rows[e];
    jobs.back().row_scale = scale[e].data();
  }
  rig.run(jobs, 7);

  for (uint32_t token = 0; token < kTokens; ++token) {
    const std::vector<float> row(x.begin() + token * k_in, x.begin() + (token + 1) * k_in);
    std::vector<float> got(n_out, 0.0f), want(n_out, 0.0f);
    for (uint32_t choice = 0; choice < kChoices; ++choice) {
      const uint32_t place = token * kChoices + choice;
      const auto product = rig.multiply(experts[chosen(token, choice)], row, 1);
      for (uint32_t n = 0; n < n_out; ++n) {
        got[n] += y[place * n_out + n];
        want[n] += product[n] * router[place];
      }
    }
    ASSERT_LE(relative_rms(got, {want.begin(), want.end()}), rig.batch_invariant() ? 0 : 1e-5)
        << "token " << token;
  }
}

}  // namespace tenon
