#include "tools/tenon/process/interrupt.h"

#include <signal.h>
#include <sys/fcntl.h>
#include <sys/poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "core/base/threads/start_thread.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/process/watchdog.h"

namespace tenon {
namespace {

// A command has this long to end by itself: all of it is over within a second.
constexpr std::chrono::milliseconds kPatience{700};

struct WatchedSignal {
  int number;
  const char* name;
};
constexpr WatchedSignal kSignals[] = {
    {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGQUIT, "SIGQUIT"}};

std::atomic<int> first_signal{0};
std::atomic<bool> graceful{false};
std::atomic<bool> keeps_interrupts{false};
std::atomic<int> kept_interrupts{0};
constexpr int kMostKeptInterrupts = 2;
enum class Drain : int { unwanted, wanted, asked, over };
std::atomic<Drain> draining{Drain::unwanted};
enum class Renewal : int { unwanted, wanted, asked };
std::atomic<Renewal> renewing{Renewal::unwanted};
int wake[2] = {-1, -1};  // a pipe: what a signal handler may use to wake a thread

const char* name_of(int number) {
  for (const WatchedSignal& signal : kSignals) {
    if (signal.number == number) return signal.name;
  }
  return "";
}

constexpr const char* kUnreturned = " did not return\n";

// Async-signal-safe.
[[noreturn]] void end_by(int number) {
  char text[400] = "tenon: ended by ";
  std::strcat(text, name_of(number));
  std::strcat(text, "\n");
  const size_t length = std::strlen(text);
  end_at_once(128 + number,
              {text, length + running_call_line(std::span(text).subspan(length), kUnreturned)});
}

void wake_thread() {
  static_cast<void>(!::write(wake[1], "!", 1));
}

void on_signal(int number) {
  if (number == SIGINT && keeps_interrupts && ++kept_interrupts <= kMostKeptInterrupts) return;
  const int reason = errno;
  if (number == SIGHUP && renewing != Renewal::unwanted) {
    renewing = Renewal::asked;
    wake_thread();
    errno = reason;
    return;
  }
  Drain wanted = Drain::wanted;
  if (draining.compare_exchange_strong(wanted, Drain::asked)) {
    wake_thread();
    errno = reason;
    return;
  }
  int none = 0;
  const bool first = first_signal.compare_exchange_strong(none, number);
  if (!first || !graceful) end_by(number);
  wake_thread();
  errno = reason;
}

}  // namespace

void watch_interrupts() {
  // Without a pipe a signal ends every command at once.
  if (::pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) wake[0] = wake[1] = -1;
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const WatchedSignal& signal : kSignals) {
    struct sigaction before {};
    ::sigaction(signal.number, nullptr, &before);
    // Ignored for us by nohup, or by a shell for a job in the background.
    if (before.sa_handler != SIG_IGN) ::sigaction(signal.number, &action, nullptr);
  }
}

bool interrupted() {
  return first_signal != 0;
}

const char* interrupt_name() {
  return name_of(first_signal);
}

int interrupted_status() {
  return interrupted() ? 128 + first_signal : 0;
}

KeptInterrupts::KeptInterrupts() {
  kept_interrupts = 0;
  keeps_interrupts = true;
}

KeptInterrupts::~KeptInterrupts() {
  keeps_interrupts = false;
}

bool KeptInterrupts::take() {
  return kept_interrupts.exchange(0) > 0;
}

GracefulEnd::GracefulEnd(std::function<bool()> late) : late_(std::move(late)) {
  if (wake[0] < 0) return;
  thread_ = start_thread([this] { wait_and_end(); });
  graceful = true;
}

void GracefulEnd::answered() {
  {
    const std::lock_guard lock(mutex_);
    answered_ = true;
  }
  changed_.notify_all();
  wake_thread();
  if (!thread_.joinable()) return;
  thread_.join();
  // Of a command that is already asked to end, the next signal is the second one.
  graceful = false;
}

void GracefulEnd::wait_and_end() {
  std::unique_lock lock(mutex_);
  while (!answered_ && !interrupted()) {
    lock.unlock();
    pollfd ready{.fd = wake[0], .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, -1);
    char drained[8];
    static_cast<void>(!::read(wake[0], drained, sizeof(drained)));
    lock.lock();
  }
  if (changed_.wait_for(lock, kPatience, [this] { return answered_; })) return;
  const bool shown = late_();
  const int status = shown ? finish_output(interrupted_status()) : interrupted_status();
  char text[300];
  end_at_once(status, {text, running_call_line(text, kUnreturned)});
}

DrainOnSignal::DrainOnSignal(std::function<void()> drain, std::function<void()> renew)
    : drain_(std::move(drain)), renew_(std::move(renew)) {
  if (wake[0] < 0) return;
  draining = Drain::wanted;
  if (renew_) renewing = Renewal::wanted;
  thread_ = start_thread([this] { wait_and_drain(); });
}

DrainOnSignal::~DrainOnSignal() {
  if (!thread_.joinable()) return;
  draining = Drain::over;
  renewing = Renewal::unwanted;
  wake_thread();
  thread_.join();
}

void DrainOnSignal::wait_and_drain() {
  while (draining == Drain::wanted) {
    pollfd ready{.fd = wake[0], .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, -1);
    char drained[8];
    static_cast<void>(!::read(wake[0], drained, sizeof(drained)));
    Renewal asked = Renewal::asked;
    if (renewing.compare_exchange_strong(asked, Renewal::wanted)) renew_();
  }
  if (draining == Drain::asked) drain_();
}

}  // namespace tenon
