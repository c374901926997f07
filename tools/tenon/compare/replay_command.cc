// `tenon compare replay`: another scheduler over the views that one had.
#include <memory>

#include "core/base/quote.h"
#include "core/compare/replay/views.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"

namespace tenon {
namespace {

struct ViewsFlags {
  std::string folder;
  uint32_t arm = 0;
  PipelineFlags pipeline;
};

Status replay_recorded(ViewsFlags flags) {
  const std::string number = std::to_string(flags.arm);
  if (flags.pipeline.config.empty())
    flags.pipeline.config = flags.folder + "/arm" + number + ".toml";
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  TENON_ASSIGN_OR_RETURN(const compare::ReplayedViews found,
                         compare::replay_views(*opened.pipeline->parts().scheduler,
                                               flags.folder + "/views" + number + ".jsonl"));
  putf("%llu plans are alike%s\n", static_cast<unsigned long long>(found.plans),
       found.differ ? ", then the first that is not:" : ": every one");
  for (const std::string& line : found.lines) put(printable(line) + "\n");
  return {};
}

}  // namespace

void add_compare_replay(Command compare, Action& action) {
  auto flags = std::make_shared<ViewsFlags>();
  Command command = compare.add_subcommand(
      "replay", "Show where another scheduler decides otherwise over views that were recorded");
  add_text(command, "folder", flags->folder, "folder of results, made with --record").required();
  add_number(command, whole_number("--of", 0, 1000), flags->arm,
             "whose views: 0 the base (default), 1 the first arm, …");
  flags->pipeline.add_to(command);
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = replay_recorded(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
