// A store of K/V whose answers are checked: each is one to a request, and says what it may say.
// What a value holds is for whoever asked to check.
#pragma once

#include <tenon/extensions/kv_store.h>

#include <string>
#include <unordered_map>

#include "core/contract/contract.h"

namespace tenon {

// Threads: as KvStore says.
class CheckedKvStore final : public KvStore {
 public:
  CheckedKvStore(KvStore& plugin, const std::string& name, CallChecks checks = CallChecks::usual);

  Status submit(std::span<const KvStoreRequest> requests) noexcept override;
  Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept override;
  KvStoreUsage usage() const noexcept override;

  // Requests that were taken and not answered yet.
  size_t unanswered() const { return verbs_.size(); }

 private:
  Status check_answer(KvStoreAnswer& answer);

  KvStore& plugin_;
  const CallChecks checks_;
  const CallName submit_, collect_, usage_;
  std::unordered_map<uint64_t, KvStoreVerb> verbs_;  // of requests without an answer, by id
  ShownCopy shown_;
};

}  // namespace tenon
