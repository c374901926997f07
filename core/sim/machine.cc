#include "core/sim/machine.h"

#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/sim/between.h"

namespace tenon::sim {
namespace {

constexpr double kLeastRate = 1e5;       // bytes or operations a second
constexpr double kMostOverheadUs = 1e7;  // ten seconds
constexpr uint64_t kLeastMemory = uint64_t{1} << 20;
constexpr double kMostShare = 20;  // what caches may add to the memory's bandwidth

std::string number(double value) {
  return format_real(value);
}

Status above_zero(const char* key, double value) {
  if (value > 0 && std::isfinite(value)) return {};
  return invalid_argument(std::string(key) + " is " + number(value) +
                          "; it must be a number above 0");
}
Status not_negative(const char* key, double value) {
  if (value >= 0 && std::isfinite(value)) return {};
  return invalid_argument(std::string(key) + " is " + number(value) + "; it must be 0 or more");
}

// Figures in another unit: no machine is as slow as that. What is 0 is told of by others.
Status of_unit(const std::string& key, double value, const char* unit) {
  if (value == 0 || value >= kLeastRate) return {};
  return invalid_argument(key + " is " + number(value) +
                          ", which is less than any machine has; "
                          "write it in " +
                          unit + " a second: 3.35 T are 3.35e12");
}
// A share in percent would be a machine that is a hundred times as fast.
Status of_one(const std::string& key, double value) {
  if (!(value > 0) || !std::isfinite(value)) {
    return invalid_argument(key + " is " + number(value) + "; it must be a number above 0");
  }
  if (value <= kMostShare) return {};
  return invalid_argument(key + " is " + number(value) +
                          ", which is no share; write parts of 1, such as 0.8");
}
Status of_microseconds(const char* key, double value) {
  TENON_RETURN_IF_ERROR(not_negative(key, value));
  if (value <= kMostOverheadUs) return {};
  return invalid_argument(std::string(key) + " is " + number(value) +
                          ", which is more than any step takes; write it in microseconds");
}

// Seconds of a matrix with one element, up to a factor: of two bytes, read at the bandwidth.
double time_of(const Machine& machine, const ProductRate& rate, size_t point) {
  const double read = 2 / machine.bandwidth, compute = 2 * rate.rows[point] / rate.operations;
  return std::max(read, compute) / rate.shares[point];
}

// y at x: linear in log(x) between two points, outside as at the nearest. Some points.
double value_at(const std::vector<double>& x, const std::vector<double>& y, double at) {
  const auto [low, part] = between(x, at);
  return part > 0 ? y[low] + part * (y[low + 1] - y[low]) : y[low];
}

// A little less than the memory's is what files are rounded by.
Status check_cached(const CachedReading& cached, double bandwidth) {
  if (cached.bytes.size() != cached.bandwidths.size()) {
    return invalid_argument("cached: there are " + std::to_string(cached.bytes.size()) +
                            " bytes and " + std::to_string(cached.bandwidths.size()) +
                            " bandwidths; expected as many of both");
  }
  for (size_t i = 0; i < cached.bytes.size(); ++i) {
    TENON_RETURN_IF_ERROR(above_zero("cached.bytes", cached.bytes[i]));
    TENON_RETURN_IF_ERROR(above_zero("cached.bandwidth", cached.bandwidths[i]));
    if (cached.bandwidths[i] < bandwidth * 0.99) {
      return invalid_argument("cached.bandwidth is " + number(cached.bandwidths[i]) +
                              ", less than the memory's " + number(bandwidth) +
                              "; leave such points out");
    }
    if (i == 0) continue;
    if (cached.bytes[i] <= cached.bytes[i - 1]) {
      return invalid_argument("cached.bytes " + number(cached.bytes[i]) + " come after " +
                              number(cached.bytes[i - 1]) + "; they must rise");
    }
    if (cached.bandwidths[i] > cached.bandwidths[i - 1]) {
      return invalid_argument("cached.bandwidth " + number(cached.bandwidths[i]) + " comes after " +
                              number(cached.bandwidths[i - 1]) +
                              "; more bytes must not be read faster");
    }
  }
  return {};
}

Status check_joined(const JoiningLink& joined) {
  if (joined.most <= 1) return {};
  TENON_RETURN_IF_ERROR(above_zero("joined.bandwidth", joined.bandwidth));
  TENON_RETURN_IF_ERROR(of_unit("joined.bandwidth", joined.bandwidth, "bytes"));
  return of_microseconds("joined.latency_us", joined.latency_ns * 1e-3);
}

Status check_product(const Machine& machine, const ProductRate& rate) {
  const std::string product = "product " + in_quotes(rate.format) + ": ";
  if (rate.format.empty()) return invalid_argument("a [[product]] has no 'format'");
  if (rate.rows.empty() || rate.rows.size() != rate.shares.size()) {
    return invalid_argument(product + "there are " + std::to_string(rate.rows.size()) +
                            " rows and " + std::to_string(rate.shares.size()) +
                            " shares; expected as many of both, and one at least");
  }
  if (!(rate.operations > 0) || !std::isfinite(rate.operations)) {
    return invalid_argument(product + "operations is " + number(rate.operations) +
                            "; it must be a number above 0");
  }
  TENON_RETURN_IF_ERROR(of_unit(product + "operations", rate.operations, "operations"));
  for (size_t i = 0; i < rate.rows.size(); ++i) {
    TENON_RETURN_IF_ERROR(of_one(product + "share", rate.shares[i]));
    if (!(rate.rows[i] >= 1) || !std::isfinite(rate.rows[i])) {
      return invalid_argument(product + "rows has " + number(rate.rows[i]) +
                              "; each must be a number of 1 or more");
    }
    if (i > 0 && rate.rows[i] <= rate.rows[i - 1]) {
      return invalid_argument(product + "rows " + number(rate.rows[i]) + " come after " +
                              number(rate.rows[i - 1]) + "; they must rise");
    }
    // A little, since files are rounded.
    if (i > 0 && time_of(machine, rate, i) < time_of(machine, rate, i - 1) * 0.99) {
      return invalid_argument(product + number(rate.rows[i]) + " rows take less time than " +
                              number(rate.rows[i - 1]) +
                              "; more rows must not be faster: lower the share of the larger, or "
                              "raise that of the smaller");
    }
  }
  return {};
}

}  // namespace

double ProductRate::share_at(double row_count) const {
  return value_at(rows, shares, row_count);
}

double Machine::bandwidth_at(double bytes) const {
  if (from_memory(bytes)) return bandwidth;
  return value_at(cached.bytes, cached.bandwidths, bytes);
}

const ProductRate* Machine::find(std::string_view format) const {
  const auto found = std::ranges::find(products, format, &ProductRate::format);
  return found == products.end() ? nullptr : &*found;
}

std::string Machine::words() const {
  const std::string when = date.empty() ? "" : " on " + date;
  return title + " (" + name + ": " +
         (calibrated ? "calibrated" + when : "never calibrated, " + source) + ")";
}

Status check_machine(const Machine& machine) {
  if (machine.memory_bytes < kLeastMemory) {
    return invalid_argument("memory is " +
                            format_bytes(static_cast<int64_t>(machine.memory_bytes)) +
                            ", which is less than any machine has; write its unit: \"80GiB\"");
  }
  TENON_RETURN_IF_ERROR(above_zero("bandwidth", machine.bandwidth));
  TENON_RETURN_IF_ERROR(of_unit("bandwidth", machine.bandwidth, "bytes"));
  TENON_RETURN_IF_ERROR(check_cached(machine.cached, machine.bandwidth));
  TENON_RETURN_IF_ERROR(above_zero("link", machine.link_bandwidth));
  TENON_RETURN_IF_ERROR(of_unit("link", machine.link_bandwidth, "bytes"));
  TENON_RETURN_IF_ERROR(not_negative("network", machine.network_bandwidth));
  TENON_RETURN_IF_ERROR(of_unit("network", machine.network_bandwidth, "bytes"));
  TENON_RETURN_IF_ERROR(of_microseconds("network_us", machine.network_ns * 1e-3));
  TENON_RETURN_IF_ERROR(check_joined(machine.joined));
  TENON_RETURN_IF_ERROR(not_negative("price.hour", machine.price.hour));
  if (machine.price.hour > 0 && machine.price.source.empty()) {
    return invalid_argument("price has no 'source'; say whose price it is, and of when");
  }
  TENON_RETURN_IF_ERROR(above_zero("attention.operations", machine.attention_operations));
  TENON_RETURN_IF_ERROR(
      of_unit("attention.operations", machine.attention_operations, "operations"));
  TENON_RETURN_IF_ERROR(of_one("attention.decode", machine.decode_share));
  TENON_RETURN_IF_ERROR(of_one("attention.prompt", machine.prompt_share));
  TENON_RETURN_IF_ERROR(of_microseconds("overheads.step_us", machine.step_ns * 1e-3));
  TENON_RETURN_IF_ERROR(of_microseconds("overheads.layer_us", machine.layer_ns * 1e-3));
  TENON_RETURN_IF_ERROR(
      of_microseconds("overheads.memory_layer_us", machine.memory_layer_ns * 1e-3));
  TENON_RETURN_IF_ERROR(of_microseconds("overheads.sequence_us", machine.sequence_ns * 1e-3));
  TENON_RETURN_IF_ERROR(of_microseconds("overheads.logits_us", machine.logits_ns * 1e-3));
  if (machine.products.empty()) {
    return invalid_argument("there is no [[product]]; expected one for each format of weights");
  }
  for (const ProductRate& rate : machine.products) {
    TENON_RETURN_IF_ERROR(check_product(machine, rate));
    if (machine.find(rate.format) != &rate) {
      return invalid_argument("product " + in_quotes(rate.format) +
                              " is there twice; leave one of them out");
    }
  }
  return {};
}

}  // namespace tenon::sim
