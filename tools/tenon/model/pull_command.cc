// `tenon model pull`: brings a model from the hub.
#include <memory>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/hub/pull/pull.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct PullFlags {
  std::string name;
  std::vector<std::string> patterns;
};

Status pull_model(const PullFlags& flags) {
  const auto name = hub::parse_model_name(flags.name);
  if (!name) {
    return invalid_argument(in_quotes(flags.name) +
                            " is no name of a model; expected OWNER/NAME, with @REVISION after it "
                            "if need be, or OWNER/NAME/FILE.gguf");
  }
  Progress progress("bringing", Progress::Unit::transfer, true);
  hub::PullRequest request{.name = *name, .patterns = flags.patterns, .progress = {}};
  request.progress = [&](uint64_t done, uint64_t total) { progress.update(done, total); };
  TENON_ASSIGN_OR_RETURN(const hub::Pulled pulled, hub::pull(request));
  progress.wipe();
  putf("%s is at %s: %zu files, %s, of which %s came now\n", one_line(name->text()).c_str(),
       pulled.commit.c_str(), pulled.files, approximate_bytes(pulled.bytes).c_str(),
       approximate_bytes(pulled.brought_bytes).c_str());
  putf("%s\n", one_line(pulled.path, kMostPathBytes).c_str());
  return {};
}

}  // namespace

void add_model_pull(Command model, Action& action) {
  auto flags = std::make_shared<PullFlags>();
  Command command = model.add_subcommand("pull", "Bring a model from the Hugging Face hub");
  add_text(command, "name", flags->name, "OWNER/NAME, OWNER/NAME@REVISION, OWNER/NAME/FILE.gguf")
      .required();
  add_texts(command, "--file", flags->patterns,
            "these files instead of all that the model needs: --file '*Q8_0*'");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = pull_model(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
