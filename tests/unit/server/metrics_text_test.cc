#include <gtest/gtest.h>

#include "core/server/models/model_metrics.h"
#include "core/server/request_log.h"

namespace tenon::server {
namespace {

TEST(Histogram, counts_up_to_each_bound) {
  constexpr double kBounds[] = {1.0, 2.0};
  Histogram values(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 7.0}) values.add(value);
  EXPECT_EQ(values.up_to(0), 2u);
  EXPECT_EQ(values.up_to(1), 3u);
  EXPECT_EQ(values.up_to(2), 4u);
  EXPECT_DOUBLE_EQ(values.sum(), 10.0);
}

TEST(MetricsText, keeps_a_family_together) {
  MetricsText text;
  text.value("a", "gauge", "About a.", {{"m", "x\"y\\\n"}}, 1);
  text.value("b", "counter", "About b.", {}, 0.5);
  text.value("a", "gauge", "About a.", {{"m", "z"}}, 2);
  EXPECT_EQ(text.text(),
            "# HELP a About a.\n# TYPE a gauge\na{m=\"x\\\"y\\\\\\n\"} 1\na{m=\"z\"} 2\n"
            "# HELP b About b.\n# TYPE b counter\nb 0.5\n");
}

TEST(MetricsText, shows_histograms_with_a_sum_and_a_count) {
  constexpr double kBounds[] = {0.5};
  Histogram values(kBounds);
  values.add(0.25);
  values.add(1.0);
  MetricsText text;
  text.histogram("h", "About h.", {{"m", "x"}}, values);
  EXPECT_EQ(text.text(),
            "# HELP h About h.\n# TYPE h histogram\nh_bucket{m=\"x\",le=\"0.5\"} 1\n"
            "h_bucket{m=\"x\",le=\"+Inf\"} 2\nh_sum{m=\"x\"} 1.25\nh_count{m=\"x\"} 2\n");
}

TEST(RequestLog, has_a_line_of_json_a_request) {
  LogEntry entry;
  entry.id = "1";
  entry.method = "POST";
  entry.path = "/v1/completions";
  entry.status = 200;
  entry.prompt_tokens = 3;
  EXPECT_EQ(
      log_line(entry, "now"),
      R"({"time":"now","id":"1","peer":"","key":null,"method":"POST",)"
      R"("path":"/v1/completions","model":null,"status":200,"stream":false,"aborted":false,)"
      R"("error":null,"prompt_tokens":3,"completion_tokens":0,"cached_tokens":0,"first_token_ms":null,)"
      R"("total_ms":0.0})"
      "\n");
}

}  // namespace
}  // namespace tenon::server
