// The vectors and the 8-bit products of the set that this is compiled for, held against their
// definitions (lanes.sh).
#include "tests/isa/simd_check.h"
#include "tests/isa/tile_check.h"

int main() {
  tenon::checks::check_simd();
  tenon::checks::check_tiles();
  return tenon::checks::result(TENON_TEXT(TENON_INT8_SET));
}
