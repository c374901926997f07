// The adaptors of all interfaces.
#pragma once

#include <tenon/sdk/attention/adaptor.h>
#include <tenon/sdk/drafter/adaptor.h>
#include <tenon/sdk/kv_cache/adaptor.h>
#include <tenon/sdk/kv_store/adaptor.h>
#include <tenon/sdk/linear/adaptor.h>
#include <tenon/sdk/sampler/adaptor.h>
#include <tenon/sdk/scheduler/adaptor.h>
#include <tenon/sdk/state/adaptor.h>
