// `tenon model quantize`: a smaller model of a full-precision one.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/ascii.h"
#include "core/base/files/given_text.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/model/model.h"
#include "core/pipeline/convert_model.h"
#include "core/quantize/blocks/blocks.h"
#include "core/quantize/quantize_gguf.h"
#include "core/quantize/quantize_model.h"
#include "core/request/parameters.h"
#include "core/tokenizer/files/gguf_export.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

constexpr uint32_t kCalibrationWindows = 128;
constexpr uint32_t kCalibrationTokens = 512;  // of a window

// An option that some methods read and others would ignore.
struct OptionOfSome {
  const char* name;
  std::string_view methods;  // of folders, between commas
  bool of_text;              // of budgets, too, and of formats of GGUF files
};
constexpr OptionOfSome kOptionsOfSome[] = {{"--bits", "rtn, gptq, awq", false},
                                           {"--group", "rtn, gptq, awq", false},
                                           {"--symmetric", "rtn, gptq", false},
                                           {"--gptq-v2", "rtn, gptq", false},
                                           {"--search-ranges", "rtn, gptq", false},
                                           {"--whole-ranges", "gptq", false},
                                           {"--act-order", "gptq", false},
                                           {"--damping", "gptq", false},
                                           {"--sweeps", "gptq", false},
                                           {"--calibrate", "gptq, awq", true},
                                           {"--context", "gptq, awq", true},
                                           {"--windows", "gptq, awq", true}};

struct QuantizeFlags {
  std::string in, out;
  std::string method;
  double bits = 4;
  int32_t group = 128;
  bool symmetric = false;
  bool act_order = false;
  bool second_version = false;
  bool search_ranges = false;
  bool whole_ranges = false;
  std::string calibrate;
  uint32_t context = kCalibrationTokens;
  uint32_t windows = kCalibrationWindows;
  double damping = 0.01;
  uint32_t sweeps = 3;
  std::vector<const OptionOfSome*> given;  // on the command line

  bool writes_file() const { return lower_ascii(out).ends_with(".gguf"); }
  bool has_budget() const { return bits != std::floor(bits); }
};

Status refuse_unread(const QuantizeFlags& flags) {
  for (const OptionOfSome* option : flags.given) {
    const std::string methods = ", " + std::string(option->methods) + ",";
    const bool read = flags.writes_file()
                          ? option->of_text
                          : methods.find(", " + flags.method + ",") != methods.npos ||
                                (option->of_text && flags.has_budget());
    if (read) continue;
    return invalid_argument(std::string(option->name) + " is read by " +
                            std::string(option->methods) +
                            (option->of_text ? ", budgets and formats of GGUF files" : "") + "; " +
                            flags.method + " would ignore it – leave it out");
  }
  return {};
}

Result<quantize::MethodOptions> method_options(const QuantizeFlags& flags) {
  quantize::MethodOptions options;
  TENON_ASSIGN_OR_RETURN(options.method, quantize::method_named(flags.method));
  if (flags.group < -1 || flags.group == 0) {
    return invalid_argument("--group is " + std::to_string(flags.group) +
                            "; expected 32, 64, 128, or -1 for a whole row");
  }
  if (flags.has_budget()) {
    options.budget_bits = flags.bits;
  } else {
    options.grid.bits = static_cast<uint32_t>(flags.bits);
  }
  options.grid.group = flags.group < 0 ? 0 : static_cast<uint64_t>(flags.group);
  options.grid.symmetric = flags.symmetric;
  const bool searches = options.method == quantize::Method::gptq || flags.search_ranges;
  options.grid.search = searches && !flags.whole_ranges;
  options.second_version = flags.second_version;
  const bool as_they_are = options.method == quantize::Method::awq || flags.second_version;
  options.grid.least_zero = as_they_are ? 0 : 1;
  options.gptq = {.act_order = flags.act_order, .damping = flags.damping, .sweeps = flags.sweeps};
  return options;
}

Result<std::vector<std::vector<TokenId>>> read_windows(const QuantizeFlags& flags,
                                                       const Model& model) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::load(flags.in));
  TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(flags.calibrate));
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, tokenizer->encode(text));
  const uint32_t window = std::min(flags.context, model.plan.context_tokens);
  return quantize::calibration_windows(tokens, window, flags.windows);
}

void show_share(Progress& progress, double share) {
  constexpr uint64_t kParts = 10000;
  progress.update(static_cast<uint64_t>(share * kParts), kParts);
}

Status quantize_folder(const QuantizeFlags& flags) {
  quantize::QuantizeRequest request;
  TENON_ASSIGN_OR_RETURN(request.options, method_options(flags));
  TENON_RETURN_IF_ERROR(refuse_unread(flags));
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, open_model(flags.in));
  request.out = flags.out;
  if (!flags.calibrate.empty() && request.options.needs_text()) {
    TENON_ASSIGN_OR_RETURN(request.windows, read_windows(flags, *model));
  }
  Progress progress("quantising", Progress::Unit::parts, true);
  request.progress = [&](double share) { show_share(progress, share); };
  TENON_ASSIGN_OR_RETURN(const quantize::QuantizeReport report, quantize_model(*model, request));
  progress.wipe();
  if (report.layers_resumed > 0) {
    putf("went on after %u layers of an earlier run\n", report.layers_resumed);
  }
  putf("wrote %s: %llu matrices with %.3f bits a weight; %llu tensors as they were\n",
       one_line(flags.out, kMostPathBytes).c_str(),
       static_cast<unsigned long long>(report.matrices),
       8.0 * static_cast<double>(report.matrix_bytes) / static_cast<double>(report.matrix_values),
       static_cast<unsigned long long>(report.plain_tensors));
  for (const auto& [bits, count] : report.matrices_of_bits) {
    putf("  %llu matrices with %u bits\n", static_cast<unsigned long long>(count), bits);
  }
  return {};
}

