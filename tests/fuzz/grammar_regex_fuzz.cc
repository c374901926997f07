// A regular expression of a request, whatever it is.
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon::grammar;
  compile_and_walk(GrammarKind::regex, {reinterpret_cast<const char*>(data), size});
  return 0;
}
