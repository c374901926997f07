// A full-precision model folder made into a quantised one, layer by layer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/model.h"
#include "core/quantize/methods/method.h"

namespace tenon::quantize {

struct QuantizeRequest {
  MethodOptions options;
  std::string out;                             // a folder to make, or to go on in
  std::vector<std::vector<TokenId>> windows;   // of the calibration text, equal in length
  std::function<void(double share)> progress;  // may be empty; 0 … 1
};

struct QuantizeReport {
  uint64_t matrices = 0;        // quantised
  uint64_t matrix_bytes = 0;    // that they take, with scales and zero points
  uint64_t matrix_values = 0;   // numbers in them
  uint64_t plain_tensors = 0;   // written as they are
  uint32_t layers_resumed = 0;  // that an earlier run had done
  std::map<uint32_t, uint64_t> matrices_of_bits = {};  // where a budget was spent
};

// `model` is an opened folder of f32, f16 or bf16. Writes a folder with everything that
// it had, the tokenizer's files too. Only one layer's weights are in memory, and the hidden states
// of the calibration text. An interrupted run continues if it is called again with the same model,
// text and options (unfinished_run.h). Errors: unsupported (a quantised model, a matrix that the
// method cannot store, by name), invalid_argument (no or short calibration text, a folder that
// holds a model), and those of writing.
Result<QuantizeReport> quantize_model(const Model& model, const QuantizeRequest& request);

// A text's tokens in windows of `window_tokens`, at most `most`, the rest left out. Error:
// invalid_argument where fewer than kFewestWindows come out.
inline constexpr uint32_t kFewestWindows = 4;
Result<std::vector<std::vector<TokenId>>> calibration_windows(const std::vector<TokenId>& tokens,
                                                              uint32_t window_tokens,
                                                              uint32_t most);

}  // namespace tenon::quantize
