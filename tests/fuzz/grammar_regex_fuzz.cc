// A regular expression of a request, whatever it is.
#include "tests/fuzz/grammar_walk.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(grammar_regex, const uint8_t* data, size_t size) {
  using namespace tenon::grammar;
  compile_and_walk(GrammarKind::regex, {reinterpret_cast<const char*>(data), size});
  return 0;
}
