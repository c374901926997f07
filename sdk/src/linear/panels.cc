#include <tenon/sdk/linear/panels.h>

#include <string>

namespace tenon::sdk {

Status WorkerScratch::allocate(uint64_t bytes_each, uint32_t workers) noexcept {
  stride_ = round_up(bytes_each, 4096);
  void* made = host_.allocate(host_.context, Space{}, stride_ * workers, 4096);
  memory_ = static_cast<std::byte*>(made);
  if (made != nullptr) return Status();
  return Status::error(StatusCode::out_of_memory,
                       "no memory was left for the scratch space of a linear kernel's workers");
}

WorkerScratch::~WorkerScratch() {
  host_.free(host_.context, Space{}, memory_);
}

Status refuse_weight(const WeightView& weight, std::string_view found) {
  return Status::error(StatusCode::unsupported,
                       "weight \"" + std::string(weight.name) + "\" " + std::string(found));
}

}  // namespace tenon::sdk
