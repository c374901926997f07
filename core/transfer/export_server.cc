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
                             const TierWorld& world)
    : stream_(std::move(stream)), exports_(std::move(exports)), world_(world) {
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
      arrived_.push_back({frame.id, std::move(wanted), 0});
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

// Sends the next block where it is there, states behind all blocks; `ended` once nothing will come
// any more. Whether there may be more to send at once.
bool ExportSession::send_some(Fetch& fetch, bool& ended) {
  using State = Exports::State;
  const State state = exports_->state(fetch.wanted.transfer);
  const auto count = static_cast<uint32_t>(fetch.wanted.contents.size());
  std::vector<Frame> frames;
  std::vector<std::shared_ptr<const KvBlob>> blobs;
  if (has_blocks_ && fetch.next < count && find(fetch, fetch.next, false, frames, blobs)) {
    ++fetch.next;
  } else if (state == State::open && (recurs_ || fetch.next < count)) {
    return false;
  } else {
    const uint32_t reached = has_blocks_ ? fetch.next : count;
    for (uint32_t block = reached; recurs_ && block-- > 0;) {  // the last one is what matters
      find(fetch, block, true, frames, blobs);
    }
    ended = true;
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    if (!write(frames[i], *blobs[i])) return false;
    exports_->count_sent(blobs[i]->size());
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
                           const TierWorld& world)
    : listener_(std::move(listener)), exports_(std::move(exports)), world_(world) {
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
      sessions_.emplace_back(*std::move(stream), exports_, world_);
    } catch (const std::system_error& error) {
      log(LogLevel::warning, "transfer", std::string("a connection is refused: ") + error.what());
    }
  }
}

}  // namespace tenon
