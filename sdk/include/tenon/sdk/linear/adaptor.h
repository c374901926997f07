// A plain class as a LinearKernel (see <tenon/sdk/adaptor.h>). Missing,
//   bind                     changes nothing
//   epilogues                is `store` alone
//   preparation              is the same for all weights of one width
//   prepared_bytes, prepare  (both): x is read as it is
// A method that returns a value may throw as well: <tenon/sdk/kernel_adaptor.h> says what happens
// then.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/kernel_adaptor.h>

namespace tenon::sdk {

template <typename Class>
class Adaptor<LinearKernel, Class> final : public LinearKernel, public KernelAdaptorBase<Class> {
 public:
  using KernelAdaptorBase<Class>::KernelAdaptorBase;

  Status bind(const LinearLimits& limits) noexcept override {
    return this->template optional<Named::kBind>(
        [&](auto& made) -> decltype(made.bind(limits)) { return made.bind(limits); });
  }
  EpilogueMask epilogues() const noexcept override {
    return this->template optional_value<Named::kEpilogues, EpilogueMask>(
        [&](auto& made) -> decltype(made.epilogues()) { return made.epilogues(); },
        epilogue_bit(Epilogue::store));
  }
  Status accepts(const WeightView& weight) const noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.accepts(weight)) { return made.accepts(weight); });
  }
  uint64_t packed_bytes(const WeightView& weight) const noexcept override {
    return this->template required_value<uint64_t>(
        [&](auto& made) -> decltype(made.packed_bytes(weight)) {
          return made.packed_bytes(weight);
        },
        0);
  }
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    return this->required([&](auto& made) -> decltype(made.pack(weight, packed, slice)) {
      return made.pack(weight, packed, slice);
    });
  }
  Status gather(const GatherCall& call, Slice slice) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.gather(call, slice)) { return made.gather(call, slice); });
  }
  Preparation preparation(const WeightView& weight) const noexcept override {
    return this->template optional_value<Named::kPreparation, Preparation>(
        [&](auto& made) -> decltype(made.preparation(weight)) { return made.preparation(weight); },
        Preparation{0, weight.k_in});
  }
  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const noexcept override {
    return this->template optional_value<Named::kPreparedBytes, uint64_t>(
        [&](auto& made) -> decltype(made.prepared_bytes(preparation, rows)) {
          return made.prepared_bytes(preparation, rows);
        },
        0);
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override {
    return this->template optional<Named::kPrepare>(
        [&](auto& made) -> decltype(made.prepare(call, slice)) {
          return made.prepare(call, slice);
        });
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    return this->required([&](auto& made) -> decltype(made.run(jobs, range, queue)) {
      return made.run(jobs, range, queue);
    });
  }
  std::string_view numerics() const noexcept override {
    return this->template required_value<std::string_view>(
        [&](auto& made) -> decltype(made.numerics()) { return made.numerics(); },
        std::string_view());
  }

 private:
  // Whether the class has a method of that name, whatever it takes.
  struct Named {
    static constexpr bool kBind = requires { &Class::bind; };
    static constexpr bool kEpilogues = requires { &Class::epilogues; };
    static constexpr bool kPreparation = requires { &Class::preparation; };
    static constexpr bool kPreparedBytes = requires { &Class::prepared_bytes; };
    static constexpr bool kPrepare = requires { &Class::prepare; };
  };
};

}  // namespace tenon::sdk
