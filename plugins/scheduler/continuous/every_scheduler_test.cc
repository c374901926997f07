#include "tests/support/scheduler_battery.h"

namespace tenon {
namespace {

INSTANTIATE_TEST_SUITE_P(Plugin, EveryScheduler, testing::Values("continuous"), scheduler_name);

}  // namespace
}  // namespace tenon
