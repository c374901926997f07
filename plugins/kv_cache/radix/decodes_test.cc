#include "tests/support/attention/kv_decodes_battery.h"

namespace tenon::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Plugin, EveryKvDecodes, testing::Values("radix"));

}  // namespace
}  // namespace tenon::test
