#include <memory>

#include "core/base/ascii.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/pipeline/convert_model.h"
#include "core/tokenizer/files/gguf_export.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/model/split_flags.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct ConvertFlags {
  std::string in;
  std::string as;
  std::string out;
  std::string type;
  SplitFlags split;
};

// Returns what was written, for people.
Result<std::string> to_file(const Model& model, const ConvertFlags& flags, bool tokenizer,
                            const ConvertOptions& options) {
  TENON_ASSIGN_OR_RETURN(const ConvertedFile made,
                         convert_to_file(model, flags.in, flags.out, tokenizer, options));
  if (!made.kept.empty()) {
    putf("kept the type of %zu matrices whose rows are no whole blocks: %s%s\n", made.kept.size(),
         one_line(made.kept.front()).c_str(), made.kept.size() > 1 ? ", …" : "");
  }
  if (!made.note.empty()) putf("note: %s\n", made.note.c_str());
  const std::string first = one_line(made.files.front(), kMostPathBytes);
  if (!options.split.wanted()) return first;
  const size_t others = made.files.size() - 1;
  return first + (others == 0 ? "" : " and " + std::to_string(others) + " more");
}

Status to_folder(const Model& model, const ConvertFlags& flags, bool tokenizer,
                 const ConvertOptions& options) {
  TENON_ASSIGN_OR_RETURN(NewFolder folder, NewFolder::create(flags.out, model_folder_files()));
  TENON_RETURN_IF_ERROR(write_folder_model(model, flags.out, options));
  if (tokenizer) {
    TENON_RETURN_IF_ERROR(is_model_file(flags.in) ? write_tokenizer_folder(flags.in, flags.out)
                                                  : copy_tokenizer(flags.in, flags.out));
  }
  folder.keep();
  return {};
}

Status convert(const ConvertFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const TensorType* type, writable_type("--type", flags.type));
  TENON_ASSIGN_OR_RETURN(const GgufSplit split, flags.split.read());
  const bool file = lower_ascii(flags.out).ends_with(".gguf");
  if (split.wanted() && !file) {
    return invalid_argument(path_in_quotes(flags.out) +
                            " would be a folder, which is not written in parts; give a name that "
                            "ends in .gguf, or leave --split-max-size and --split-tensors out");
  }
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, open_model(flags.in, flags.as));
  TENON_ASSIGN_OR_RETURN(const bool tokenizer, has_tokenizer(flags.in));
  Progress progress("writing", Progress::Unit::bytes, true);
  ConvertOptions options{type,
                         [&](uint64_t done, uint64_t total) { progress.update(done, total); }};
  options.split = split;
  std::string written = one_line(flags.out, kMostPathBytes);
  if (file) {
    TENON_ASSIGN_OR_RETURN(written, to_file(*model, flags, tokenizer, options));
  } else {
    TENON_RETURN_IF_ERROR(to_folder(*model, flags, tokenizer, options));
  }
  progress.wipe();
  putf("wrote %s%s\n", written.c_str(), tokenizer ? "" : ", without a tokenizer");
  return {};
}

}  // namespace

void add_convert_command(Command model, Action& action) {
  auto flags = std::make_shared<ConvertFlags>();
  Command command = model.add_subcommand("convert", "Write a model as a GGUF file, or as a folder");
  add_model(command, "in", flags->in).required();
  command.add_option("out", flags->out, "NAME.gguf, or a folder to make").required();
  add_text(command, "--as", flags->as, "family to read a model_type as that none is for");
  add_text(command, "--type", flags->type,
           "of the matrices: f32, f16, bf16, q8_0, q4_0 (default: as they are)");
  add_text(command, "--split-max-size", flags->split.max_size,
           "write parts NAME-00001-of-0000N.gguf with tensors of so many bytes at most: 500M, 2G");
  add_number(command, whole_number("--split-tensors", 1, 1 << 20), flags->split.tensors,
             "write parts of so many tensors at most");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = convert(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
