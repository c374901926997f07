// Counts allocations of a test program that uses it: operator new is replaced there.
#pragma once

#include <cstdint>

namespace tenon::test {

// Calls of operator new so far, on all threads.
uint64_t allocation_count();
// False where a sanitizer does not let them be counted; the count stays 0 then.
bool counts_allocations();

}  // namespace tenon::test
