#include "tools/tenon/process/watchdog.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/calls/running_calls.h"
#include "core/base/files/new_file.h"
#include "core/base/log.h"
#include "core/base/threads/start_thread.h"
#include "tools/tenon/process/interrupt.h"

namespace tenon {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLate = 10 * kSecond;
constexpr int64_t kAfterInterrupt = kSecond * 3 / 2;

// Set when the command is done: what is left is to give back what it used.
std::atomic<bool> command_done{false};

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// For threads and signal handlers alike.
void say_now(std::string_view text) {
  static_cast<void>(::write(STDERR_FILENO, text.data(), text.size()) < 0);
}

// What was printed is out before plugins are destroyed (pipeline_flags.h).
[[noreturn]] void end_because(int status, const std::string& why) {
  end_at_once(status, "tenon: " + why + "\n");
}

bool destroys(const char* name) {
  return std::string_view(name).starts_with("destroy of ");
}

class Watchdog {
 public:
  void look(int64_t now) {
    watch_.look(now);
    const CallWatch::Late late = watch_.latest(kAfterInterrupt);
    if (interrupted() && interrupted_ns_ < 0) interrupted_ns_ = now;
    if (command_done.load() && done_ns_ < 0) done_ns_ = now;
    if (late.name != nullptr) look_at(late, now);
    if (done_ns_ >= 0 && now - done_ns_ >= kLate) {
      end_because(1,
                  "a plugin's library or its threads keep the program from ending – the results "
                  "are complete");
    }
  }

 private:
  void look_at(const CallWatch::Late& late, int64_t now) {
    const std::string call(late.name);
    const std::string seconds = std::to_string(late.running_ns / kSecond) + " s";
    if (interrupted_ns_ >= 0 && now - interrupted_ns_ >= kAfterInterrupt) {
      end_because(interrupted_status(), "interrupted: " + call + " did not return in " + seconds);
    }
    if (late.running_ns < kLate) {
      told_ns_ = 0;
      return;
    }
    if (destroys(late.name)) {
      end_because(1, call + " did not return in " + seconds + " – the results are complete");
    }
    if (late.running_ns < told_ns_ * 6) return;
    told_ns_ = late.running_ns;
    log(LogLevel::warning, "watchdog",
        call + " has not returned for " + seconds + " – an interrupt (Ctrl-C) ends the program");
  }

  CallWatch watch_;
  int64_t interrupted_ns_ = -1;
  int64_t done_ns_ = -1;
  int64_t told_ns_ = 0;
};

void watch() {
  static Watchdog* const kWatchdog = new Watchdog;  // outlives everything
  for (;;) {
    std::this_thread::sleep_for(kLook);
    kWatchdog->look(now_ns());
  }
}

}  // namespace

namespace {

using NamesCalls = size_t (*)(char* text, size_t room) noexcept;

// `head`, calls and `what`; 0 where there is no call, or no room.
size_t line_with(NamesCalls names, std::span<char> room, std::string_view head,
                 std::string_view what) noexcept {
  if (room.size() < head.size() + what.size()) return 0;
  std::memcpy(room.data(), head.data(), head.size());
  const size_t calls = names(room.data() + head.size(), room.size() - head.size() - what.size());
  if (calls == 0) return 0;
  std::memcpy(room.data() + head.size() + calls, what.data(), what.size());
  return head.size() + calls + what.size();
}

}  // namespace

size_t running_call_line(std::span<char> room, std::string_view what) noexcept {
  return line_with(running_calls, room, "tenon: ", what);
}

size_t crash_line_outside_of_calls(std::span<char> room) noexcept {
  const size_t length = line_with(
      last_call, room, "tenon: the program crashed outside of plugins; the last call was ",
      ", which may have written beyond its room – try engine.guard = \"checks\", and tenon plugins "
      "check\n");
  if (length > 0) return length;
  constexpr std::string_view kBare = "tenon: the program crashed; no plugin had been called\n";
  const size_t bare = std::min(room.size(), kBare.size());
  std::memcpy(room.data(), kBare.data(), bare);
  return bare;
}

void end_at_once(int status, std::string_view text) noexcept {
  remove_unfinished();
  say_now(text);
  ::_exit(status);
}

namespace {

// False where none runs.
bool name_running_call(std::string_view what) {
  char text[300];
  const size_t length = running_call_line(text, what);
  say_now({text, length});
  return length > 0;
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}
// Whether the address that could not be reached lies where the thread's stack would go on.
bool stack_ran_out(int signal, const siginfo_t& info, [[maybe_unused]] const ucontext_t& at) {
  constexpr uintptr_t kNear = uintptr_t{1} << 16;
#if defined(__x86_64__)
  const auto stack = static_cast<uintptr_t>(at.uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  const auto stack = static_cast<uintptr_t>(at.uc_mcontext.sp);
#else
  const uintptr_t stack = UINTPTR_MAX;
#endif
  if (signal != SIGSEGV || info.si_code <= 0) return false;  // or somebody sent it
  const auto address = reinterpret_cast<uintptr_t>(info.si_addr);
  return address > stack - kNear && address < stack + kNear;
}
// Whether the processor does not know the instruction; a compiler's own trap is one that none
// knows.
bool lacks_instruction(int signal, const siginfo_t& info) {
  if (signal != SIGILL || info.si_code <= 0) return false;
#if defined(__x86_64__)
  constexpr unsigned char kTrap[] = {0x0f, 0x0b};  // ud2
  return std::memcmp(info.si_addr, kTrap, sizeof(kTrap)) != 0;
#else
  return true;
#endif
}
std::string_view how_it_crashed(int signal, const siginfo_t& info, const ucontext_t& at) {
  if (stack_ran_out(signal, info, at)) {
    return " crashed: its thread's stack ran out – recursion needs a bound, and large arrays "
           "belong "
           "into memory that is kept\n";
  }
  if (lacks_instruction(signal, info)) {
    return " crashed: this processor lacks an instruction of its code – compile it for this "
           "processor, or for all (without -march)\n";
  }
  return " crashed\n";
}
void on_crash(int signal, siginfo_t* info, void* context) {
  const auto& at = *static_cast<const ucontext_t*>(context);
  if (!name_running_call(how_it_crashed(signal, *info, at))) {
    char text[400];
    say_now({text, crash_line_outside_of_calls(text)});
  }
  end_by(signal);
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  ::sigaction(signal, &action, nullptr);
}

// Sanitizers have handlers of their own, which say more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void handle_crashes() {
  if (kSanitized) return;
  // A stack of its own: it may be the stack that has run out.
  static char stack[1 << 16];
  const stack_t own{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof(stack)};
  ::sigaltstack(&own, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    handle(signal, on_crash, SA_ONSTACK | SA_NODEFER);
  }
}

// Somebody called exit who has no right to: the results are not complete.
void on_exit() {
  if (command_done.load()) return;
  name_running_call(" ended the program\n");
  ::_exit(1);
}

}  // namespace

void start_watchdog() {
  handle_crashes();
  std::atexit(on_exit);
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the other threads
  start_thread(watch).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

int end_of_program(int status) {
  command_done = true;
  return status;
}

}  // namespace tenon
