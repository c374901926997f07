#include "core/transfer/imports.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/log.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

// Of states there are few on the way of a prompt; what is more is not taken.
constexpr uint64_t kStatesOfAFetch = 2;

using Clock = std::chrono::steady_clock;

}  // namespace

Imports::Imports(const TierWorld& world, std::shared_ptr<KvTransport> transport,
                 uint64_t budget_bytes, std::chrono::nanoseconds lease)
    : world_(world), transport_(std::move(transport)), budget_bytes_(budget_bytes), lease_(lease) {
  for (const TierGroup& group : world_.groups) {
    largest_bytes_ = std::max(largest_bytes_, group.bytes);
    (group.is_state ? state_bytes_ : block_bytes_) += group.bytes;
    if (!group.is_state) ++block_groups_;
  }
}

Imports::~Imports() {
  std::vector<std::unique_ptr<ImportLink>> links;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    links = std::move(broken_);
    for (auto& [address, worker] : workers_) {
      if (worker.link != nullptr) links.push_back(std::move(worker.link));
    }
  }
  for (const auto& link : links) link->shut_down();
}

uint64_t Imports::bytes_of(uint32_t blocks) const {
  return blocks * block_bytes_ + kStatesOfAFetch * state_bytes_;
}

ImportLink& Imports::link_to(const std::string& address, Worker& worker) {
  if (worker.link != nullptr && !worker.link->is_broken()) return *worker.link;
  if (worker.link != nullptr) broken_.push_back(std::move(worker.link));
  worker.link = std::make_unique<ImportLink>(
      transport_, address, world_.text, largest_bytes_, lease_.count(),
      ImportLink::Listener{
          [this](ImportLink& link, Frame frame) { on_frame(link, std::move(frame)); },
          [this](ImportLink& link, const Status& why) { on_broken(link, why); }});
  renew(worker);
  return *worker.link;
}

void Imports::renew(Worker& worker) {
  worker.renewed = Clock::now();
  std::vector<TransferId> ids;
  ids.reserve(worker.holds.size());
  for (const auto& [id, count] : worker.holds) ids.push_back(id);
  for (size_t at = 0; at < ids.size(); at += kMostRenewals) {
    Frame frame;
    frame.kind = FrameKind::renew;
    frame.payload =
        ids_payload(std::span(ids).subspan(at, std::min<size_t>(kMostRenewals, ids.size() - at)));
    worker.link->send(std::move(frame));
  }
}

// By the link that there is, or a new one.
void Imports::reach(const std::string& address, Worker& worker) {
  const bool is_new = worker.link == nullptr || worker.link->is_broken();
  try {
    link_to(address, worker);
    if (!is_new) renew(worker);
  } catch (const std::system_error&) {
    worker.link = nullptr;
  }
}

// A worker that cannot be reached, or a thread that cannot be started, is found out by the fetch.
void Imports::hold(const Place& place) {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  ++totals_.holds;
  Worker& worker = workers_[place.address];
  ++worker.holds[place.transfer];
  try {
    ImportLink& link = link_to(place.address, worker);
    Frame frame;
    frame.kind = FrameKind::renew;
    frame.payload = ids_payload({&place.transfer, 1});
    link.send(std::move(frame));
  } catch (const std::system_error&) {
    worker.link = nullptr;
  }
}

void Imports::release(const Place& place) {
  const std::lock_guard lock(mutex_);
  --totals_.holds;
  const auto worker = workers_.find(place.address);
  if (worker == workers_.end()) return;
  const auto held = worker->second.holds.find(place.transfer);
  if (held == worker->second.holds.end() || --held->second > 0) return;
  worker->second.holds.erase(held);
  if (worker->second.link == nullptr) return;
  Frame frame;
  frame.kind = FrameKind::release;
  frame.id = place.transfer;
  worker->second.link->send(std::move(frame));
}

