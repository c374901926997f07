#include "core/base/vendor_setting.h"

#include <charconv>

#include "core/base/quote.h"

namespace tenon {

Result<VendorSetting> parse_vendor_setting(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    return invalid_argument(in_quotes(text) +
                            " is no key and value – write, for example, acme.heat=0.5");
  }
  VendorSetting setting;
  setting.key = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, setting.number);
  if (parsed.ec == std::errc() && parsed.ptr == end) return setting;
  if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end) {
    return invalid_argument(in_quotes(text) +
                            " has a number that no double holds – write one that is nearer to 1");
  }
  setting.is_text = true;
  setting.number = 0.0;
  setting.text = value;
  return setting;
}

}  // namespace tenon
