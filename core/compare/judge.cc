#include "core/compare/judge.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/statistics.h"
#include "core/evaluate/divergence.h"
#include "core/evaluate/teacher_forcing.h"

namespace tenon::compare {
namespace {

constexpr uint64_t kMostLogitsBytes = uint64_t{1} << 29;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using LogitsFile = std::unique_ptr<std::FILE, CloseFile>;

struct Windows {
  std::vector<TokenId> ids;
  uint32_t tokens = 0;  // of a window
};

Result<Windows> windows_of(Pipeline& pipeline, const JudgedText& text) {
  if (pipeline.tokenizer == nullptr) return copy(pipeline.tokenizer_problem);
  if (pipeline.parts().mask_token != kNoToken) {
    return unsupported("a diffusion model predicts no next tokens");
  }
  TENON_ASSIGN_OR_RETURN(const std::string content, read_text_file(text.path));
  Windows out;
  TENON_ASSIGN_OR_RETURN(out.ids, pipeline.tokenizer->encode(content));
  const uint64_t row = sizeof(float) * uint64_t{pipeline.model->plan.vocabulary};
  const uint64_t most = std::max<uint64_t>(2, kMostLogitsBytes / row);
  out.ids.resize(std::min<uint64_t>({out.ids.size(), text.tokens, most}));
  out.tokens = std::min(text.window_tokens, pipeline.limits.context_tokens);
  if (out.ids.size() < 2) {
    return invalid_argument(path_in_quotes(text.path) + " has " + std::to_string(out.ids.size()) +
                            " tokens – a prediction needs two – name a longer text");
  }
  return out;
}

std::string hash_of(Pipeline& pipeline, const Windows& windows) {
  return sha256_hex(std::as_bytes(std::span(windows.ids))) + ":" +
         std::to_string(pipeline.model->plan.vocabulary) + ":" + std::to_string(windows.tokens);
}

// Calls `each` with the logits after every token but the last of a window, and `end` after each
// window.
template <typename Each, typename End>
Status predict(Pipeline& pipeline, const Windows& windows, const Each& each, const End& end) {
  TeacherForcing forcing(pipeline.parts());
  const std::span<const TokenId> ids = windows.ids;
  for (size_t begin = 0; begin + 1 < ids.size(); begin += windows.tokens) {
    const std::span<const TokenId> window =
        ids.subspan(begin, std::min<size_t>(windows.tokens, ids.size() - begin));
    if (window.size() < 2) break;
    TENON_RETURN_IF_ERROR(forcing.run(window.first(window.size() - 1), {},
                                      [&](uint32_t position, std::span<const float> logits) {
                                        return each(logits, window[position + 1]);
                                      }));
    end();
  }
  return {};
}

Fidelity fidelity_of(const TextDifference& difference, const JudgedText& text) {
  const double tokens = static_cast<double>(difference.tokens);
  Fidelity out;
  out.text = std::filesystem::path(text.path).filename().string();
  out.tokens = difference.tokens;
  out.same_top = static_cast<double>(difference.same_top) / tokens;
  out.base_perplexity = std::exp(difference.base_nats / tokens);
  out.perplexity = std::exp(difference.nats / tokens);
  out.kl_p99_nats = quantile(difference.kl_nats, 0.99);
  out.window_kl_nats = difference.window_kl_nats;
  out.window_nats_more = difference.window_nats_more;
  return out;
}

}  // namespace

Result<std::string> write_predictions(Pipeline& pipeline, const JudgedText& text,
                                      const std::string& file) {
  TENON_ASSIGN_OR_RETURN(const Windows windows, windows_of(pipeline, text));
  const LogitsFile out(std::fopen(file.c_str(), "wb"));
  const auto cannot = [&] {
    return failed(path_in_quotes(file) + " cannot be written: " + std::strerror(errno) +
                  " – the base's predictions are kept there for a while – make room");
  };
  if (!out) return cannot();
  TENON_RETURN_IF_ERROR(predict(
      pipeline, windows,
      [&](std::span<const float> logits, TokenId) -> Status {
        const size_t wrote = std::fwrite(logits.data(), sizeof(float), logits.size(), out.get());
        return wrote == logits.size() ? Status() : cannot();
      },
      [] {}));
  if (std::fflush(out.get()) != 0) return cannot();
  return hash_of(pipeline, windows);
}

Result<Fidelity> judge_text(Pipeline& pipeline, const JudgedText& text, const std::string& file,
                            const std::string& base_ids) {
  TENON_ASSIGN_OR_RETURN(const Windows windows, windows_of(pipeline, text));
  if (hash_of(pipeline, windows) != base_ids) {
    return invalid_argument(
        "its tokenizer, vocabulary or context is not the base's, so that their predictions are of "
        "other things");
  }
  const LogitsFile in(std::fopen(file.c_str(), "rb"));
  std::vector<float> base(pipeline.model->plan.vocabulary);
  TextDifference difference;
  std::vector<PredictionDifference> window;
  TENON_RETURN_IF_ERROR(predict(
      pipeline, windows,
      [&](std::span<const float> logits, TokenId next) -> Status {
        if (!in || std::fread(base.data(), sizeof(float), base.size(), in.get()) != base.size()) {
          return failed(path_in_quotes(file) + " ends before the text does");
        }
        TENON_ASSIGN_OR_RETURN(const PredictionDifference found, difference_of(base, logits, next));
        window.push_back(found);
        return {};
      },
      [&] {
        difference.add_window(window);
        window.clear();
      }));
  return fidelity_of(difference, text);
}

}  // namespace tenon::compare
