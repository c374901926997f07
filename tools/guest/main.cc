// tenon-guest: the process that a plugin has to itself (docs/guard.md). tenon starts it.
#include "core/isolation/guest/guest.h"

int main() {
  return tenon::run_guest();
}
