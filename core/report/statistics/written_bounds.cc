#include "core/report/statistics/written_bounds.h"

#include <set>
#include <variant>

#include "core/base/number.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

class BoundsReader {
 public:
  BoundsReader(std::string_view text, std::string_view what, bool takes_probes)
      : text_(text), what_(what), takes_probes_(takes_probes) {}

  Result<WrittenBounds> read() {
    for (const std::string_view part : split(text_, ',')) {
      const size_t equals = part.find('=');
      const std::string_view key = trim(part.substr(0, equals));
      const std::string_view value = equals == part.npos ? "" : trim(part.substr(equals + 1));
      if (!seen_.insert(key).second) return wrong(in_quotes(key) + " is there twice");
      TENON_RETURN_IF_ERROR(take(key, value));
    }
    if (out_.ttft_ns == 0 && out_.gap_ns == 0) return wrong("there is no bound");
    return out_;
  }

 private:
  Status take(std::string_view key, std::string_view value) {
    if (key == "ttft" || key == "gap") {
      const auto bound = parse_duration_ns(value);
      if (!bound || *bound <= 0) return wrong(in_quotes(value) + " is no time above 0");
      (key == "ttft" ? out_.ttft_ns : out_.gap_ns) = *bound;
      return {};
    }
    const bool share = key == "share", probes = takes_probes_ && key == "probes";
    if (!share && !probes) return wrong(in_quotes(key) + " is none of them");
    const WrittenNumber written = written_number(value);
    const std::string fault = number_fault(
        share ? real_number("share", 0.5, 0.999) : whole_number("probes", 3, 40), written);
    if (!fault.empty()) return wrong(fault);
    if (share) out_.share = as_real(written);
    if (probes) out_.probes = static_cast<uint32_t>(std::get<int64_t>(written));
    return {};
  }

  Status wrong(const std::string& why) const {
    return invalid_argument(std::string(what_) + " " + in_quotes(text_) + ": " + why +
                            " – expected bounds such as ttft=500ms,gap=50ms and, if you like, "
                            "share=0.95" +
                            (takes_probes_ ? " and probes=8" : ""));
  }

  std::string_view text_, what_;
  bool takes_probes_;
  std::set<std::string_view> seen_;
  WrittenBounds out_;
};

}  // namespace

Result<WrittenBounds> parse_bounds(std::string_view text, std::string_view what,
                                   bool takes_probes) {
  return BoundsReader(text, what, takes_probes).read();
}

}  // namespace tenon
