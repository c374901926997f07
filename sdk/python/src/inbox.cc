#include "sdk/python/src/inbox.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace tenon::python {
namespace {

constexpr auto kSignalsWait = std::chrono::milliseconds(50);
// Waking a thread costs the engine's workers more than a hundred microseconds where there is no
// core left for it, so a reader of an answer is woken no more often than this. Models that take
// longer for a token are read token by token.
constexpr auto kShortestGap = std::chrono::milliseconds(10);

std::atomic<unsigned> g_forks = 0;
[[maybe_unused]] const int kCountsForks = pthread_atfork(nullptr, nullptr, [] { ++g_forks; });

// The thread on which the interpreter ends; 0: it does not.
std::atomic<pthread_t> g_leaver = 0;

}  // namespace

void begin_leaving() {
  g_leaver = pthread_self();
}

void stay_if_leaving() {
  const pthread_t leaver = g_leaver;
  if (leaver == 0 || pthread_equal(leaver, pthread_self()) != 0) return;
  for (;;) pause();
}

unsigned forks() {
  return g_forks;
}

Bell::Bell() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Bell::~Bell() {
  close(descriptor_);
}

void Bell::ring(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    rung_.push_back(id);
    if (rung_.size() > 1) return;
  }
  const uint64_t one = 1;
  (void)!write(descriptor_, &one, sizeof(one));
}

std::vector<uint64_t> Bell::take() {
  uint64_t rings = 0;
  const std::lock_guard lock(mutex_);
  (void)!read(descriptor_, &rings, sizeof(rings));
  return std::exchange(rung_, {});
}

void Inbox::add(Piece piece) {
  std::unique_lock lock(mutex_);
  const auto same = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& waiting) {
    return waiting.sample == piece.sample;
  });
  if (same == pieces_.end()) {
    pieces_.push_back(std::move(piece));
  } else {
    same->text += piece.text;
    same->tokens.insert(same->tokens.end(), piece.tokens.begin(), piece.tokens.end());
  }
  tell(lock);
}

void Inbox::end() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  rung_ = false;  // an event loop that lets pieces gather does not wait for the end as well
  end_.notify_all();
  tell(lock);
}

void Inbox::tell(std::unique_lock<std::mutex>& lock) {
  const bool rings = bell_ != nullptr && !rung_;
  rung_ = true;
  lock.unlock();
  news_.notify_all();
  if (rings) bell_->ring(id_);
}

void Inbox::wait_a_little(bool for_the_end) {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  const auto until = Clock::now() + kSignalsWait;
  if (for_the_end) {
    end_.wait_until(lock, until, ended);
  } else {
    // Nobody waits for news meanwhile, so the engine wakes nobody.
    end_.wait_until(lock, taken_at_ + kShortestGap, ended);
    news_.wait_until(lock, until, [this] { return ended_ || !pieces_.empty(); });
  }
}

bool Inbox::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool Inbox::has_news() const {
  const std::lock_guard lock(mutex_);
  return !pieces_.empty();
}

std::vector<Piece> Inbox::take() {
  const std::lock_guard lock(mutex_);
  rung_ = false;
  if (!pieces_.empty()) taken_at_ = Clock::now();
  return std::exchange(pieces_, {});
}

}  // namespace tenon::python
