// A JSON Schema, whatever it is.
#include "tests/fuzz/grammar_walk.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(json_schema, const uint8_t* data, size_t size) {
  using namespace tenon::grammar;
  compile_and_walk(GrammarKind::json_schema, {reinterpret_cast<const char*>(data), size});
  return 0;
}
