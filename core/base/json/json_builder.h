// Builds a JSON value while its text is read, in time proportional to the text, and stops at the
// first fault. nlohmann's own reader compares each key of an object that keeps its order with all
// keys before it, so that a small text with many keys would cost minutes.
//
// It is a template over the JSON type (nlohmann::ordered_json), so that this room needs no library.
#pragma once

#include <cstddef>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json/json_fault.h"
#include "core/base/quote.h"

namespace tenon {

struct JsonLimits {
  size_t levels = 64;
  size_t keys = std::numeric_limits<size_t>::max();  // of one object
  bool once = true;  // each key; else the last value of a key counts, at the place of the first
};

struct JsonFault {
  enum class Kind { none, syntax, levels, keys, twice };
  Kind kind = Kind::none;
  std::string text = {};  // of syntax: what the reader says; of twice: the key
};

template <typename Json>
class JsonBuilder : public Json::json_sax_t {
 public:
  JsonBuilder(const JsonLimits& limits, Json& out) : limits_(limits), out_(out) {}

  JsonFault take_fault() { return std::move(fault_); }

  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(typename Json::number_integer_t value) override { return put(Json(value)); }
  bool number_unsigned(typename Json::number_unsigned_t value) override { return put(Json(value)); }
  bool number_float(typename Json::number_float_t value, const typename Json::string_t&) override {
    return put(Json(value));
  }
  bool string(typename Json::string_t& value) override { return put(Json(std::move(value))); }
  bool binary(typename Json::binary_t& value) override { return put(Json(std::move(value))); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(typename Json::string_t& name) override {
    Open& object = open_.back();
    Members& members = members_of(*object.value);
    object.place = place_of(object, members, name);
    if (object.place < members.size()) {
      return !limits_.once || refuse(JsonFault::Kind::twice, name);
    }
    if (members.size() >= limits_.keys) return refuse(JsonFault::Kind::keys);
    members.emplace_back(std::move(name), Json());
    return true;
  }
  bool parse_error(size_t, const std::string&, const typename Json::exception& error) override {
    return refuse(JsonFault::Kind::syntax, one_line(json_fault(error.what())));
  }

 private:
  using Members = typename Json::object_t;
  struct Open {
    Json* value = nullptr;  // it grows only where its last child is complete
    size_t place = 0;       // of an object: which member the next value is
    std::map<std::string, size_t, std::less<>> places = {};  // by name, once there are many
  };
  // So few keys are compared in turn: a tree would cost more than it saves.
  static constexpr size_t kFewKeys = 16;

  static Members& members_of(Json& object) { return object.template get_ref<Members&>(); }

  // Which member has that name; the number of members where none has.
  static size_t place_of(Open& object, const Members& members, const std::string& name) {
    if (members.size() < kFewKeys) {
      size_t at = 0;
      while (at < members.size() && members.begin()[static_cast<ptrdiff_t>(at)].first != name) ++at;
      return at;
    }
    while (object.places.size() < members.size()) {
      const size_t at = object.places.size();
      object.places.emplace(members.begin()[static_cast<ptrdiff_t>(at)].first, at);
    }
    const auto found = object.places.find(name);
    return found == object.places.end() ? members.size() : found->second;
  }

  Json* place(Json value) {
    Json* to = &out_;
    if (!open_.empty() && open_.back().value->is_array()) {
      open_.back().value->push_back(std::move(value));
      return &open_.back().value->back();
    }
    if (!open_.empty()) {
      const auto at = static_cast<ptrdiff_t>(open_.back().place);
      to = &members_of(*open_.back().value).begin()[at].second;
    }
    *to = std::move(value);
    return to;
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= limits_.levels) return refuse(JsonFault::Kind::levels);
    Json* value = place(std::move(container));
    open_.push_back({value});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool refuse(JsonFault::Kind kind, std::string text = {}) {
    fault_ = {kind, std::move(text)};
    return false;
  }

  const JsonLimits limits_;
  Json& out_;
  std::vector<Open> open_;
  JsonFault fault_;
};

// A whole text. `out` is incomplete where there is a fault.
template <typename Json>
JsonFault build_json(std::string_view text, const JsonLimits& limits, Json& out) try {
  JsonBuilder<Json> builder(limits, out);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take_fault();
} catch (const std::exception& error) {
  return {JsonFault::Kind::syntax, one_line(json_fault(error.what()))};
}

}  // namespace tenon
