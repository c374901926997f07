// Reads the members of one JSON object by name. The first fault is kept, and members that nobody
// asked for and no table knows are one: nothing that a client writes is dropped silently.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/server/api/read/field_table.h"
#include "core/server/api/read/json.h"

namespace tenon::api {

class Fields {
 public:
  // `where` comes before names in messages: "messages[2]"; empty for the body.
  explicit Fields(const Json& object, std::string where = {})
      : object_(object), where_(std::move(where)) {}

  // A member that is there and not null, else null.
  const Json* take(std::string_view name);
  bool flag(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string otherwise = {});
  // Absent members, and those out of range, are none.
  std::optional<int64_t> whole(std::string_view name, int64_t least, int64_t most);
  // A name for ignored(), once; after the 64th they are "others".
  void note_ignored(std::string_view name);
  // What was found in an object within this one: its fault, and what has no effect.
  void absorb(const Fields& inner);

  // Keeps the fault, unless there was one before.
  void refuse(std::string_view name, const std::string& sentence, std::string code = {});
  void refuse(ApiError error);

  // What nobody took: the table of fields says what becomes of it at `place`. Members that are
  // unknown there are refused, with the nearest name that is known; null asks for nothing.
  void settle(Place place = Place::other);
  bool ok() const { return !fault_; }
  const std::optional<ApiError>& fault() const { return fault_; }
  const std::vector<std::string>& ignored() const { return ignored_; }
  const Json& object() const { return object_; }
  // "messages[2].role"
  std::string path(std::string_view name) const;

 private:
  void settle(Place place, const std::string& name, const Json& value);

  const Json& object_;
  const std::string where_;
  std::set<std::string, std::less<>> asked_;
  std::vector<std::string> ignored_;
  std::optional<ApiError> fault_;
};

}  // namespace tenon::api
