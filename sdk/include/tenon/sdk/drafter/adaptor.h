// A plain class as a Drafter (see <tenon/sdk/adaptor.h>). It has `offer` and `draft`; of the
// others, those that are missing do nothing: without `bind` it sees no hidden states.
#pragma once

#include <tenon/drafter.h>
#include <tenon/sdk/adaptor.h>

namespace tenon::sdk {

template <typename Class>
class Adaptor<Drafter, Class> final : public Drafter, public AdaptorBase<Class> {
 public:
  using AdaptorBase<Class>::AdaptorBase;

  Status bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept override {
    return this->template optional<Named::kBind>(
        [&](auto& made) -> decltype(made.bind(target, wanted)) {
          return made.bind(target, wanted);
        });
  }
  Status begin(SeqId seq, SeqId parent) noexcept override {
    return this->template optional<Named::kBegin>(
        [&](auto& made) -> decltype(made.begin(seq, parent)) { return made.begin(seq, parent); });
  }
  Status end(SeqId seq) noexcept override {
    return this->template optional<Named::kEnd>(
        [&](auto& made) -> decltype(made.end(seq)) { return made.end(seq); });
  }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override {
    return this->required([&](auto& made) -> decltype(made.offer(requests, offered)) {
      return made.offer(requests, offered);
    });
  }
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override {
    return this->required([&](auto& made) -> decltype(made.draft(requests, drafts)) {
      return made.draft(requests, drafts);
    });
  }
  Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                uint32_t accepted) noexcept override {
    return this->template optional<Named::kAccept>(
        [&](auto& made) -> decltype(made.accept(seq, history, drafted, accepted)) {
          return made.accept(seq, history, drafted, accepted);
        });
  }
  Status measured(const DraftStepCost& cost) noexcept override {
    return this->template optional<Named::kMeasured>(
        [&](auto& made) -> decltype(made.measured(cost)) { return made.measured(cost); });
  }
  Status observe(std::span<const HiddenView> views) noexcept override {
    return this->template optional<Named::kObserve>(
        [&](auto& made) -> decltype(made.observe(views)) { return made.observe(views); });
  }

 private:
  // Whether the class has a method of that name, whatever it takes.
  struct Named {
    static constexpr bool kBind = requires { &Class::bind; };
    static constexpr bool kBegin = requires { &Class::begin; };
    static constexpr bool kEnd = requires { &Class::end; };
    static constexpr bool kAccept = requires { &Class::accept; };
    static constexpr bool kMeasured = requires { &Class::measured; };
    static constexpr bool kObserve = requires { &Class::observe; };
  };
};

}  // namespace tenon::sdk
