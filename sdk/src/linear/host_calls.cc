#include <tenon/sdk/linear/host_calls.h>
#include <tenon/sdk/plugin.h>

#include <string>

namespace tenon::sdk {

Status HostLinear::check(const LinearLimits& limits) const noexcept {
  if (limits.space.kind != SpaceKind::host) {
    return refuse(
        "was bound to the memory of a device; it reads the host's alone; choose a linear plugin "
        "for that device");
  }
  if (limits.x_dtype != DType::f32) return refuse_dtype("reads activations", limits.x_dtype);
  if (limits.y_dtype != DType::f32) return refuse_dtype("writes products", limits.y_dtype);
  if (limits.workers == 0) return refuse("was bound for no workers; at least one must call it");
  return Status();
}

Status HostLinear::refuse(std::string_view found) const noexcept {
  return guard([&] {
    return Status::error(StatusCode::unsupported,
                         "linear \"" + std::string(id) + "\" " + std::string(found));
  });
}

Status HostLinear::refuse_queue() const noexcept {
  return refuse("was given a device's queue; it works on the host, where the queue is null");
}

Status HostLinear::refuse_dtype(std::string_view does, DType asked) const noexcept {
  return guard([&] {
    return refuse(std::string(does) + " in f32 alone, and was asked for " +
                  std::string(dtype_name(asked)) + "; convert them");
  });
}

Status HostLinear::refuse_epilogue(Epilogue epilogue) const noexcept {
  return guard([&] {
    return refuse("has no epilogue " + std::to_string(static_cast<uint32_t>(epilogue)) +
                  "; ask for one that epilogues() names, and do the rest behind it");
  });
}

}  // namespace tenon::sdk
