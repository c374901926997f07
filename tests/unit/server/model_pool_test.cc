// Which models are loaded and unloaded, when, and who waits: without engines, and on a memory of
// so many bytes.
#include "core/server/models/model_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>

namespace tenon::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// What became of the pool's models, in order; several threads write to it.
class Diary {
 public:
  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }
  void wait_for(size_t lines) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lines_.size() >= lines; });
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// Holds loads back until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

struct Answer {
  ModelPool::Lease lease;
  std::string problem;
  unsigned status = 200;
};

class ModelPools : public testing::Test {
 protected:
  ModelSource source(const std::string& name, uint64_t bytes,
                     std::chrono::nanoseconds idle = seconds(0)) {
    ModelSource made{.name = name, .idle_unload = idle};
    made.measure = [bytes]() -> Result<ModelNeeds> { return ModelNeeds{.weight_bytes = bytes}; };
    made.load = [this, name, bytes](uint64_t) -> Result<std::unique_ptr<ServedModel>> {
      diary_.write("load " + name);
      auto model = std::make_unique<ServedModel>();
      model->name = name;
      model->weight_bytes = bytes;
      model->holds =
          std::shared_ptr<void>(nullptr, [this, name](void*) { diary_.write("unload " + name); });
      return model;
    };
    return made;
  }
  // With a memory of 100 bytes.
  std::unique_ptr<ModelPool> pool_of(std::vector<ModelSource> sources,
                                     ModelPoolOptions options = {.memory_bytes = 100}) {
    return std::make_unique<ModelPool>(std::move(sources), std::move(options));
  }
  // Waits for the answer.
  static Answer use(ModelPool& pool, const std::string& name) {
    Answer answer;
    Gate gate;
    pool.use(*pool.find(name), [&](api::Outcome<ModelPool::Lease> model) {
      if (model.ok()) {
        answer.lease = std::move(*model);
      } else {
        answer.problem = model.error().message;
        answer.status = model.error().status;
      }
      gate.open();
    });
    gate.pass();
    return answer;
  }
  static ModelState state(ModelPool& pool, const std::string& name) {
    return pool.facts(*pool.find(name)).state;
  }

  Diary diary_;
};

TEST_F(ModelPools, load_a_model_when_it_is_asked_for) {
  std::vector<ModelSource> sources;
  sources.push_back(source("a", 10));
  const auto pool = pool_of(std::move(sources));
  EXPECT_EQ(state(*pool, "a"), ModelState::unloaded);
  EXPECT_EQ(pool->look(*pool->find("a")), nullptr);
  EXPECT_EQ(pool->find("b"), nullptr);
  const Answer first = use(*pool, "a");
  ASSERT_NE(first.lease, nullptr);
  EXPECT_EQ(first.lease->name, "a");
  EXPECT_EQ(use(*pool, "a").lease, first.lease);
  EXPECT_EQ(state(*pool, "a"), ModelState::loaded);
  EXPECT_THAT(diary_.lines(), ElementsAre("load a"));
}

TEST_F(ModelPools, load_once_for_all_that_wait) {
  Gate gate;
  std::vector<ModelSource> sources;
  sources.push_back(source("a", 10));
  sources[0].load = [&gate, load = sources[0].load](uint64_t free) {
    gate.pass();
    return load(free);
  };
  const auto pool = pool_of(std::move(sources));
  std::atomic<int> answered{0};
  Diary done;
  for (int i = 0; i < 20; ++i) {
    pool->use(*pool->find("a"), [&](api::Outcome<ModelPool::Lease> model) {
      answered += model.ok() ? 1 : 0;
      done.write("one");
    });
  }
  gate.open();
  done.wait_for(20);
  EXPECT_EQ(answered, 20);
  EXPECT_THAT(diary_.lines(), ElementsAre("load a"));
}

TEST_F(ModelPools, make_room_by_unloading_what_was_not_used_for_longest) {
  std::vector<ModelSource> sources;
  for (const char* name : {"a", "b", "c"}) sources.push_back(source(name, 50));
  const auto pool = pool_of(std::move(sources));
  use(*pool, "a");
  use(*pool, "b");
  use(*pool, "a");  // so that b is the one
  use(*pool, "c");
  EXPECT_THAT(diary_.lines(), ElementsAre("load a", "load b", "unload b", "load c"));
  EXPECT_EQ(state(*pool, "a"), ModelState::loaded);
  EXPECT_EQ(state(*pool, "b"), ModelState::unloaded);
}

