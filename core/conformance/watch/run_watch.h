// Whether a kernel's `run` takes memory. A bench puts one around its calls of `run`, once the
// kernel has run the same step before: scratch memory that is kept is there then.
#pragma once

#include <optional>
#include <string>

#include "core/conformance/battery.h"
#include "core/conformance/watch/import_watch.h"

namespace tenon {

class RunWatch {
 public:
  explicit RunWatch(const Subject& subject)
      : imports_(reinterpret_cast<const void*>(subject.descriptor().create)) {}

  void begin() { imports_.begin(); }
  void end() {
    if (!taken_) taken_ = imports_.seen(WatchedCall::memory);
  }
  // `verdict` where it was.
  Finding finding(CaseVerdict verdict, const std::string& instead) const {
    if (!taken_) return {};
    return {verdict, "in a step that it has run twice before, `run` takes memory by " +
                         std::string(taken_->function) + " – " + instead};
  }

 private:
  ImportWatch imports_;
  std::optional<SeenCall> taken_;
};

}  // namespace tenon
