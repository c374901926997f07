// What a step has in memory of the host while it is on the queue: arrays on their way to the
// device, and room for what comes back. Steps take two of these in turns, so that the next one's
// arrays can be written and sent while the device computes.
#pragma once

#include <tenon/batch.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/step/draws.h"
#include "core/exec/executor.h"
#include "core/exec/hidden_rows.h"

namespace tenon::cuda {

class StepTurn {
 public:
  explicit StepTurn(Driver& driver)
      : drawn(driver), driver_(driver), inputs_(driver), logits_(driver), hidden_(driver) {}

  // With room for all arrays of the largest step.
  Status load(uint64_t input_bytes) { return inputs_.reserve(input_bytes, "a step's arrays"); }

  // Waits until nothing on the queue needs what the turn's last step left, and makes room for what
  // `batch` wants to see.
  Status begin(const BatchView& batch, uint32_t hidden, uint64_t vocabulary);
  // A copy of `from` goes to the device.
  template <typename T>
  Status send(T* to, std::span<const T> from) {
    return send_bytes(to, std::as_bytes(from));
  }
  // Behind what was put on the queue for the step so far.
  Status mark();
  // Until the latest mark was passed.
  Status wait() { return driver_.wait_for(ticket_); }

  float* logits() const { return reinterpret_cast<float*>(logits_.data()); }
  const HiddenRows& hidden() const { return hidden_rows_; }
  const StepOutput& output() const { return output_; }

  // What is there behind `wait`.
  void show_drawn() { output_.drawn = drawn.tokens(); }

  bool in_flight = false;
  DrawnRows drawn;

 private:
  Status send_bytes(void* to, std::span<const std::byte> from);

  Driver& driver_;
  PinnedMemory inputs_, logits_, hidden_;
  uint64_t used_ = 0;  // of inputs_
  uint64_t ticket_ = 0;
  HiddenRows hidden_rows_;
  StepOutput output_;
};

}  // namespace tenon::cuda
