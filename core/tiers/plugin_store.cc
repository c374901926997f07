#include "core/tiers/plugin_store.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/digest/sha256.h"
#include "core/base/log.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// How long a read is waited for, and for any answer while writes are under way; whoever waits for
// K/V computes them long before.
constexpr int64_t kAnswerNs = 2 * kSecondNs;
constexpr int64_t kRestNs = 30 * kSecondNs;
// Requests that are begun before anybody asks: so many round trips become one.
constexpr size_t kLooksAhead = 128, kReadsAhead = 16;
// Of values on their way into the store.
constexpr uint64_t kMostPutBytes = uint64_t{64} << 20;
constexpr size_t kAnswers = 64;  // taken at once

KvStoreKey store_key(const KvKey& key) {
  KvStoreKey made;
  std::ranges::copy(key.content, made.content);
  made.group = key.group;
  return made;
}

}  // namespace

PluginStore::PluginStore(std::string name, std::shared_ptr<KvStore> store, const std::string& world,
                         const Clock& clock)
    : name_(std::move(name)),
      world_(sha256(std::as_bytes(std::span(world)))),
      clock_(clock),
      store_(std::move(store)) {}

bool PluginStore::owes_answers() const {
  return std::ranges::any_of(requests_, [](const auto& one) { return !one.second.is_answered; });
}

// After a fault: once the rest is over, and nothing is owed of the time before it.
bool PluginStore::is_usable() {
  if (is_lost_) return false;
  if (resting_until_ns_ == 0) return true;
  if (owes_answers()) take_answers(0);
  if (is_lost_ || owes_answers() || clock_.now_ns() < resting_until_ns_) return false;
  resting_until_ns_ = 0;
  return true;
}

// What was asked for is not waited for any more; its memory stays lent until it is answered.
void PluginStore::rest(const std::string& why) {
  count([](KvStoreTotals& totals) { ++totals.faults; });
  if (resting_until_ns_ == 0) {
    log(LogLevel::warning, "kv_cache",
        "the tier " + in_quotes(name_) + " is asked for no K/V for 30 s: " + why);
  }
  resting_until_ns_ = clock_.now_ns() + kRestNs;
  for (auto& [id, request] : requests_) request.is_wanted = false;
  std::erase_if(requests_, [](const auto& one) { return one.second.is_answered; });
  looked_for_.clear();
  begun_.clear();
  put_bytes_ = 0;
}

void PluginStore::give_up(const Status& why) {
  rest(message_of(why));
  is_lost_ = true;
  log(LogLevel::error, "kv_cache",
      "the tier " + in_quotes(name_) + " is not used any more: " + message_of(why));
}

void PluginStore::add(KvStoreVerb verb, const KvKey& key, std::vector<std::byte> bytes) {
  if (!owes_answers()) heard_ns_ = clock_.now_ns();
  const uint64_t id = ++last_id_;
  if (verb == KvStoreVerb::has) looked_for_[key] = id;
  if (verb == KvStoreVerb::get) begun_[key] = id;
  Request request{verb, key, std::move(bytes), clock_.now_ns()};
  request.is_wanted = verb == KvStoreVerb::has || verb == KvStoreVerb::get;
  requests_.emplace(id, std::move(request));
  unsent_.push_back(id);
}

bool PluginStore::submit() {
  std::vector<KvStoreRequest> all;
  for (const uint64_t id : std::exchange(unsent_, {})) {
    Request& request = requests_.at(id);
    KvStoreRequest& made = all.emplace_back();
    made.id = id;
    made.verb = request.verb;
    made.key = store_key(request.key);
    if (request.verb == KvStoreVerb::put) made.value = request.bytes;
    if (request.verb == KvStoreVerb::get) made.room = request.bytes;
  }
  if (all.empty()) return true;
  const Status status = store_->submit(all);
  if (status.ok()) return true;
  for (const KvStoreRequest& refused : all) requests_.erase(refused.id);
  rest(message_of(status));
  return false;
}

void PluginStore::take_answer(const KvStoreAnswer& answer) {
  const auto found = requests_.find(answer.id);
  if (found == requests_.end()) return;
  Request& request = found->second;
  const StatusCode code = answer.status.code();
  const bool is_fault = code != StatusCode::ok && code != StatusCode::not_found;
  if (request.verb == KvStoreVerb::put) {
    put_bytes_ -= std::min<uint64_t>(put_bytes_, request.bytes.size());
    if (is_fault) kept_.erase(request.key);
  }
  request.is_answered = true;
  request.code = code;
  request.value_bytes = answer.bytes;
  if (!request.is_wanted) requests_.erase(found);
  if (is_fault && resting_until_ns_ == 0) rest(message_of(answer.status));
}

void PluginStore::take_answers(int64_t wait_ns) {
  std::array<KvStoreAnswer, kAnswers> room;
  KvStoreAnswersOut out{room, 0};
  if (const Status status = store_->collect(wait_ns, out); !status.ok()) return give_up(status);
  if (out.count > 0) heard_ns_ = clock_.now_ns();
  for (const KvStoreAnswer& answer : std::span(room).first(out.count)) take_answer(answer);
}

