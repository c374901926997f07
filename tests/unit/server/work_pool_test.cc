#include "core/server/work_pool.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace tenon::server {
namespace {

TEST(WorkPool, refuses_what_is_beyond_its_capacity) {
  std::promise<void> begun, go_on;
  WorkPool pool(1, 1);
  ASSERT_TRUE(pool.post([&] {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  std::promise<void> done;
  EXPECT_TRUE(pool.post([&] { done.set_value(); }));
  EXPECT_FALSE(pool.post([] {}));
  go_on.set_value();
  done.get_future().wait();
}

TEST(WorkPool, does_what_is_urgent_first) {
  std::promise<void> begun, go_on, done;
  std::string order;
  WorkPool pool(1, 8);
  pool.post([&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  begun.get_future().wait();
  pool.post([&] {
    order += 'b';
    done.set_value();
  });
  EXPECT_TRUE(pool.post_urgent([&] { order += 'a'; }));
  go_on.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "ab");
}

TEST(WorkPool, survives_a_job_that_throws) {
  std::promise<void> done;
  WorkPool pool(1, 8);
  pool.post([] { throw std::runtime_error("no memory"); });
  pool.post([&] { done.set_value(); });
  done.get_future().wait();
}

TEST(WorkPool, takes_nothing_once_it_is_stopped) {
  WorkPool pool(2, 8);
  pool.stop();
  EXPECT_FALSE(pool.post([] {}));
  EXPECT_FALSE(pool.post_urgent([] {}));
}

}  // namespace
}  // namespace tenon::server
