// Publishes what comes into a model's prefix cache and goes, over ZeroMQ, as vLLM does:
//
//   [step]  add()  →  queue  →  a thread of its own: PUB [topic, sequence, batch], ROUTER for
//                               subscribers that missed some
//
// The step thread never waits. Sequences count from 0, 8 bytes, the highest first. A batch that the
// queue has no room for leaves a gap, by which subscribers see that they missed something.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/result.h"
#include "core/server/kv_events/kv_event_batch.h"
#include "core/server/kv_events/zmq.h"
#include "core/server/models/served_model.h"

namespace tenon::server {

struct KvEventOptions {
  // "tcp://*:5557" is bound, since it has a "*" in it; so is what has "::", and "ipc://…". Others
  // ("tcp://router:5557") are connected to.
  std::string endpoint;
  std::string replay_endpoint = {};  // bound; empty: nobody can ask again
  std::string topic = {};            // "{model}" in it becomes the model's name
  KvEventForm form = KvEventForm::maps;
  uint32_t buffer_steps = 10000;      // batches that can be asked for again
  uint32_t queue_batches = 100000;    // that wait for the thread
  uint32_t high_water_mark = 100000;  // that wait for a subscriber
};

class KvEventPublisher {
 public:
  // `model` is borrowed; its host need not be there yet. Errors: its manager tells nothing of its
  // blocks, or ZeroMQ is not there or cannot have the endpoints.
  static Result<std::unique_ptr<KvEventPublisher>> open(KvEventOptions options,
                                                        const ServedModel& model);
  // What was added is published before.
  ~KvEventPublisher();
  KvEventPublisher(const KvEventPublisher&) = delete;
  KvEventPublisher& operator=(const KvEventPublisher&) = delete;

  void add(std::span<const KvEvent> events);  // [step]
  // Nothing that was stored is found any more. [any thread]
  void clear();

  // As they are: with the port that was free, and the topic of the model.
  const KvEventOptions& options() const { return options_; }
  const ServedModel& model() const { return model_; }

 private:
  struct Queued {
    uint64_t sequence = 0;
    KvBatch batch;
  };
  struct Kept {
    uint64_t sequence = 0;
    std::string payload;
  };
  KvEventPublisher(KvEventOptions options, const ServedModel& model);
  Status open_sockets();
  void name_adapter(KvBatchEvent& event) const;
  void push(std::vector<KvBatchEvent> events);
  void run();
  void publish(const Queued& queued);
  void answer_replay();
  void wake() const;

  KvEventOptions options_;
  const ServedModel& model_;
  GroupId group_ = 0;
  uint64_t numerics_ = 0;
  KvEventNaming naming_;
  std::unique_ptr<zmq::Socket> publisher_, replay_;
  int wake_ = -1;  // an eventfd

  std::mutex mutex_;
  std::deque<Queued> queue_;
  uint64_t next_sequence_ = 0;
  bool told_of_loss_ = false;
  bool stopped_ = false;

  std::deque<Kept> kept_;  // the thread's
  std::thread thread_;
};

}  // namespace tenon::server
