// Rooms that read untrusted input call this at each basic block in builds with tests. Only the test
// of growth counts (counted_work.cc), whose definition goes before this one.
extern "C" {

void __sanitizer_cov_trace_pc();

__attribute__((weak)) void __sanitizer_cov_trace_pc() {}

}  // extern "C"
