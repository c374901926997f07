// A plain class as a KVCacheManager (see <tenon/sdk/adaptor.h>). No method may be missing: each
// keeps a promise that somebody relies on.
#pragma once

#include <tenon/kv_cache.h>
#include <tenon/sdk/adaptor.h>

namespace tenon::sdk {

template <typename Class>
class Adaptor<KVCacheManager, Class> final : public KVCacheManager, public AdaptorBase<Class> {
 public:
  using AdaptorBase<Class>::AdaptorBase;

  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override {
    return this->required([&](auto& made) -> decltype(made.bind(model, geometry)) {
      return made.bind(model, geometry);
    });
  }
  Status begin(const KvSequence& sequence) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.begin(sequence)) { return made.begin(sequence); });
  }
  Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
               KvMatch& out) noexcept override {
    return this->required([&](auto& made) -> decltype(made.match(seq, tokens, wanted_tokens, out)) {
      return made.match(seq, tokens, wanted_tokens, out);
    });
  }
  Status grow(const KvRequest& request, KvGrant& out) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.grow(request, out)) { return made.grow(request, out); });
  }
  Status trim(SeqId seq, uint32_t tokens) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.trim(seq, tokens)) { return made.trim(seq, tokens); });
  }
  Status resolve(const KvOutcome& outcome) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.resolve(outcome)) { return made.resolve(outcome); });
  }
  Status release(SeqId seq, ReleaseHow how) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.release(seq, how)) { return made.release(seq, how); });
  }
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override {
    return this->required([&](auto& made) -> decltype(made.table(seq, group, out)) {
      return made.table(seq, group, out);
    });
  }
  Status take_moves(KvMovesOut& out) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.take_moves(out)) { return made.take_moves(out); });
  }
  Status step_begin(uint64_t step_id) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.step_begin(step_id)) { return made.step_begin(step_id); });
  }
  Status step_done(uint64_t step_id) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.step_done(step_id)) { return made.step_done(step_id); });
  }
  Status usage(GroupId group, KvUsage& out) const noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.usage(group, out)) { return made.usage(group, out); });
  }
  Status check() const noexcept override {
    return this->required([&](auto& made) -> decltype(made.check()) { return made.check(); });
  }
};

}  // namespace tenon::sdk