uint64_t Imports::fetch(const Place& place, uint32_t first,
                        const std::vector<ContentDigest>& contents) {
  const std::lock_guard lock(mutex_);
  const uint64_t room = budget_bytes_ - std::min(budget_bytes_, totals_.under_way_bytes);
  auto count = static_cast<uint32_t>(std::min<size_t>(contents.size() - first, kMostFetchBlocks));
  if (bytes_of(count) > room && totals_.under_way_bytes > 0) return 0;
  while (count > 0 && bytes_of(count) > room) --count;
  const uint64_t id = ++last_id_;
  Fetch& fetch = fetches_[id];
  fetch.place = place;
  fetch.asked = count;
  fetch.heard = Clock::now();
  fetch.found.first = first;
  fetch.found.blocks.assign(count, std::vector<SharedBlob>(world_.groups.size()));
  fetch.groups_there.assign(count, 0);
  if (count == 0 || stop_) return end(fetch), id;
  fetch.held_bytes = bytes_of(count);
  totals_.under_way_bytes += fetch.held_bytes;
  try {
    ImportLink& link = link_to(place.address, workers_[place.address]);
    fetch.link = &link;
    Frame frame;
    frame.kind = FrameKind::fetch;
    frame.id = id;
    frame.payload = fetch_payload({place.transfer,
                                   place.awaits,
                                   first,
                                   {contents.begin() + first, contents.begin() + first + count}});
    link.send(std::move(frame));
    if (link.is_broken()) end(fetch);  // meanwhile
  } catch (const std::system_error&) {
    workers_[place.address].link = nullptr;
    end(fetch);
  }
  return id;
}

std::unique_ptr<FoundKv> Imports::take(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto fetch = fetches_.find(id);
  if (fetch == fetches_.end() || !fetch->second.is_over) return nullptr;
  totals_.under_way_bytes -= fetch->second.held_bytes;
  auto found = std::make_unique<FoundKv>(std::move(fetch->second.found));
  fetches_.erase(fetch);
  return found;
}

void Imports::abandon(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto fetch = fetches_.find(id);
  if (fetch == fetches_.end()) return;
  const auto worker = workers_.find(fetch->second.place.address);
  if (!fetch->second.is_over && worker != workers_.end() && worker->second.link != nullptr) {
    Frame frame;
    frame.kind = FrameKind::cancel;
    frame.id = id;
    worker->second.link->send(std::move(frame));
  }
  totals_.under_way_bytes -= fetch->second.held_bytes;
  fetches_.erase(fetch);
}

bool Imports::wait_for_any(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return answered_.wait_for(lock, timeout, [this] {
    return std::ranges::any_of(fetches_, [](const auto& fetch) { return fetch.second.is_over; });
  });
}

// The leading blocks that are whole, and where layers recur, those before the last state.
void Imports::end(Fetch& fetch) {
  if (std::exchange(fetch.is_over, true)) return;
  FoundKv& found = fetch.found;
  uint32_t there = 0;
  while (there < fetch.asked && fetch.groups_there[there] == block_groups_) ++there;
  if (state_bytes_ > 0) {
    std::erase_if(found.states, [&](const auto& states) {
      const bool lacks = std::ranges::any_of(world_.groups, [&](const TierGroup& group) {
        const size_t index = static_cast<size_t>(&group - world_.groups.data());
        return group.is_state && !states.second[index].has_value();
      });
      return lacks || states.first > found.first + there;
    });
    there = 0;
    for (const auto& [end, blobs] : found.states) there = std::max(there, end - found.first);
  }
  found.blocks.resize(there);
  found.end = found.first + there;
  ++(there == fetch.asked ? totals_.complete : totals_.partial);
  answered_.notify_all();
}

Imports::Fetch* Imports::with(std::unordered_map<uint64_t, Fetch>& fetches, uint64_t id,
                              const ImportLink& link) {
  const auto fetch = fetches.find(id);
  const bool is_its = fetch != fetches.end() && fetch->second.link == &link;
  return is_its && !fetch->second.is_over ? &fetch->second : nullptr;
}

// Parts come in their order. Whether this was the last one of a block.
bool Imports::take_part(Fetch& fetch, size_t place, uint64_t bytes, const Frame& frame,
                        SharedBlob& blob) {
  if (blob.has_value()) return false;
  const auto begun = fetch.growing.find(place);
  const uint64_t came = begun == fetch.growing.end() ? 0 : begun->second.came;
  const uint64_t size = frame.payload.size();
  if (frame.offset != came || size == 0 || size > bytes - came) return false;
  Fetch::Growing& growing = fetch.growing[place];
  growing.blob.resize(bytes);
  std::ranges::copy(frame.payload,
                    growing.blob.begin() + static_cast<std::ptrdiff_t>(growing.came));
  growing.came += size;
  fetch.heard = Clock::now();
  totals_.received_bytes += size;
  if (growing.came < bytes) return false;
  blob = std::move(growing.blob);
  fetch.growing.erase(place);
  return true;
}

