#include <tenon/sdk/linear/panels.h>

#include <new>
#include <string>

namespace tenon::sdk {

WorkerScratch::WorkerScratch(const HostServices& host, uint64_t bytes_each)
    : host_(host),
      workers_(host.facts->workers == 0 ? 1 : host.facts->workers),
      stride_(round_up(bytes_each, 4096)) {
  memory_ = static_cast<std::byte*>(host.allocate(host.context, Space{}, stride_ * workers_, 4096));
  if (memory_ == nullptr) throw std::bad_alloc();
}

WorkerScratch::~WorkerScratch() {
  host_.free(host_.context, Space{}, memory_);
}

Status refuse_weight(const WeightView& weight, std::string_view found) {
  return Status::error(StatusCode::unsupported,
                       "weight \"" + std::string(weight.name) + "\" " + std::string(found));
}

}  // namespace tenon::sdk