TEST_F(ModelPools, never_unload_what_is_in_use) {
  std::vector<ModelSource> sources;
  for (const char* name : {"a", "b", "c"}) sources.push_back(source(name, 50));
  const auto pool = pool_of(std::move(sources));
  const Answer a = use(*pool, "a");
  use(*pool, "b");
  use(*pool, "c");  // a is older, and in use
  EXPECT_THAT(diary_.lines(), ElementsAre("load a", "load b", "unload b", "load c"));
}

TEST_F(ModelPools, let_a_request_wait_until_a_model_is_not_in_use_any_more) {
  std::vector<ModelSource> sources;
  for (const char* name : {"a", "b"}) sources.push_back(source(name, 60));
  const auto pool = pool_of(std::move(sources));
  Answer a = use(*pool, "a");
  Diary done;
  pool->use(*pool->find("b"), [&](const api::Outcome<ModelPool::Lease>& model) {
    done.write(model.ok() ? "loaded" : model.error().message);
  });
  a.lease.reset();
  done.wait_for(1);
  EXPECT_THAT(done.lines(), ElementsAre("loaded"));
  EXPECT_THAT(diary_.lines(), ElementsAre("load a", "unload a", "load b"));
}

TEST_F(ModelPools, say_who_is_in_use_once_the_wait_is_over) {
  std::vector<ModelSource> sources;
  for (const char* name : {"a", "b"}) sources.push_back(source(name, 60));
  const auto pool = pool_of(std::move(sources), {.memory_bytes = 100, .load_wait = seconds(0)});
  const Answer a = use(*pool, "a");
  const Answer b = use(*pool, "b");
  EXPECT_EQ(b.status, 503u);
  EXPECT_THAT(b.problem, HasSubstr("there is no room for the model 'b': a is in use"));
  EXPECT_THAT(diary_.lines(), ElementsAre("load a"));
}

TEST_F(ModelPools, refuse_what_never_fits_and_unload_nothing_for_it) {
  std::vector<ModelSource> sources;
  sources.push_back(source("a", 50));
  sources.push_back(source("giant", 101));
  const auto pool = pool_of(std::move(sources));
  use(*pool, "a");
  const Answer giant = use(*pool, "giant");
  EXPECT_EQ(giant.status, 503u);
  EXPECT_THAT(giant.problem, HasSubstr("'giant' needs 101 B, and 100 B are free even if"));
  EXPECT_EQ(state(*pool, "a"), ModelState::loaded);
  EXPECT_THAT(pool->facts(*pool->find("giant")).problem, HasSubstr("needs 101 B"));
}

TEST_F(ModelPools, hold_as_many_models_as_they_may) {
  std::vector<ModelSource> sources;
  for (const char* name : {"a", "b"}) sources.push_back(source(name, 1));
  const auto pool = pool_of(std::move(sources), {.memory_bytes = 100, .max_loaded = 1});
  use(*pool, "a");
  use(*pool, "b");
  EXPECT_THAT(diary_.lines(), ElementsAre("load a", "unload a", "load b"));
}

TEST_F(ModelPools, count_shared_weights_once) {
  std::vector<ModelSource> sources;
  for (const char* name : {"a", "b"}) {
    sources.push_back(source(name, 60));
    sources.back().measure = []() -> Result<ModelNeeds> {
      return ModelNeeds{.weights = "the same", .weight_bytes = 60, .least_kv_bytes = 20};
    };
  }
  const auto pool = pool_of(std::move(sources));
  use(*pool, "a");
  use(*pool, "b");
  EXPECT_THAT(diary_.lines(), ElementsAre("load a", "load b"));
}

TEST_F(ModelPools, answer_with_the_reason_where_a_model_cannot_be_loaded) {
  std::vector<ModelSource> sources;
  sources.push_back(source("good", 10));
  sources.push_back(source("bad", 10));
  int tries = 0;
  sources[1].load = [&tries](uint64_t) -> Result<std::unique_ptr<ServedModel>> {
    ++tries;
    return invalid_argument("its file ends early");
  };
  const auto pool = pool_of(std::move(sources));
  use(*pool, "good");
  for (int i = 1; i <= 2; ++i) {
    const Answer bad = use(*pool, "bad");
    EXPECT_EQ(bad.status, 503u);
    EXPECT_EQ(bad.problem, "the model 'bad' cannot be loaded: its file ends early");
    EXPECT_EQ(tries, i);  // it is tried again
  }
  EXPECT_EQ(pool->facts(*pool->find("bad")).problem, "its file ends early");
  EXPECT_EQ(state(*pool, "bad"), ModelState::unloaded);
  EXPECT_NE(use(*pool, "good").lease, nullptr);
}