// What was not asked for is dropped.
void Imports::take_block(const ImportLink& link, Frame frame) {
  const std::lock_guard lock(mutex_);
  Fetch* const fetch = with(fetches_, frame.id, link);
  const auto group = std::ranges::find(world_.groups, frame.group, &TierGroup::group);
  if (fetch == nullptr || group == world_.groups.end()) return;
  const bool is_part = frame.kind == FrameKind::part;
  if (is_part ? group->is_state : frame.payload.size() != group->bytes) return;
  if (frame.block < fetch->found.first || frame.block - fetch->found.first >= fetch->asked) return;
  const auto index = static_cast<size_t>(group - world_.groups.begin());
  const uint32_t block = frame.block - fetch->found.first;
  std::vector<SharedBlob>* blobs = &fetch->found.blocks[block];
  if (group->is_state) {
    const bool is_new = !fetch->found.states.contains(frame.block + 1);
    if (is_new && fetch->found.states.size() >= kStatesOfAFetch) return;
    blobs = &fetch->found.states[frame.block + 1];
    blobs->resize(world_.groups.size());
  }
  SharedBlob& blob = (*blobs)[index];
  const size_t place = block * world_.groups.size() + index;
  if (is_part) {
    if (!take_part(*fetch, place, group->bytes, frame, blob)) return;
  } else {
    const bool has_begun = !group->is_state && fetch->growing.contains(place);
    if (blob.has_value() || has_begun) return;
    blob = std::move(frame.payload);
    totals_.received_bytes += group->bytes;
  }
  if (!group->is_state) ++fetch->groups_there[block];
  fetch->found.bytes += group->bytes;
  fetch->heard = Clock::now();
  ++totals_.received_blocks;
}

void Imports::on_frame(const ImportLink& link, Frame frame) {
  const bool has_bytes = frame.kind == FrameKind::block || frame.kind == FrameKind::part;
  if (has_bytes) return take_block(link, std::move(frame));
  const std::lock_guard lock(mutex_);
  if (frame.kind == FrameKind::end) {
    if (Fetch* const fetch = with(fetches_, frame.id, link)) end(*fetch);
    return;
  }
  if (frame.kind != FrameKind::alive) return;
  const auto ids = read_ids(frame.payload);
  if (!ids.ok()) return;
  const std::unordered_set<TransferId> alive(ids->begin(), ids->end());
  for (auto& [id, fetch] : fetches_) {
    if (fetch.link == &link && alive.contains(fetch.place.transfer)) fetch.heard = Clock::now();
  }
}

void Imports::on_broken(const ImportLink& link, const Status& why) {
  const std::lock_guard lock(mutex_);
  bool missed = false;
  for (auto& [id, fetch] : fetches_) {
    if (fetch.link != &link || fetch.is_over) continue;
    missed = true;
    end(fetch);
  }
  const auto worker = workers_.find(link.address());
  const bool is_needed = worker != workers_.end() && !worker->second.holds.empty();
  if (stop_ || !(missed || is_needed)) return;
  ++totals_.lost_links;
  const std::string fault = message_of(why);
  if (worker != workers_.end() && std::exchange(worker->second.told, fault) == fault) return;
  log(LogLevel::warning, "transfer",
      "no K/V comes from " + in_quotes(link.address()) + ", prompts are computed here: " + fault);
}

void Imports::tick() {
  const std::lock_guard lock(mutex_);
  const Time now = Clock::now();
  for (auto& [id, fetch] : fetches_) {
    if (!fetch.is_over && now - fetch.heard > lease_) end(fetch);
  }
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    Worker& at = worker->second;
    const bool is_broken = at.link == nullptr || at.link->is_broken();
    if (is_broken && at.link != nullptr) broken_.push_back(std::move(at.link));
    if (!at.holds.empty() && now - at.renewed > lease_ / 3) reach(worker->first, at);
    worker = is_broken && at.holds.empty() ? workers_.erase(worker) : std::next(worker);
  }
  // Their threads are done, so nobody waits for them.
  std::erase_if(broken_, [](const auto& link) { return link->is_over(); });
}

void Imports::count_found(uint64_t tokens) {
  const std::lock_guard lock(mutex_);
  totals_.found_tokens += tokens;
}

ImportTotals Imports::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace tenon
