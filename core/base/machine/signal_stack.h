// A stack for handlers of signals, so that a thread whose own stack has run out can still say who
// used it up. The main thread's is made by whoever handles signals; every thread that runs plugins
// has one of these while it does.
#pragma once

#include <signal.h>

#include <array>
#include <memory>

namespace tenon {

class SignalStack {
 public:
  SignalStack() : memory_(std::make_unique<Memory>()) {
    const stack_t own{.ss_sp = memory_->data(), .ss_flags = 0, .ss_size = memory_->size()};
    ::sigaltstack(&own, &before_);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() { ::sigaltstack(&before_, nullptr); }

 private:
  using Memory = std::array<char, size_t{1} << 16>;
  std::unique_ptr<Memory> memory_;
  stack_t before_{};
};

}  // namespace tenon
