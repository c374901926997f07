// A seed's choice of wrong answers: where a method gives back what it must not.
#pragma once

#include <tenon/status.h>

#include <cstdint>

namespace tenon {

class WrongAnswers {
 public:
  // One answer in `every`.
  WrongAnswers(uint64_t seed, uint32_t every) : state_(seed * 2 + 1), every_(every) {}

  bool now() { return every_ > 0 && below(every_) == 0; }
  uint32_t below(uint32_t bound);
  // Something else than `value`, mostly at an edge.
  uint32_t instead_of(uint32_t value);
  uint64_t instead_of(uint64_t value);
  // `status`, or an error: of any code, also of none that exists, with any text, also none.
  Status answer(Status status);

 private:
  uint64_t state_;
  uint32_t every_;
};

}  // namespace tenon
