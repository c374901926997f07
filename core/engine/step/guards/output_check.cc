#include "core/engine/step/guards/output_check.h"

#include <algorithm>
#include <string>

namespace tenon {

Status check_output(const Step& step, const ModelShape& shape) {
  const StepOutput& output = step.output;
  const uint32_t vocabulary = shape.vocabulary;
  const bool whole = output.step_id == step.id && output.logits_rows == step.record.logits_rows &&
                     output.vocabulary == vocabulary &&
                     (output.logits != nullptr || output.logits_rows == 0) &&
                     (output.drawn.empty() || output.drawn.size() == output.logits_rows);
  if (!whole) {
    return internal("step " + std::to_string(output.step_id) + " came back with " +
                    std::to_string(output.logits_rows) + " rows of " +
                    std::to_string(output.vocabulary) + " logits – expected step " +
                    std::to_string(step.id) + ", " + std::to_string(step.record.logits_rows) +
                    " of " + std::to_string(vocabulary));
  }
  const size_t hidden_rows = step.batch.hidden_rows.size();
  if (hidden_rows == 0) return {};
  const bool has_hidden =
      output.hidden_rows == hidden_rows &&
      output.hidden.size() == step.batch.hidden_layers.size() &&
      std::find(output.hidden.begin(), output.hidden.end(), nullptr) == output.hidden.end();
  if (has_hidden) return {};
  return internal("step " + std::to_string(step.id) + " came back with hidden states of " +
                  std::to_string(output.hidden_rows) + " rows behind " +
                  std::to_string(output.hidden.size()) + " layers – expected " +
                  std::to_string(hidden_rows) + " behind " +
                  std::to_string(step.batch.hidden_layers.size()));
}

}  // namespace tenon
