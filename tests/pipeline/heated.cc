// A sampler whose requests may carry parameters of a third party.
#include "tests/support/heated_sampler.h"

TENON_PLUGIN_LIBRARY(&tenon::test::kHeated)
