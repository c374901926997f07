// A plain class as a Scheduler (see <tenon/sdk/adaptor.h>). `on_event` may be missing: events are
// not listened to then.
#pragma once

#include <tenon/scheduler.h>
#include <tenon/sdk/adaptor.h>

namespace tenon::sdk {

template <typename Class>
class Adaptor<Scheduler, Class> final : public Scheduler, public AdaptorBase<Class> {
 public:
  using AdaptorBase<Class>::AdaptorBase;

  Status on_event(const SequenceEvent& event) noexcept override {
    return this->template optional<Named::kOnEvent>(
        [&](auto& made) -> decltype(made.on_event(event)) { return made.on_event(event); });
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    return this->required([&](auto& made) -> decltype(made.plan(view, ledger, out)) {
      return made.plan(view, ledger, out);
    });
  }

 private:
  // Whether the class has a method of that name, whatever it takes.
  struct Named {
    static constexpr bool kOnEvent = requires { &Class::on_event; };
  };
};

}  // namespace tenon::sdk
