// Ctrl-C: the first one asks for a clean end, the second one ends at once.
#pragma once

namespace tenon {

void watch_interrupts();
bool interrupted();

}  // namespace tenon
