// Traffic as of many clients that differ: a few send most, each with lengths, bursts and, where
// they converse, turns of its own. As ServeGen (Xiang and others, 2025) composes production
// workloads from clients; its figures are those of one provider, so the ones here are asked for.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace tenon {

struct ClientTraffic {
  uint32_t clients = 20;
  double rate = 4;      // requests a second of all clients together
  double seconds = 60;  // of arrivals
  // Of clients' rates: the n-th sends as 1 / n^skew (Zipf). 0: all send alike.
  double skew = 1;
  // Means of lengths, of all clients; each client's own mean differs from them by a factor whose
  // logarithm has the deviation `difference`, and each request's length from that by `spread`.
  uint32_t prompt_tokens = 512, answer_tokens = 256;
  double difference = 0.5, spread = 0.6;
  double burstiness = 0.5;  // of the client that comes in the tightest bursts; others up to 1
  // Turns of a conversation: an agent's steps follow each other after `think_seconds`, each with
  // the whole conversation before it and `turn_tokens` more (what a tool gave back).
  uint32_t turns = 1, turn_tokens = 256, prefix_tokens = 0;  // of a prefix that a client's share
  double think_seconds = 2;
  uint64_t seed = 1;
};

// As a workload file (docs/formats/workload-toml.md), the same for the same traffic. Errors:
// invalid_argument (more than a million requests, or none).
Result<std::string> client_workload(const ClientTraffic& traffic);

}  // namespace tenon
