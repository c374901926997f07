// How long a step takes on a machine: what it needs (step_needs.h) by what the machine gives.
//
//   products    Σ max(bytes / bandwidth, operations / rate) / share(rows)
//   attention   bytes of K and V / (bandwidth · share)  or  operations / (rate · share)
//               where the bandwidth is that of as many bytes as the step reads in all
//   overheads   a step, each layer, each sequence, each number of logits
//   links       sums over the machines that compute together, and logits that one of them gathers
//
// A sum, since kernels run one after the other. More rows, sequences or entries never take less.
#pragma once

#include <cstdint>

#include "core/base/result.h"
#include "core/sim/machine.h"
#include "core/sim/step_needs.h"

namespace tenon::sim {

// Operations of attention that take the machine as long as reading a byte of K and V.
double machine_turn(const Machine& machine);

// The machine's rate for a format; for a format that it has none for, and which makes up less than
// a fiftieth of the model, the first one's. Error: invalid_argument, with the formats that it has.
Status check_formats(const Machine& machine, const StepModel& model);

// Bytes that a step reads: of matrices, K and V.
double read_bytes(const StepNeeds& needs);

// Seconds of products alone, where their shares are 1: the limit at a bandwidth.
double product_limit_seconds(double bandwidth, const ProductRate& rate, const ProductNeed& need);

// A step's seconds by what they are spent on.
struct StepTime {
  double reading = 0;    // of matrices, K and V: the memory's bandwidth is at its limit
  double computing = 0;  // arithmetic is
  double links = 0;      // between machines that compute together
  double overheads = 0;

  double seconds() const { return reading + computing + links + overheads; }
  StepTime& operator+=(const StepTime& other);
};
// `ranks` machines compute together, and `needs` is what each of them needs.
StepTime step_time(const Machine& machine, const StepNeeds& needs, uint32_t ranks = 1);
// At least 1.
int64_t step_ns(const Machine& machine, const StepNeeds& needs, uint32_t ranks = 1);

// Seconds until each of `ranks` machines has the sum of what all of them have, `bytes` at each: by
// recursive doubling or by reduce-scatter and all-gather, whichever is quicker (Thakur,
// Rabenseifner and Gropp 2005).
double sum_seconds(const JoiningLink& link, uint32_t ranks, double bytes);

}  // namespace tenon::sim
