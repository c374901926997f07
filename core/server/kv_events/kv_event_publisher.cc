#include "core/server/kv_events/kv_event_publisher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "core/base/digest/sha256.h"
#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/threads/start_thread.h"

namespace tenon::server {
namespace {

constexpr size_t kSequenceBytes = 8;
constexpr uint64_t kEndOfReplay = ~uint64_t{0};

std::string big_endian(uint64_t value) {
  std::string bytes(kSequenceBytes, '\0');
  for (size_t i = 0; i < kSequenceBytes; ++i) {
    bytes[i] = static_cast<char>(value >> 8 * (kSequenceBytes - 1 - i));
  }
  return bytes;
}

uint64_t from_big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

double now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

bool is_bound(const std::string& endpoint) {
  return endpoint.find('*') != endpoint.npos || endpoint.find("::") != endpoint.npos ||
         endpoint.starts_with("ipc://");
}

// What somebody elsewhere can do with it: an address of this machine alone is no help.
std::string shown_endpoint(const std::string& asked, const std::string& bound) {
  if (!asked.starts_with("tcp://")) return asked;
  return asked.substr(0, asked.rfind(':')) + bound.substr(bound.rfind(':'));
}

Status check_endpoint(const char* flag, const std::string& endpoint) {
  if (endpoint.starts_with("tcp://") || endpoint.starts_with("ipc://")) return {};
  return invalid_argument(std::string(flag) + " is " + in_quotes(endpoint) +
                          " – expected tcp://*:PORT, tcp://HOST:PORT or ipc://FILE");
}

uint64_t number_of(const std::string& text) {
  const auto hash = sha256(std::as_bytes(std::span(text.data(), text.size())));
  return from_big_endian({reinterpret_cast<const char*>(hash.data()), kSequenceBytes});
}

// Where blocks of tokens are counted. Error: nothing can be told of them.
Result<GroupId> told_group(const ServedModel& model) {
  const Pipeline& pipeline = *model.pipeline;
  const PluginDescriptor& plugin = pipeline.kv_cache.object().descriptor();
  const std::string name = "kv_cache " + in_quotes(plugin.id);
  if (pipeline.kv_cache.object().isolated()) {
    return unsupported("--kv-events: " + name +
                       " runs in a process of its own, which tells nothing of its blocks – leave "
                       "its isolation out");
  }
  if (pipeline.kv_cache.extension<KvEvents>(kKvEvents) == nullptr) {
    return unsupported("--kv-events: " + name +
                       " tells nothing of its blocks – set kv_cache.plugin to \"prefix\" (with its "
                       "whole hash_bits) or \"radix\"");
  }
  const ModelShape& shape = pipeline.shape->shape();
  if (shape.group_count == 0 || shape.groups[shape.ledger_group].kind == KvKind::recurrent) {
    return unsupported("--kv-events: the model " + in_quotes(model.name) +
                       " keeps states and no blocks of tokens, of which there would be nothing to "
                       "publish – leave it out");
  }
  return shape.ledger_group;
}

}  // namespace

KvEventPublisher::KvEventPublisher(KvEventOptions options, const ServedModel& model)
    : options_(std::move(options)), model_(model), numerics_(number_of(model.pipeline->numerics)) {
  constexpr std::string_view kModel = "{model}";
  const size_t at = options_.topic.find(kModel);
  if (at != options_.topic.npos) options_.topic.replace(at, kModel.size(), model.name);
  for (const NamedAdapter& adapter : model.pipeline->config.adapters) {
    naming_.adapters.push_back(adapter.name);
  }
  naming_.form = options_.form;
}

Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::open(KvEventOptions options,
                                                                 const ServedModel& model) {
  TENON_RETURN_IF_ERROR(check_endpoint("--kv-events", options.endpoint));
  if (!options.replay_endpoint.empty()) {
    TENON_RETURN_IF_ERROR(check_endpoint("--kv-events-replay", options.replay_endpoint));
  }
  TENON_ASSIGN_OR_RETURN(const GroupId group, told_group(model));
  std::unique_ptr<KvEventPublisher> made(new KvEventPublisher(std::move(options), model));
  made->group_ = group;
  made->naming_.block_tokens = model.pipeline->geometry.groups[group].block_tokens;
  TENON_RETURN_IF_ERROR(made->open_sockets());
  made->thread_ = start_thread([publisher = made.get()] { publisher->run(); });
  return made;
}

Status KvEventPublisher::open_sockets() {
  const auto most = static_cast<int>(options_.high_water_mark);
  TENON_ASSIGN_OR_RETURN(publisher_, zmq::Socket::open(zmq::Kind::publisher, most));
  if (is_bound(options_.endpoint)) {
    TENON_RETURN_IF_ERROR(publisher_->bind(options_.endpoint));
    options_.endpoint = shown_endpoint(options_.endpoint, publisher_->bound_endpoint());
  } else {
    TENON_RETURN_IF_ERROR(publisher_->connect(options_.endpoint));
  }
  if (!options_.replay_endpoint.empty()) {
    // A peer's reads are told to the sender only after half of them, so that as many may seem to
    // wait again.
    const auto answers = static_cast<int>(2 * (options_.buffer_steps + 1));
    TENON_ASSIGN_OR_RETURN(replay_, zmq::Socket::open(zmq::Kind::router, answers));
    TENON_RETURN_IF_ERROR(replay_->bind(options_.replay_endpoint));
    options_.replay_endpoint = shown_endpoint(options_.replay_endpoint, replay_->bound_endpoint());
  }
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return wake_ >= 0 ? Status() : failed("there is no further file – raise \"ulimit -n\"");
}

KvEventPublisher::~KvEventPublisher() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake();
    thread_.join();
  }
  if (wake_ >= 0) ::close(wake_);
}