Status quantize_file(const QuantizeFlags& flags) {
  if (is_there(flags.out)) {
    return invalid_argument(path_in_quotes(flags.out) +
                            " is already there; choose another name, or remove it first");
  }
  if (quantize::find_block_encoder(flags.method) != nullptr) {
    TENON_RETURN_IF_ERROR(refuse_unread(flags));
  }
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, open_model(flags.in));
  quantize::GgufQuantizeRequest request{.format = flags.method, .out = flags.out};
  if (!flags.calibrate.empty()) {
    TENON_ASSIGN_OR_RETURN(request.windows, read_windows(flags, *model));
  }
  GgufMetadata metadata;
  const auto tokenizer = Tokenizer::load(flags.in);
  request.ends = ends_for_file(*model, tokenizer.ok() ? tokenizer->get() : nullptr);
  const Result<std::string> note =
      add_gguf_tokenizer(flags.in, model->plan.vocabulary, request.ends.empty(), metadata);
  if (note.status().code() == StatusCode::not_found) {
    metadata.add_text("tokenizer.ggml.model", "no_vocab");
  } else if (!note.ok()) {
    return copy(note.status());
  }
  Progress progress("quantising", Progress::Unit::parts, true);
  request.progress = [&](double share) { show_share(progress, share); };
  TENON_ASSIGN_OR_RETURN(const quantize::GgufQuantizeReport report,
                         quantize_gguf(*model, metadata, request));
  progress.wipe();
  const std::string out = one_line(flags.out, kMostPathBytes);
  if (report.matrices == 0) {
    putf("wrote %s: no matrix has columns in whole blocks, so all are as they were\n", out.c_str());
  } else {
    putf(
        "wrote %s: %llu matrices with %.3f bits a weight\n", out.c_str(),
        static_cast<unsigned long long>(report.matrices),
        8.0 * static_cast<double>(report.matrix_bytes) / static_cast<double>(report.matrix_values));
  }
  if (note.ok() && !note->empty()) putf("note: %s\n", note->c_str());
  return {};
}

Status quantize_to(const QuantizeFlags& flags) {
  return flags.writes_file() ? quantize_file(flags) : quantize_folder(flags);
}

}  // namespace

void add_model_quantize(Command model, Action& action) {
  auto flags = std::make_shared<QuantizeFlags>();
  Command command =
      model.add_subcommand("quantize", "Write a model in fewer bits, as other tools read it");
  add_model(command, "in", flags->in, "model folder of f32, f16 or bf16").required();
  add_text(command, "out", flags->out, "folder to make, or to go on in; or NAME.gguf").required();
  add_text(command, "--method", flags->method,
           "of folders: " + quantize::folder_method_names() +
               "; of files: " + quantize::block_format_names())
      .required();
  add_number(command, real_number("--bits", 2.0, 8.0), flags->bits,
             "of a weight: 2, 3, 4 or 8 (default: 4); a fraction is a budget, scales included, "
             "that rtn and gptq spend where it lowers the loss most");
  add_number(command, whole_number("--group", -1, 128), flags->group,
             "columns with one scale: 32, 64, 128, or -1 for a whole row (default: 128)");
  command.add_flag("--symmetric", flags->symmetric, "no zero points: ranges around 0");
  command.add_flag("--act-order", flags->act_order,
                   "gptq: columns by falling importance, with groups in that order");
  command.add_flag("--gptq-v2", flags->second_version,
                   "zero points as they are, in place of version 1's less one");
  const Option cut = command.add_flag(
      "--search-ranges", flags->search_ranges,
      "rtn: cut the range of a group where that lowers its error (gptq: as usual)");
  command
      .add_flag("--whole-ranges", flags->whole_ranges,
                "gptq: let the range of a group be that of its values")
      .excludes(cut);
  add_text(command, "--calibrate", flags->calibrate,
           "text that gptq and awq learn from; formats of files choose their scales by it");
  add_number(command, whole_number("--context", 16, kMostParameterTokens), flags->context,
             "tokens of a window of that text (default: 512)");
  add_number(command, whole_number("--windows", 4, 1 << 20), flags->windows,
             "windows of that text, at most (default: 128)");
  add_number(command, real_number("--damping", 0.0, 1.0), flags->damping,
             "gptq: of the mean of the Hessian's diagonal, added to it (default: 0.01)");
  add_number(command, whole_number("--sweeps", 0, 100), flags->sweeps,
             "gptq: times that scales and codes then move where outputs gain; 0: GPTQ alone "
             "(default: 3)");
  command.callback([flags, command, &action] {
    for (const OptionOfSome& option : kOptionsOfSome) {
      if (command.given(option.name)) flags->given.push_back(&option);
    }
    action = [flags] {
      const Status status = quantize_to(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
