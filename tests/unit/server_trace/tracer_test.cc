#include "core/server/trace/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tenon::trace {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using Json = nlohmann::json;
using namespace std::chrono_literals;

constexpr const char* kSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr const char* kUnsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

Span span_named(std::string name) {
  return {.trace_id = fresh_trace_id(), .span_id = fresh_span_id(), .name = std::move(name)};
}

// What a collector is sent, and says.
class Collector {
 public:
  Deliver deliver() {
    return [this](const std::string& body) {
      const std::lock_guard lock(mutex_);
      bodies_.push_back(Json::parse(body));
      const Delivery said =
          bodies_.size() <= answers.size() ? answers[bodies_.size() - 1] : Delivery::taken;
      return said;
    };
  }
  // Once the tracer is gone.
  const std::vector<Json>& bodies() const { return bodies_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Json& body : bodies_) {
      for (const Json& span : body["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
        names.push_back(span["name"]);
      }
    }
    return names;
  }
  std::vector<Delivery> answers;

 private:
  std::mutex mutex_;
  std::vector<Json> bodies_;
};

TEST(Otlp, has_numbers_and_ids_as_text) {
  Span span = span_named("decode");
  span.parent_id = "b7ad6b7169203331";
  span.start_ns = 1'700'000'000'000'000'001;
  span.end_ns = 1'700'000'000'000'000'002;
  span.attributes = {{"tenon.tokens", int64_t{7}}, {"tenon.finish_reason", std::string("st\xff")}};
  span.failed = true;
  span.message = "why";
  const Json body = Json::parse(otlp_json(std::span(&span, 1), "tale", "0.1.0"));
  const Json& resource = body["resourceSpans"][0];
  EXPECT_EQ(resource["resource"]["attributes"][0]["value"]["stringValue"], "tale");
  const Json& out = resource["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(out["traceId"], span.trace_id);
  EXPECT_EQ(out["parentSpanId"], span.parent_id);
  EXPECT_EQ(out["startTimeUnixNano"], "1700000000000000001");
  EXPECT_EQ(out["endTimeUnixNano"], "1700000000000000002");
  EXPECT_EQ(out["attributes"][0]["value"]["intValue"], "7");
  EXPECT_EQ(out["attributes"][1]["value"]["stringValue"], "st\ufffd");
  EXPECT_EQ(out["status"]["code"], 2);
  EXPECT_EQ(out["kind"], 1);
}

TEST(Tracer, does_as_the_sender_says) {
  Collector collector;
  Tracer tracer({.share = 0.0}, collector.deliver());
  const auto begun = tracer.begin(kSampled, "a=b");
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->context.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(begun->parent_id, "b7ad6b7169203331");
  EXPECT_NE(begun->context.span_id, begun->parent_id);
  EXPECT_EQ(begun->context.state, "a=b");
  EXPECT_FALSE(tracer.begin("", ""));
  Tracer all({.share = 1.0}, collector.deliver());
  EXPECT_FALSE(all.begin(kUnsampled, ""));
  EXPECT_TRUE(all.begin("", ""));
  EXPECT_TRUE(all.begin("none", "")->parent_id.empty());
}

TEST(Tracer, traces_about_the_share_that_was_asked_for) {
  Collector collector;
  Tracer tracer({.share = 0.25}, collector.deliver());
  int traced = 0;
  for (int i = 0; i < 4000; ++i) traced += tracer.begin("", "") ? 1 : 0;
  // Six standard deviations around 1000.
  EXPECT_GT(traced, 835);
  EXPECT_LT(traced, 1165);
}

TEST(Tracer, sends_in_batches_and_in_order) {
  Collector collector;
  {
    Tracer tracer({.batch_spans = 2, .every = 1h}, collector.deliver());
    for (const char* name : {"a", "b", "c"}) tracer.add({span_named(name)});
  }
  EXPECT_THAT(collector.names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(collector.bodies(), SizeIs(2));
}

TEST(Tracer, sends_what_may_be_taken_later_again_and_drops_what_is_refused) {
  Collector collector;
  collector.answers = {Delivery::later, Delivery::taken, Delivery::refused};
  {
    Tracer tracer({.batch_spans = 1, .every = 1h, .pause = 1ms}, collector.deliver());
    tracer.add({span_named("a")});
    while (tracer.sent() == 0) std::this_thread::sleep_for(1ms);
    tracer.add({span_named("b")});
    while (tracer.dropped() == 0) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(tracer.sent(), 1u);
    EXPECT_EQ(tracer.dropped(), 1u);
  }
  EXPECT_THAT(collector.names(), ElementsAre("a", "a", "b"));
}

TEST(Tracer, drops_the_newest_where_its_queue_is_full) {
  Collector collector;
  {
    Tracer tracer({.queue_spans = 2, .batch_spans = 100, .every = 1h}, collector.deliver());
    tracer.add({span_named("a"), span_named("b"), span_named("c")});
    tracer.add({span_named("d")});
    EXPECT_EQ(tracer.dropped(), 2u);
  }
  EXPECT_THAT(collector.names(), ElementsAre("a", "b"));
}

TEST(Tracer, waits_for_no_collector_at_its_end) {
  Collector collector;
  collector.answers = {Delivery::later, Delivery::later};
  {
    Tracer tracer({.every = 1h, .tries = 9, .pause = 1h}, collector.deliver());
    tracer.add({span_named("a")});
  }
  EXPECT_THAT(collector.bodies(), SizeIs(1));
}

}  // namespace
}  // namespace tenon::trace
