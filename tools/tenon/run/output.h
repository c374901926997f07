// How `tenon run` shows what is generated: streamed as it comes for one sample, a block each in
// order for several, nothing for --json.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/engine/requests/request.h"
#include "tools/tenon/process/progress.h"

namespace tenon {

enum class OutputStyle { stream, blocks, silent };

// Results of all requests of a run, in the order they were submitted.
class RunOutput {
 public:
  // `total` samples are expected, for the progress line.
  RunOutput(OutputStyle style, size_t total);

  // The sink for the next request; `prompt` is shown before its text.
  std::shared_ptr<RequestSink> add(std::string prompt);
  // Prints blocks that are complete and in turn; `all` prints the rest as it stands.
  void flush(bool all);
  // Held while results change or are printed. Another thread may read and print under it.
  std::timed_mutex& mutex() { return mutex_; }

  const std::vector<std::shared_ptr<ResultSink>>& results() const { return results_; }

 private:
  class Sink;
  void ended();
  void print_block(size_t index) const;

  OutputStyle style_;
  std::vector<std::shared_ptr<ResultSink>> results_;
  std::vector<std::string> prompts_;
  size_t total_;
  size_t ended_ = 0;
  size_t printed_ = 0;
  std::timed_mutex mutex_;
  Progress progress_;
};

}  // namespace tenon
