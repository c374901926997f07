// The vectors and the 8-bit products of the set that this is compiled for, held against their
// definitions, and the hash of products that sets are compared by (lanes.sh).
#include "tests/isa/set_digest.h"
#include "tests/isa/simd_check.h"
#include "tests/isa/tile_check.h"

int main() {
  tenon::checks::check_simd();
  tenon::checks::check_tiles();
  std::printf("products %016llx\n", static_cast<unsigned long long>(tenon::checks::set_digest()));
  return tenon::checks::result(TENON_TEXT(TENON_INT8_SET));
}
