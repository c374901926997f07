#include "core/contract/checked_kv_store.h"

#include <utility>

namespace tenon {

CheckedKvStore::CheckedKvStore(KvStore& plugin, const std::string& name, CallChecks checks)
    : plugin_(plugin),
      checks_(checks),
      submit_(name_call("submit", "kv_store '" + name + "'")),
      collect_(name_call("collect", "kv_store '" + name + "'")),
      usage_(name_call("usage", "kv_store '" + name + "'")) {}

Status CheckedKvStore::submit(std::span<const KvStoreRequest> requests) noexcept {
  shown_.begin();
  if (checks_ == CallChecks::more) {
    shown_.add(requests);
    for (const KvStoreRequest& request : requests) shown_.add(request.value);
  }
  Status status;
  {
    CheckedCall call(submit_, checks_);
    status = call.readable(plugin_.submit(requests));
  }
  if (!shown_.unchanged()) return wrote_into("submit", "requests");
  if (!status.ok()) return status;
  for (const KvStoreRequest& request : requests) verbs_[request.id] = request.verb;
  return {};
}

Status CheckedKvStore::check_answer(KvStoreAnswer& answer) {
  const auto asked = verbs_.find(answer.id);
  if (asked == verbs_.end()) {
    return broken_promise("collect", "answered request " + std::to_string(answer.id),
                          "answers to requests that have none");
  }
  const bool finds = asked->second == KvStoreVerb::has || asked->second == KvStoreVerb::get;
  if (!finds && answer.status.code() == StatusCode::not_found) {
    return broken_promise("collect", "answered a put or remove with not_found",
                          "ok, or another error");
  }
  answer.status = readable(std::move(answer.status));
  verbs_.erase(asked);
  return {};
}

Status CheckedKvStore::collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept {
  Status status;
  {
    CheckedCall call(collect_, checks_);
    status = call.readable(plugin_.collect(wait_ns, out));
  }
  if (!status.ok()) return status;
  if (out.count > out.answers.size()) {
    return broken_promise(
        "collect", "made " + std::to_string(out.count) + " answers",
        "at most " + std::to_string(out.answers.size()) + ", for which there was room");
  }
  for (KvStoreAnswer& answer : out.answers.first(out.count)) {
    if (Status broken = check_answer(answer); !broken.ok()) return broken;
  }
  return {};
}

KvStoreUsage CheckedKvStore::usage() const noexcept {
  const RunningCall call(usage_);
  return plugin_.usage();
}

}  // namespace tenon