void KvEventPublisher::wake() const {
  ::eventfd_write(wake_, 1);
}

void KvEventPublisher::add(std::span<const KvEvent> events) {
  std::vector<KvBatchEvent> told;
  add_events(events, group_, numerics_, cache_salt_of(model_, ""), told);
  for (KvBatchEvent& event : told) name_adapter(event);
  if (!told.empty()) push(std::move(told));
}

// Those that requests loaded are told as the pipeline's: the salt that keeps them apart is ours.
void KvEventPublisher::name_adapter(KvBatchEvent& event) const {
  const uint64_t fixed = naming_.adapters.size();
  if (event.adapter <= fixed || model_.adapters == nullptr) return;
  const auto loaded = model_.adapters->at_place(static_cast<uint32_t>(event.adapter - fixed - 1));
  if (!loaded) return;
  event.adapter_name = loaded->name;
  event.adapter = fixed + loaded->number;
  if (event.salt == cache_salt_of(model_, "", &*loaded)) event.salt = 0;
}

void KvEventPublisher::clear() {
  KvBatchEvent cleared;
  cleared.kind = KvBatchEvent::Kind::cleared;
  push({std::move(cleared)});
}

void KvEventPublisher::push(std::vector<KvBatchEvent> events) {
  bool is_lost = false;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t sequence = next_sequence_++;
    is_lost = queue_.size() >= options_.queue_batches;
    if (!is_lost) queue_.push_back({sequence, {.time_s = now_s(), .events = std::move(events)}});
    if (is_lost && std::exchange(told_of_loss_, true)) return;
  }
  if (is_lost) {
    log(LogLevel::warning, "kv events",
        "the queue is full, and events are lost; subscribers see it by the sequence");
    return;
  }
  wake();
}

void KvEventPublisher::run() {
  for (bool ends = false; !ends;) {
    if (replay_ != nullptr) {
      replay_->wait(wake_);
    } else {
      zmq::Socket::wait_for(wake_);
    }
    eventfd_t count = 0;
    ::eventfd_read(wake_, &count);
    std::deque<Queued> queue;
    {
      const std::lock_guard lock(mutex_);
      queue.swap(queue_);
      ends = stopped_;
    }
    for (const Queued& queued : queue) publish(queued);
    if (replay_ != nullptr) answer_replay();
  }
}

void KvEventPublisher::publish(const Queued& queued) {
  std::string payload = encode_batch(queued.batch, naming_);
  const std::string sequence = big_endian(queued.sequence);
  const std::string_view parts[] = {options_.topic, sequence, payload};
  publisher_->send(parts);
  if (replay_ == nullptr) return;
  kept_.push_back({queued.sequence, std::move(payload)});
  while (kept_.size() > options_.buffer_steps) kept_.pop_front();
}

// A request is [who, "", first sequence]; what else comes is not answered.
void KvEventPublisher::answer_replay() {
  for (auto asked = replay_->receive(); !asked.empty(); asked = replay_->receive()) {
    if (asked.size() != 3 || asked[2].size() != kSequenceBytes) {
      log(LogLevel::warning, "kv events",
          "a replay was asked for in " + std::to_string(asked.size()) +
              " parts – expected the 8 bytes of a sequence after an empty part");
      continue;
    }
    const uint64_t first = from_big_endian(asked[2]);
    for (const Kept& kept : kept_) {
      if (kept.sequence < first) continue;
      const std::string sequence = big_endian(kept.sequence);
      const std::string_view parts[] = {asked[0], "", options_.topic, sequence, kept.payload};
      replay_->send(parts);
    }
    const std::string end = big_endian(kEndOfReplay);
    const std::string_view parts[] = {asked[0], "", "", end, ""};
    replay_->send(parts);
  }
}

}  // namespace tenon::server
