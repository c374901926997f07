// A GBNF grammar, whatever it is.
#include "tests/fuzz/grammar_walk.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(gbnf, const uint8_t* data, size_t size) {
  using namespace tenon::grammar;
  compile_and_walk(GrammarKind::gbnf, {reinterpret_cast<const char*>(data), size});
  return 0;
}
