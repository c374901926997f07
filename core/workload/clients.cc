#include "core/workload/clients.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "core/workload/draw.h"

namespace tenon {
namespace {

constexpr double kMostRequests = 1e6;
constexpr uint32_t kLongestTimes = 8;  // the mean, of a length

[[gnu::format(printf, 1, 2)]] std::string text(const char* pattern, ...) {
  char out[256];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(out, sizeof(out), pattern, arguments);
  va_end(arguments);
  return out;
}

std::string length_text(uint32_t mean, double spread) {
  return text("{ mean = %u, spread = %.3g, min = 1, max = %u }", mean, spread,
              mean * kLongestTimes);
}

// A client's own mean.
uint32_t own_mean(WorkloadDraw& draw, uint32_t mean, double difference) {
  return draw.length({.mean = static_cast<double>(mean),
                      .spread = difference,
                      .min = 1,
                      .max = mean * kLongestTimes});
}

std::vector<double> shares_of(const ClientTraffic& traffic) {
  std::vector<double> shares;
  double sum = 0;
  for (uint32_t client = 1; client <= traffic.clients; ++client) {
    shares.push_back(std::pow(client, -traffic.skew));
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

Result<std::string> client_workload(const ClientTraffic& traffic) {
  WorkloadDraw draw(traffic.seed);
  std::string out = text("# Of %u clients, %.6g requests a second for %.6g seconds.\n",
                         traffic.clients, traffic.rate, traffic.seconds) +
                    "format = 1\n" + text("title = \"%u clients\"\n", traffic.clients) +
                    text("draw_seed = %llu\n", static_cast<unsigned long long>(traffic.seed));
  double requests = 0;
  const std::vector<double> shares = shares_of(traffic);
  for (uint32_t client = 0; client < traffic.clients; ++client) {
    // Conversations begin so much less often.
    const double rate = traffic.rate * shares[client] / traffic.turns;
    // All are drawn, so that one that sends nothing changes no other.
    const uint32_t prompt = own_mean(draw, traffic.prompt_tokens, traffic.difference);
    const uint32_t answer = own_mean(draw, traffic.answer_tokens, traffic.difference);
    const double part = static_cast<double>(draw.gap_ns(1) % 1'000'000'007) / 1'000'000'007;
    const double first = static_cast<double>(draw.gap_ns(std::max(rate, 1e-6))) * 1e-9;
    const double count = std::floor(std::max(0.0, traffic.seconds - first) * rate + 0.5);
    if (count < 1) continue;
    requests += count * traffic.turns;
    out += text("\n[[request]]\ntenant = %u\ncount = %.0f\narrival = \"%.0fms\"\nrate = %.6g\n",
                client + 1, count, first * 1e3, std::max(rate, 1e-6)) +
           text("burstiness = %.3g\n", traffic.burstiness + (1 - traffic.burstiness) * part);
    if (traffic.prefix_tokens > 0) {
      out +=
          text("prefix = \"client-%u\"\nprefix_tokens = %u\n", client + 1, traffic.prefix_tokens);
    }
    out += "prompt_tokens = " + length_text(prompt, traffic.spread) +
           "\nmax_tokens = " + length_text(answer, traffic.spread) + "\n";
    if (traffic.turns > 1) {
      out += text("turns = %u\nthink = \"%.0fms\"\n", traffic.turns, traffic.think_seconds * 1e3) +
             "turn_tokens = " + length_text(traffic.turn_tokens, traffic.spread) + "\n";
    }
  }
  if (requests < 1) {
    return invalid_argument(
        "no client sends a request in that time; give a higher rate or more seconds");
  }
  if (requests > kMostRequests) {
    return invalid_argument(text("that are %.0f requests", requests) +
                            "; a workload has a million at most: lower the rate or the seconds");
  }
  return out;
}

}  // namespace tenon