// Some answers, if they come in time after `since_ns`; false: the store rests.
bool PluginStore::await_some(int64_t since_ns) {
  const int64_t left_ns = since_ns + kAnswerNs - clock_.now_ns();
  if (left_ns <= 0) {
    rest("it gave no answer within 2 s");
    return false;
  }
  take_answers(left_ns);
  return resting_until_ns_ == 0;
}

std::optional<PluginStore::Request> PluginStore::answer_about(Asked& asked, const KvKey& key) {
  while (true) {
    const auto id = asked.find(key);
    if (id == asked.end()) return std::nullopt;
    const auto request = requests_.find(id->second);
    if (request != requests_.end() && request->second.is_answered) {
      Request answered = std::move(request->second);
      requests_.erase(request);
      asked.erase(id);
      return answered;
    }
    const int64_t since_ns = request == requests_.end() ? 0 : request->second.since_ns;
    if (!await_some(since_ns)) return std::nullopt;
  }
}

void PluginStore::ask_ahead(KvStoreVerb verb, const KvWanted& first) {
  const bool reads = verb == KvStoreVerb::get;
  Asked& asked = reads ? begun_ : looked_for_;
  const size_t most = reads ? kReadsAhead : kLooksAhead;
  const auto ask = [&](const KvWanted& wanted) {
    const uint64_t room = reads ? kKvHeaderBytes + wanted.bytes : 0;
    if (!asked.contains(wanted.key)) add(verb, wanted.key, std::vector<std::byte>(room));
  };
  const auto place = places_.find(first.key);
  if (!asked.contains(first.key) || reads) {
    ask(first);
    for (size_t i = place == places_.end() ? ahead_.size() : place->second;
         i < ahead_.size() && asked.size() < most; ++i) {
      if (reads || !kept_.contains(ahead_[i].key)) ask(ahead_[i]);
    }
  }
  (void)submit();
}

void PluginStore::forget_asked(Asked& asked) {
  for (const auto& [key, id] : asked) {
    const auto request = requests_.find(id);
    if (request == requests_.end()) continue;
    request->second.is_wanted = false;
    if (request->second.is_answered) requests_.erase(request);
  }
  asked.clear();
}

void PluginStore::look_ahead(std::span<const KvWanted> wanted) {
  forget_asked(looked_for_);
  forget_asked(begun_);
  ahead_.assign(wanted.begin(), wanted.end());
  places_.clear();
  for (size_t i = 0; i < ahead_.size(); ++i) places_.emplace(ahead_[i].key, i);
}

bool PluginStore::has(const KvKey& key) {
  if (!is_usable()) return false;
  if (kept_.contains(key)) return true;
  ask_ahead(KvStoreVerb::has, {key, 0});
  const std::optional<Request> answer = answer_about(looked_for_, key);
  return answer && answer->code == StatusCode::ok;
}

SharedBlob PluginStore::read(const KvKey& key, uint64_t bytes) {
  if (!is_usable()) return std::nullopt;
  ask_ahead(KvStoreVerb::get, {key, bytes});
  std::optional<Request> answer = answer_about(begun_, key);
  if (!answer || answer->code != StatusCode::ok) {
    kept_.erase(key);
    return std::nullopt;
  }
  std::vector<std::byte>& file = answer->bytes;
  const bool fits = answer->value_bytes == file.size();
  const auto payload = kv_payload(file, key, world_);
  if (fits && payload.ok() && payload->size() == bytes) {
    kept_.insert(key);
    return blob_of(*payload);
  }
  kept_.erase(key);
  if (fits && !payload.ok() && payload.status().code() == StatusCode::unsupported) {
    return std::nullopt;  // of another version, whole
  }
  count([](KvStoreTotals& totals) { ++totals.damaged; });
  add(KvStoreVerb::remove, key, {});
  (void)submit();
  return std::nullopt;
}

Status PluginStore::write(const KvKey& key, const SharedBlob& blob) {
  if (!is_usable()) return failed("the store rests after a fault");
  if (kept_.contains(key)) return {};
  const KvHeader header = kv_header(key, world_, blob.bytes());
  std::vector<std::byte> file;
  file.reserve(header.size() + blob.size());
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), blob.bytes().begin(), blob.bytes().end());
  const uint64_t size = file.size();
  while (put_bytes_ > 0 && put_bytes_ + size > kMostPutBytes) {
    if (!await_some(heard_ns_)) return failed("the store rests after a fault");
  }
  put_bytes_ += size;
  kept_.insert(key);
  add(KvStoreVerb::put, key, std::move(file));
  if (submit()) return {};
  kept_.erase(key);
  return failed("the store refused it");
}

bool PluginStore::tend(int64_t wait_ns) {
  if (is_lost_ || resting_until_ns_ != 0 || !owes_answers()) return false;
  if (clock_.now_ns() - heard_ns_ > kAnswerNs) {
    rest("it gave no answer within 2 s");
    return false;
  }
  take_answers(wait_ns);
  return !is_lost_ && resting_until_ns_ == 0 && owes_answers();
}

KvStoreTotals PluginStore::totals() const {
  const KvStoreUsage usage = store_->usage();
  const std::lock_guard lock(mutex_);
  KvStoreTotals all = totals_;
  all.held_bytes = usage.held_bytes;
  all.evicted_bytes = usage.evicted_bytes;
  return all;
}

}  // namespace tenon
