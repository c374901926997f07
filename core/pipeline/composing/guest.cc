// Guests of executors: libraries that make products in place of linear kernels, and that [linear]
// names as it names those.
#include <algorithm>
#include <iterator>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {

Status invite_guest(const PipelineConfig& config, Executor& executor) {
  const auto& name = config.linear.plugin;
  if (executor.uses_kernels() || std::ranges::count(executor.guests(), name.value) == 0) return {};
  const Status invited = executor.invite(name.value);
  return invited.ok() ? Status() : with_context(name.origin.text(), invited);
}

std::string but_guests(const Executor& executor) {
  std::vector<std::string> names;
  for (const std::string_view guest : executor.guests()) names.push_back(shown_text(guest));
  return names.empty() ? "" : " but " + join(names);
}

Status not_a_plugin(const Configured<std::string>& name, const Status& unknown) {
  const auto* const guest = std::ranges::find(kKnownGuests, name.value, &KnownGuest::name);
  if (guest == std::end(kKnownGuests)) return copy(unknown);
  return unsupported(name.origin.text() + ": linear " + shown_text(guest->name) +
                     " is no plugin but a guest of the executor " + shown_text(guest->executor) +
                     "; set executor.plugin = " + shown_text(guest->executor) +
                     ", or linear.plugin = \"auto\"");
}

}  // namespace tenon
