// What SIGINT, SIGTERM, SIGHUP and SIGQUIT do: end the program at once, with the status that a
// shell gives such an end (130, 143, …) and without leaving unfinished files; or, where a command
// has something to show for what is done so far, ask it to end first.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon {

void watch_interrupts();  // at the start

// A signal asked for the end.
bool interrupted();
// "SIGINT"; empty where none came.
const char* interrupt_name();
// 128 + the signal's number; 0 where none came.
int interrupted_status();

// While it lives, the first signal only asks; a second one ends the program at once. A command that
// has not answered soon, because it is in the middle of a long step, is ended with what `late`
// shows of it.
class GracefulEnd {
 public:
  // `late` runs on a thread of its own, in parallel with the command. False: what is printed must
  // not be touched.
  explicit GracefulEnd(std::function<bool()> late);
  GracefulEnd(const GracefulEnd&) = delete;
  GracefulEnd& operator=(const GracefulEnd&) = delete;
  ~GracefulEnd() { answered(); }

  // The command shows its results itself now: `late` will not run. Also on destruction.
  void answered();

 private:
  void wait_and_end();

  std::function<bool()> late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
  std::thread thread_;
};

// While one lives, SIGINT ends nothing: it is kept until somebody takes it. The third in a row that
// nobody took ends the program at once, as other signals do.
class KeptInterrupts {
 public:
  KeptInterrupts();
  KeptInterrupts(const KeptInterrupts&) = delete;
  KeptInterrupts& operator=(const KeptInterrupts&) = delete;
  ~KeptInterrupts();

  // Whether there was one since the last time.
  static bool take();
};

// While it lives, the first signal is a wish that the command ends when it is done with what it has
// begun: `drain` is called, on a thread of its own, and nothing counts as interrupted. A second
// signal ends the program at once. With `renew`, SIGHUP calls that instead, each time, also on that
// thread.
class DrainOnSignal {
 public:
  explicit DrainOnSignal(std::function<void()> drain, std::function<void()> renew = nullptr);
  DrainOnSignal(const DrainOnSignal&) = delete;
  DrainOnSignal& operator=(const DrainOnSignal&) = delete;
  ~DrainOnSignal();

 private:
  void wait_and_drain();

  std::function<void()> drain_, renew_;
  std::thread thread_;
};

}  // namespace tenon
