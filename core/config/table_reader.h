// Reads members of TOML tables and collects what is wrong with them, each with its place.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/number.h"

namespace tenon {

// A value as a number, whatever it is.
WrittenNumber written(const toml::node& node);

class TableReader {
 public:
  // `name` leads messages; `what` says what the keys belong to ("a workload").
  TableReader(std::string name, std::string what, std::vector<std::string>& errors)
      : name_(std::move(name)), what_(std::move(what)), errors_(errors) {}

  // Members that are absent leave `out` as it is, or give nullopt.
  void expect_known(const toml::table& table, std::span<const std::string_view> known);
  void text(const toml::table& table, std::string_view key, std::string& out);
  void flag(const toml::table& table, std::string_view key, bool& out);
  // The member of the spec's name.
  std::optional<int64_t> integer(const toml::table& table, const NumberSpec& spec);
  std::optional<double> real(const toml::table& table, const NumberSpec& spec);
  // A time such as "1.5s", not negative.
  void duration(const toml::table& table, std::string_view key, int64_t& out_ns);

  void error(const toml::source_region& where, const std::string& message);

 private:
  std::string name_;
  std::string what_;
  std::vector<std::string>& errors_;
};

}  // namespace tenon
