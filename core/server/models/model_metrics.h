// What is counted about one served model, and its text for Prometheus.
//
// Names and meanings with "vllm:" are those of vLLM, so that its dashboards work; what only Tenon
// has begins with "tenon:". docs/serving.md lists them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/records/metrics.h"
#include "core/engine/requests/request.h"
#include "core/server/models/replicas.h"
#include "core/server/models/served_model.h"

namespace tenon::server {

struct ServedModel;

// Counts of values up to each bound, as Prometheus has them. Bounds ascend and outlive it.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void add(double value);

  std::span<const double> bounds() const { return bounds_; }
  uint64_t up_to(size_t bound) const;  // values of at most bounds()[bound]; of all at its end
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0.0;
};

// The exposition format: a family's lines stand together, whatever its labels.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  // "counter", "gauge"
  void value(std::string_view name, std::string_view type, std::string_view help,
             const Labels& labels, double value);
  void histogram(std::string_view name, std::string_view help, const Labels& labels,
                 const Histogram& values);
  std::string text() const;

 private:
  struct Family {
    std::string name, head, lines;
  };
  Family& family(std::string_view name, std::string_view type, std::string_view help);
  std::vector<Family> families_;
};

// What a request asked for, and the longest of its answers.
struct RequestShape {
  uint32_t samples = 1;
  uint32_t max_tokens = 0;  // of each; 0 = nobody generates
  uint32_t longest_tokens = 0;
};

// Which replicas work, of a model that has several; else nothing.
void write_replicas(const Replicas& replicas, MetricsText& out);

class ModelMetrics {
 public:
  ModelMetrics();
  void add(const StepRecord& step);                            // [step]
  void add(FinishReason reason, const RequestRecord& record);  // of one answer [step]
  void add(const RequestShape& request);                       // all of whose answers ended [step]
  // So many requests more, or less, wait with that adapter, and run; of none where its name is
  // empty. [any thread]
  void note_adapter(const std::string& name, int waiting, int running);
  void count_slow_reader();  // [step]
  void count_aborted();      // [any thread]
  // The model's engine ends, and another one may follow: what this one counted goes on counting.
  // [any thread]
  void carry(const ServedModel& model);
  // `served` is null while the model is not loaded. [any thread]
  void write(const std::string& model, const ServedModel* served, MetricsText& out) const;

 private:
  void write_histograms(const MetricsText::Labels& labels, MetricsText& out) const;
  void write_adapters(const MetricsText::Labels& labels, size_t adapters, MetricsText& out) const;

  void write_engine(const MetricsText::Labels& labels, const ServedModel& served,
                    const PartTimes& times, MetricsText& out) const;

  mutable std::mutex mutex_;
  EngineTotals carried_;  // of engines that ended
  struct AdapterUse {
    int waiting = 0, running = 0;  // requests
  };
  std::map<std::string, AdapterUse> adapters_;
  uint64_t ends_[7] = {};  // by FinishReason
  uint64_t prompt_tokens_ = 0, cached_tokens_ = 0;
  uint64_t slow_readers_ = 0, aborted_ = 0;
  Histogram first_token_, token_gap_, whole_, queue_, inference_, prefill_, decode_;
  Histogram prompt_sizes_, answer_sizes_, step_sizes_;
  Histogram asked_samples_, asked_tokens_, longest_answers_;
};

}  // namespace tenon::server
