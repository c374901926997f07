// What a kernel that runs on the host, with activations in f32, is asked and cannot do, told apart
// before anything is written.
#pragma once

#include <tenon/linear.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon::sdk {

// A host kernel in words: its id and the epilogues it has.
struct HostLinear {
  std::string_view id;
  EpilogueMask epilogues = epilogue_bit(Epilogue::store);

  Status check(const LinearLimits& limits) const noexcept;
  Status check(const PrepareCall& call) const noexcept {
    if (call.queue != nullptr) return refuse_queue();
    return call.x_dtype == DType::f32 ? Status() : refuse_dtype("reads activations", call.x_dtype);
  }
  Status check(const GatherCall& call) const noexcept {
    if (call.queue != nullptr) return refuse_queue();
    return call.out_dtype == DType::f32 ? Status() : refuse_dtype("gathers rows", call.out_dtype);
  }
  Status check(std::span<const LinearJob> jobs, DeviceQueue queue) const noexcept {
    if (queue != nullptr) return refuse_queue();
    for (const LinearJob& job : jobs) {
      if (!has(job.epilogue)) return refuse_epilogue(job.epilogue);
      if (job.y_dtype != DType::f32) return refuse_dtype("writes products", job.y_dtype);
    }
    return Status();
  }

 private:
  constexpr bool has(Epilogue epilogue) const noexcept {
    return static_cast<uint32_t>(epilogue) < 32 && (epilogues & epilogue_bit(epilogue)) != 0;
  }
  Status refuse(std::string_view found) const noexcept;
  Status refuse_queue() const noexcept;
  Status refuse_dtype(std::string_view does, DType asked) const noexcept;
  Status refuse_epilogue(Epilogue epilogue) const noexcept;
};

}  // namespace tenon::sdk
