// Values for options of a plugin under test.
#pragma once

#include <tenon/options.h>

#include <cstdint>

namespace tenon {

inline OptionValue option_of(bool boolean) {
  OptionValue value;
  value.boolean = boolean;
  return value;
}
inline OptionValue option_of(int64_t integer) {
  OptionValue value;
  value.integer = integer;
  return value;
}
inline OptionValue option_of(double real) {
  OptionValue value;
  value.real = real;
  return value;
}

}  // namespace tenon
