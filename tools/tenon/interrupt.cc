#include "tools/tenon/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace tenon {
namespace {

volatile sig_atomic_t interrupt_count = 0;

void on_interrupt(int) {
  interrupt_count = interrupt_count + 1;
  if (interrupt_count > 1) ::_exit(130);
}

}  // namespace

void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() {
  return interrupt_count > 0;
}

}  // namespace tenon
