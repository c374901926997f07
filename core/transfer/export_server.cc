#include "core/transfer/export_server.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/base/threads/start_thread.h"

namespace tenon {
namespace {

constexpr size_t kMostSessions = 256;
// How long a sender sleeps at most; everything that it waits for wakes it.
constexpr std::chrono::milliseconds kLongestSleep{500};

// "numerics cpu/x is not numerics cpu/y": the first line that differs.
std::string difference(const std::string& theirs, const std::string& ours) {
  size_t line = 0;
  for (size_t at = 0; at < std::min(theirs.size(), ours.size()) && theirs[at] == ours[at]; ++at) {
    if (ours[at] == '\n') line = at + 1;
  }
  const auto line_of = [line](const std::string& text) {
    if (line >= text.size()) return std::string("nothing");
    return "\"" + text.substr(line, text.find('\n', line) - line) + "\"";
  };
  return line_of(theirs) + " there, " + line_of(ours) + " here";
}

}  // namespace

ExportSession::ExportSession(std::unique_ptr<KvStream> stream, std::shared_ptr<Exports> exports,
                             const TierWorld& world, uint64_t least_part_bytes)
    : stream_(std::move(stream)),
      exports_(std::move(exports)),
      world_(world),
      least_part_bytes_(least_part_bytes) {
  for (const TierGroup& group : world_.groups) (group.is_state ? recurs_ : has_blocks_) = true;
  reader_ = start_thread([this] {
    read();
    stop();
    --threads_;
  });
  try {
    sender_ = start_thread([this] {
      send();
      stop();
      --threads_;
    });
  } catch (...) {
    stop();
    reader_.join();
    throw;
  }
}

ExportSession::~ExportSession() {
  stop();
  reader_.join();
  sender_.join();
}

void ExportSession::stop() {
  if (stopped_.exchange(true)) return;
  stream_->shut_down();
  exports_->note_change();
}

Status ExportSession::greet() {
  TENON_ASSIGN_OR_RETURN(const Frame hello, read_frame(*stream_, 0));
  if (hello.kind != FrameKind::hello) return invalid_argument("it does not begin with a greeting");
  takes_parts_ = (hello.block & kTakesParts) != 0;
  const std::string theirs = read_text(hello.payload);
  const bool same = theirs == world_.text;
  Frame answer;
  answer.kind = same ? FrameKind::welcome : FrameKind::refused;
  if (!same) answer.payload = text_payload(difference(theirs, world_.text));
  TENON_RETURN_IF_ERROR(write_frame(*stream_, answer));
  if (same) return {};
  return unsupported("its K/V are others: " + read_text(answer.payload));
}

Status ExportSession::take(Frame frame) {
  switch (frame.kind) {
    case FrameKind::fetch: {
      TENON_ASSIGN_OR_RETURN(FetchFrame wanted, read_fetch(frame.payload));
      exports_->ask(wanted.transfer, wanted.awaits);
      const std::lock_guard lock(mutex_);
      arrived_.push_back({frame.id, std::move(wanted), 0, 0, {}});
      break;
    }
    case FrameKind::renew: {
      TENON_ASSIGN_OR_RETURN(const std::vector<TransferId> ids, read_ids(frame.payload));
      Frame answer;
      answer.kind = FrameKind::alive;
      answer.payload = ids_payload(exports_->renew(ids));
      const std::lock_guard lock(mutex_);
      replies_.push_back(std::move(answer));
      break;
    }
    case FrameKind::release:
      exports_->end(frame.id);
      return {};
    case FrameKind::cancel: {
      const std::lock_guard lock(mutex_);
      cancelled_.push_back(frame.id);
      break;
    }
    default:
      return invalid_argument("a frame of this kind is never sent here");
  }
  exports_->note_change();
  return {};
}

// The sender begins once the greeting is over: until then this thread writes.
void ExportSession::read() {
  Status status = greet();
  if (status.ok()) {
    const std::lock_guard lock(mutex_);
    replies_.push_back({});  // wakes the sender; it is not sent
  }
  exports_->note_change();
  while (status.ok()) {
    Result<Frame> frame = read_frame(*stream_, 0);
    status = frame.ok() ? take(*std::move(frame)) : frame.take_status();
  }
  if (status.code() != StatusCode::failed && !stopped_) {
    log(LogLevel::warning, "transfer",
        "a worker that asks for K/V is let go: " + message_of(status));
  }
}

bool ExportSession::write(const Frame& frame, std::span<const std::byte> payload) {
  const bool taken = write_frame(*stream_, frame, payload).ok();
  if (!taken) stop();
  return taken;
}

// All of a block's groups, or of its states; false where one is missing.
bool ExportSession::find(const Fetch& fetch, uint32_t block, bool states, std::vector<Frame>& found,
                         std::vector<std::shared_ptr<const KvBlob>>& blobs) {
  const size_t before = found.size();
  for (const TierGroup& group : world_.groups) {
    if (group.is_state != states) continue;
    auto blob = exports_->find(fetch.wanted.transfer, {fetch.wanted.contents[block], group.group});
    if (blob == nullptr) {
      found.resize(before);
      blobs.resize(before);
      return false;
    }
    Frame frame;
    frame.kind = FrameKind::block;
    frame.id = fetch.id;
    frame.block = fetch.wanted.first + block;
    frame.group = group.group;
    found.push_back(std::move(frame));
    blobs.push_back(std::move(blob));
  }
  return true;
}

// What was not sent yet of a block, or a state. `sent`: by groups of the world; empty: nothing was.
bool ExportSession::write_rest(Frame frame, const KvBlob& blob, std::span<const uint64_t> sent) {
  const auto group = std::ranges::find(world_.groups, frame.group, &TierGroup::group);
  if (!sent.empty()) frame.offset = sent[static_cast<size_t>(group - world_.groups.begin())];
  if (frame.offset > 0) frame.kind = FrameKind::part;
  const bool is_left = frame.offset < blob.size();
  if (is_left && !write(frame, std::span(blob).subspan(frame.offset))) return false;
  exports_->count_sent(blob.size() - frame.offset);
  return true;
}

// Of one block what its layers have made so far, where that is worth a frame. `has_begun`: there is
// something of the block.
bool ExportSession::send_parts_of(Fetch& fetch, uint32_t block, bool& has_begun) {
  bool wrote = false;
  for (size_t i = 0; i < world_.groups.size(); ++i) {
    const TierGroup& group = world_.groups[i];
    if (group.is_state) continue;
    const auto part =
        exports_->find_part(fetch.wanted.transfer, {fetch.wanted.contents[block], group.group});
    if (part == nullptr) continue;
    has_begun = true;
    std::vector<uint64_t>& sent = fetch.sent[block];
    sent.resize(world_.groups.size());
    const uint64_t ready = part->ready.load(std::memory_order_acquire);
    if (ready < sent[i] + std::min(least_part_bytes_, (group.bytes + 3) / 4)) continue;
    Frame frame;
    frame.kind = FrameKind::part;
    frame.id = fetch.id;
    frame.block = fetch.wanted.first + block;
    frame.group = group.group;
    frame.offset = sent[i];
    if (!write(frame, std::span(part->bytes).subspan(sent[i], ready - sent[i]))) return false;
    exports_->count_early(ready - sent[i]);
    sent[i] = ready;
    wrote = true;
  }
  return wrote;
}

// Of the next block that has more than was sent: blocks are begun in their order, so the first one
// that is not ends the round.
bool ExportSession::send_part(Fetch& fetch) {
  fetch.look = std::max(fetch.look, fetch.next);
  for (bool has_begun = true; has_begun && fetch.look < fetch.wanted.contents.size();) {
    has_begun = false;
    if (send_parts_of(fetch, fetch.look++, has_begun)) return true;
  }
  fetch.look = 0;
  return false;
}

// Sends the next block where it is there, or some block's part, states behind all blocks; `ended`
// once nothing will come any more. Whether there may be more to send at once.
bool ExportSession::send_some(Fetch& fetch, bool& ended) {
  using State = Exports::State;
  const State state = exports_->state(fetch.wanted.transfer);
  const auto count = static_cast<uint32_t>(fetch.wanted.contents.size());
  std::vector<Frame> frames;
  std::vector<std::shared_ptr<const KvBlob>> blobs;
  std::vector<uint64_t> sent;  // of these blobs
  if (has_blocks_ && fetch.next < count && find(fetch, fetch.next, false, frames, blobs)) {
    sent = std::move(fetch.sent[fetch.next]);
    fetch.sent.erase(fetch.next++);
  } else if (state == State::open && (recurs_ || fetch.next < count)) {
    return takes_parts_ && has_blocks_ && send_part(fetch);
  } else {
    const uint32_t reached = has_blocks_ ? fetch.next : count;
    for (uint32_t block = reached; recurs_ && block-- > 0;) {  // the last one is what matters
      find(fetch, block, true, frames, blobs);
    }
    ended = true;
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    if (!write_rest(std::move(frames[i]), *blobs[i], sent)) return false;
  }
  if (!ended) return true;
  Frame end;
  end.kind = FrameKind::end;
  end.id = fetch.id;
  const bool is_gone = state == State::gone;
  end.block = static_cast<uint32_t>(is_gone ? FetchEnd::gone : FetchEnd::complete);
  return write(end, {});
}

void ExportSession::send() {
  std::vector<Fetch> fetches;
  bool is_greeted = false;
  while (!stopped_) {
    const uint64_t seen = exports_->changes();
    std::deque<Frame> replies;
    {
      const std::lock_guard lock(mutex_);
      replies.swap(replies_);
      std::ranges::move(arrived_, std::back_inserter(fetches));
      arrived_.clear();
      for (const uint64_t id : cancelled_) {
        std::erase_if(fetches, [id](const Fetch& fetch) { return fetch.id == id; });
      }
      cancelled_.clear();
    }
    if (!is_greeted && !replies.empty()) {
      is_greeted = true;
      replies.pop_front();
    }
    bool wrote = !replies.empty();
    for (const Frame& reply : replies) {
      if (!write(reply, reply.payload)) return;
    }
    for (auto fetch = fetches.begin(); fetch != fetches.end() && !stopped_;) {
      bool ended = false;
      if (send_some(*fetch, ended)) wrote = true;
      fetch = ended ? fetches.erase(fetch) : fetch + 1;
    }
    if (!wrote && !stopped_) exports_->wait_for_change(seen, kLongestSleep);
  }
}

ExportServer::ExportServer(std::unique_ptr<KvListener> listener, std::shared_ptr<Exports> exports,
                           const TierWorld& world, uint64_t least_part_bytes)
    : listener_(std::move(listener)),
      exports_(std::move(exports)),
      world_(world),
      least_part_bytes_(least_part_bytes) {
  thread_ = start_thread([this] { accept(); });
}

ExportServer::~ExportServer() {
  listener_->shut_down();
  thread_.join();
}

void ExportServer::accept() {
  while (true) {
    Result<std::unique_ptr<KvStream>> stream = listener_->accept();
    if (!stream.ok()) return;
    sessions_.remove_if([](const ExportSession& session) { return session.has_ended(); });
    if (sessions_.size() >= kMostSessions) continue;
    try {
      sessions_.emplace_back(*std::move(stream), exports_, world_, least_part_bytes_);
    } catch (const std::system_error& error) {
      log(LogLevel::warning, "transfer", std::string("a connection is refused: ") + error.what());
    }
  }
}

}  // namespace tenon
