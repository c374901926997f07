// Arrays on the first GPU, with the names of EmulatedDevice, for the same tests of kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cuda::test {

class RealDevice {
 public:
  // Who makes orders here is the device.
  explicit RealDevice(uint64_t = 1) {}
  RealDevice(const RealDevice&) = delete;
  RealDevice& operator=(const RealDevice&) = delete;
  // What launches found wrong by now is a failure of the test.
  ~RealDevice();

  template <typename T>
  const T* upload(const std::vector<T>& values, const std::string& name) {
    return upload_variable(values, name);
  }
  template <typename T>
  T* upload_variable(const std::vector<T>& values, const std::string& name) {
    T* at = make<T>(values.size(), name);
    send(at, values.data(), values.size() * sizeof(T));
    return at;
  }
  // Holds a pattern, as in the emulator.
  template <typename T>
  T* make(uint64_t count, const std::string&) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  // After what was launched on the default stream.
  template <typename T>
  std::vector<T> download(const T* from, uint64_t count) {
    std::vector<T> values(count);
    fetch(values.data(), from, count * sizeof(T));
    return values;
  }

 private:
  void* allocate(uint64_t bytes);
  static void send(void* to, const void* from, uint64_t bytes);
  static void fetch(void* to, const void* from, uint64_t bytes);

  std::vector<void*> all_;
};

}  // namespace tenon::cuda::test
