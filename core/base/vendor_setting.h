// A sampling parameter of a third party, as someone wrote it down: tenon::VendorParam with texts of
// its own.
#pragma once

#include <tenon/sampler.h>

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

struct VendorSetting {
  std::string key;  // "acme.heat"
  bool is_text = false;
  double number = 0.0;
  std::string text;

  // Borrows from the setting.
  VendorParam param() const { return {key, is_text, number, text}; }
};

// "acme.heat=0.5": a number where the value is one, else a text. Error: invalid_argument.
Result<VendorSetting> parse_vendor_setting(std::string_view text);

}  // namespace tenon
