// A scheduler that is sound and does nothing, for libraries whose fault lies elsewhere.
#pragma once

#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>

namespace tenon {

class GrantsNothing : public Scheduler {
 public:
  virtual ~GrantsNothing() = default;
  GrantsNothing(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  Status on_event(const SequenceEvent&) noexcept override { return {}; }
  Status plan(const SchedulerView&, KvLedger&, PlanOut&) noexcept override { return {}; }
};

constexpr PluginDescriptor named(std::string_view id) {
  PluginDescriptor base;
  base.id = id;
  base.version = "1.0.0";
  base.summary = "grants nothing";
  base.license = "Apache-2.0";
  return base;
}

}  // namespace tenon
