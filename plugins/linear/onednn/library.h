// oneDNN as a guest of this process: one thread, and no higher instruction set than the host
// allows.
#pragma once

#include <tenon/host.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

namespace tenon::onednn {

// Lets oneDNN use no other thread than the caller's, as long as this lives. Everything that makes
// or runs a primitive needs it: a primitive keeps the number of threads that it was made for.
class OneThread {
 public:
  OneThread() noexcept;
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread();

 private:
  int before_;
};

// Keeps oneDNN to the host's instruction set. It takes one limit in a process, before its first
// use; a warning says when that was earlier and higher. AVX-512 with BF16 is the highest that the
// host knows and no limit: oneDNN may use more (AMX). Of SSE it needs version 4.1.
void limit_instruction_set(const HostServices& host) noexcept;

// "onednn-2.6.3/avx512_core_bf16". Static text.
std::string_view numerics_name() noexcept;

}  // namespace tenon::onednn
