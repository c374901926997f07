// How the panels of several jobs are shared out between workers (sdk/linear/panels.h).
#include <gtest/gtest.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/random.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace tenon::sdk {
namespace {

constexpr uint32_t kColumns = 32;

// Numbers below `limit`, the same in every run.
class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  uint32_t below(uint32_t limit) { return philox({count_++, 0, 0, 0}, seed_)[0] % limit; }

 private:
  uint64_t seed_;
  uint32_t count_ = 0;
};

LinearJob job_of(uint32_t n_out, uint32_t k_in, uint32_t rows) {
  LinearJob job;
  job.n_out = n_out;
  job.k_in = k_in;
  job.x_rows = rows;
  return job;
}

std::vector<LinearJob> random_jobs(Draw& draw) {
  std::vector<LinearJob> jobs(1 + draw.below(6));
  for (LinearJob& job : jobs) {
    job = job_of(1 + draw.below(700), 1 + draw.below(4096), draw.below(200));
    if (draw.below(3) == 0) job.epilogue = Epilogue::silu_mul;
  }
  return jobs;
}

uint64_t panel_work(const LinearJob& job) {
  return uint64_t{job.k_in} * job.row_count() * (job.epilogue == Epilogue::silu_mul ? 2 : 1);
}

TEST(Shares, cover_every_panel_of_jobs_with_rows_once_whatever_the_ranges) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Draw draw(seed);
    const std::vector<LinearJob> jobs = random_jobs(draw);
    const uint32_t parts = 1 + draw.below(40);
    std::map<std::pair<const LinearJob*, uint32_t>, uint32_t> seen;
    for (uint32_t first = 0; first < parts;) {
      const uint32_t last = std::min(parts, first + 1 + draw.below(4));
      for_each_share(std::span(jobs), kColumns, {first, last, parts, 0},
                     [&](const LinearJob& job, PanelRange panels) {
                       for (uint32_t p = panels.first; p < panels.last; ++p) ++seen[{&job, p}];
                     });
      first = last;
    }
    size_t expected = 0;
    for (const LinearJob& job : jobs) {
      if (job.row_count() > 0) expected += panel_count(job.n_out, kColumns);
    }
    EXPECT_EQ(seen.size(), expected) << "seed " << seed;
    for (const auto& [panel, times] : seen) {
      EXPECT_EQ(times, 1u) << "seed " << seed;
      EXPECT_LT(panel.second, panel_count(panel.first->n_out, kColumns)) << "seed " << seed;
    }
  }
}

TEST(Shares, are_equal_in_work_to_a_panel_or_less) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Draw draw(seed);
    const std::vector<LinearJob> jobs = random_jobs(draw);
    uint64_t total = 0, largest = 0;
    for (const LinearJob& job : jobs) {
      total += panel_count(job.n_out, kColumns) * panel_work(job);
      largest = std::max(largest, panel_work(job));
    }
    const uint32_t parts = 1 + draw.below(12);
    for (uint32_t part = 0; part < parts; ++part) {
      uint64_t work = 0;
      for_each_share(std::span(jobs), kColumns, {part, part + 1, parts, 0},
                     [&](const LinearJob& job, PanelRange panels) {
                       work += (panels.last - panels.first) * panel_work(job);
                     });
      EXPECT_LE(work, total / parts + 1 + largest) << "seed " << seed << " part " << part;
      EXPECT_GE(work + largest, total / parts) << "seed " << seed << " part " << part;
    }
  }
}

TEST(Shares, give_an_expert_with_most_rows_most_workers) {
  const LinearJob jobs[] = {job_of(320, 64, 90), job_of(320, 64, 10)};
  uint32_t of_the_busy = 0;
  for (uint32_t part = 0; part < 10; ++part) {
    for_each_share(std::span(jobs), kColumns, {part, part + 1, 10, 0},
                   [&](const LinearJob& job, PanelRange) { of_the_busy += &job == &jobs[0]; });
  }
  EXPECT_EQ(of_the_busy, 9u);
}

}  // namespace
}  // namespace tenon::sdk