TEST_F(ModelPools, unload_what_is_idle_for_as_long_as_it_may_be) {
  std::vector<ModelSource> sources;
  sources.push_back(source("short", 10, hours(1)));
  sources.push_back(source("long", 10, hours(3)));
  sources.push_back(source("for ever", 10));
  const auto pool = pool_of(std::move(sources));
  for (const char* name : {"short", "long", "for ever"}) use(*pool, name);
  const auto now = std::chrono::steady_clock::now();
  pool->unload_idle(now + std::chrono::minutes(30));
  EXPECT_EQ(state(*pool, "short"), ModelState::loaded);
  const Answer used = use(*pool, "long");
  pool->unload_idle(now + hours(2));
  EXPECT_EQ(state(*pool, "short"), ModelState::unloaded);
  pool->unload_idle(now + hours(100));
  EXPECT_EQ(state(*pool, "long"), ModelState::loaded);  // in use
  EXPECT_EQ(state(*pool, "for ever"), ModelState::loaded);
}

TEST_F(ModelPools, are_not_kept_loaded_by_who_looks) {
  std::vector<ModelSource> sources;
  sources.push_back(source("a", 10, hours(1)));
  const auto pool = pool_of(std::move(sources));
  use(*pool, "a");
  const auto now = std::chrono::steady_clock::now();
  EXPECT_NE(pool->look(*pool->find("a")), nullptr);
  pool->unload_idle(now + hours(2));
  EXPECT_EQ(state(*pool, "a"), ModelState::unloaded);
}

TEST_F(ModelPools, unload_on_request_what_is_not_in_use_or_kept) {
  std::vector<ModelSource> sources;
  sources.push_back(source("a", 10));
  sources.push_back(source("kept", 10));
  sources[1].keep = true;
  sources[1].loaded = *sources[1].load(0);
  const auto pool =
      pool_of(std::move(sources), {.memory_bytes = 100, .unload_wait = milliseconds(1)});
  const auto unload = [&](const std::string& name) {
    std::string said = "done";
    Gate gate;
    pool->unload(*pool->find(name), [&](const std::optional<api::ApiError>& fault) {
      if (fault) said = std::to_string(fault->status) + " " + fault->message;
      gate.open();
    });
    gate.pass();
    return said;
  };
  Answer a = use(*pool, "a");
  EXPECT_THAT(unload("a"), HasSubstr("409 the model 'a' is in use"));
  a.lease.reset();
  EXPECT_EQ(unload("a"), "done");
  EXPECT_EQ(unload("a"), "done");  // it is not there already
  EXPECT_EQ(state(*pool, "a"), ModelState::unloaded);
  EXPECT_THAT(unload("kept"), HasSubstr("400 the model 'kept' is kept in memory"));
}

TEST_F(ModelPools, unload_on_request_what_is_used_a_moment_longer) {
  std::vector<ModelSource> sources;
  sources.push_back(source("a", 10));
  const auto pool = pool_of(std::move(sources), {.memory_bytes = 100, .unload_wait = hours(1)});
  Answer a = use(*pool, "a");
  Diary done;
  pool->unload(*pool->find("a"), [&](const std::optional<api::ApiError>& fault) {
    done.write(fault ? fault->message : "unloaded");
  });
  EXPECT_THAT(done.lines(), IsEmpty());
  a.lease.reset();
  done.wait_for(1);
  EXPECT_THAT(done.lines(), ElementsAre("unloaded"));
}

TEST_F(ModelPools, tell_who_waits_that_the_server_ends) {
  std::vector<ModelSource> sources;
  for (const char* name : {"a", "b"}) sources.push_back(source(name, 60));
  const auto pool = pool_of(std::move(sources));
  Answer a = use(*pool, "a");
  Diary done;
  pool->use(*pool->find("b"), [&](const api::Outcome<ModelPool::Lease>& model) {
    done.write(model.ok() ? "loaded" : model.error().message);
  });
  pool->stop();
  EXPECT_THAT(done.lines(), ElementsAre("the server ends"));
  EXPECT_EQ(use(*pool, "a").problem, "the server ends");
}

}  // namespace
}  // namespace tenon::server
