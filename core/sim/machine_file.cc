#include "core/sim/machine_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "core/base/files/mapped_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/table_reader.h"
#include "core/config/toml_parse.h"

namespace tenon::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 16> kKeys = {
    "format",    "title",     "source",  "calibrated", "date",   "memory",     "link",  "bandwidth",
    "attention", "overheads", "product", "network",    "joined", "network_us", "price", "cached"};
constexpr std::array<std::string_view, 2> kCachedKeys = {"bytes", "bandwidth"};
constexpr std::array<std::string_view, 4> kJoinedKeys = {"bandwidth", "latency_us", "most",
                                                         "measured"};
constexpr std::array<std::string_view, 3> kPriceKeys = {"hour", "currency", "source"};
constexpr std::array<std::string_view, 3> kAttentionKeys = {"operations", "decode", "prompt"};
constexpr std::array<std::string_view, 5> kOverheadKeys = {"step_us", "layer_us", "memory_layer_us",
                                                           "sequence_us", "logits_us"};
constexpr std::array<std::string_view, 4> kProductKeys = {"format", "operations", "rows", "share"};
constexpr size_t kMostBytes = size_t{1} << 20;
// Any number; check_machine() says what is wrong with it.
constexpr double kAny = 1e30;

class MachineReader {
 public:
  MachineReader(const std::string& name, std::vector<std::string>& errors)
      : reader_(name, "a machine", errors) {}

  Machine read(const toml::table& table) {
    reader_.expect_known(table, kKeys);
    need(table, "",
         {{"format", "1"},
          {"memory", "\"80GiB\""},
          {"bandwidth", "3.35e12, bytes a second"},
          {"link", "5.5e10, bytes a second"},
          {"attention", "a table [attention] with operations = 9.89e14"},
          {"product", "a table [[product]] for each format of weights"}});
    (void)reader_.integer(table, whole_number("format", 1, 1));
    reader_.text(table, "title", out_.title);
    reader_.text(table, "source", out_.source);
    reader_.flag(table, "calibrated", out_.calibrated);
    reader_.text(table, "date", out_.date);
    read_memory(table);
    real(table, "bandwidth", 1, out_.bandwidth);
    real(table, "link", 1, out_.link_bandwidth);
    real(table, "network", 1, out_.network_bandwidth);
    real(table, "network_us", 1e3, out_.network_ns);
    if (const toml::table* cached = part(table, "cached")) {
      reader_.expect_known(*cached, kCachedKeys);
      need(*cached, "cached.", {{"bytes", "[4e6, 6.4e7]"}, {"bandwidth", "[1e11, 5e10]"}});
      numbers(*cached, "bytes", out_.cached.bytes);
      numbers(*cached, "bandwidth", out_.cached.bandwidths);
    }
    if (const toml::table* joined = part(table, "joined")) read_joined(*joined);
    if (const toml::table* price = part(table, "price")) {
      reader_.expect_known(*price, kPriceKeys);
      need(*price, "price.", {{"hour", "2.69"}});
      real(*price, "hour", 1, out_.price.hour);
      reader_.text(*price, "currency", out_.price.currency);
      reader_.text(*price, "source", out_.price.source);
    }
    if (const toml::table* attention = part(table, "attention")) {
      reader_.expect_known(*attention, kAttentionKeys);
      need(*attention, "attention.", {{"operations", "9.89e14, a second"}});
      real(*attention, "operations", 1, out_.attention_operations);
      real(*attention, "decode", 1, out_.decode_share);
      real(*attention, "prompt", 1, out_.prompt_share);
    }
    if (const toml::table* overheads = part(table, "overheads")) {
      reader_.expect_known(*overheads, kOverheadKeys);
      real(*overheads, "step_us", 1e3, out_.step_ns);
      real(*overheads, "layer_us", 1e3, out_.layer_ns);
      real(*overheads, "memory_layer_us", 1e3, out_.memory_layer_ns);
      real(*overheads, "sequence_us", 1e3, out_.sequence_ns);
      real(*overheads, "logits_us", 1e3, out_.logits_ns);
    }
    read_products(table);
    return std::move(out_);
  }

 private:
  struct Needed {
    std::string_view key, such_as;
  };
  // A key that is not there has no value that could be wrong.
  void need(const toml::table& table, const std::string& of, std::initializer_list<Needed> keys) {
    for (const Needed& each : keys) {
      if (table.get(each.key) != nullptr) continue;
      const bool is_table = each.such_as.starts_with("a table");
      reader_.error(table.source(), in_quotes(of + std::string(each.key)) + " is missing – write " +
                                        (is_table ? "" : std::string(each.key) + " = ") +
                                        std::string(each.such_as));
    }
  }
  void read_memory(const toml::table& table) {
    std::string text;
    reader_.text(table, "memory", text);
    const auto bytes = parse_bytes(text);
    if (bytes && *bytes >= 0) {
      out_.memory_bytes = static_cast<uint64_t>(*bytes);
    } else if (const toml::node* node = table.get("memory")) {
      if (node->is_string()) {
        reader_.error(node->source(),
                      "'memory' must be a size such as \"80GiB\", not " + in_quotes(text));
      }
    }
  }

  void read_joined(const toml::table& joined) {
    reader_.expect_known(joined, kJoinedKeys);
    need(joined, "joined.", {{"bandwidth", "4.5e11, bytes a second"}, {"most", "8"}});
    real(joined, "bandwidth", 1, out_.joined.bandwidth);
    real(joined, "latency_us", 1e3, out_.joined.latency_ns);
    if (const auto most = reader_.integer(joined, whole_number("most", 1, 64))) {
      out_.joined.most = static_cast<uint32_t>(*most);
    }
    reader_.flag(joined, "measured", out_.joined.measured);
  }

  void real(const toml::table& table, std::string_view key, double unit, double& out) {
    if (const auto value = reader_.real(table, real_number(key, -kAny, kAny))) out = *value * unit;
  }

  const toml::table* part(const toml::table& table, std::string_view key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return nullptr;
    if (node->as_table() == nullptr) {
      reader_.error(node->source(), in_quotes(key) + " must be a table");
    }
    return node->as_table();
  }

  void read_products(const toml::table& table) {
    const toml::node* node = table.get("product");
    if (node == nullptr) return;
    const toml::array* list = node->as_array();
    if (list == nullptr) return reader_.error(node->source(), "write [[product]], one a format");
    for (const toml::node& each : *list) {
      const toml::table* product = each.as_table();
      if (product == nullptr) {
        reader_.error(each.source(), "a product must be a table");
        continue;
      }
      reader_.expect_known(*product, kProductKeys);
      need(*product, "product.",
           {{"format", "\"bf16\""},
            {"operations", "9.89e14, a second"},
            {"rows", "[1, 512]"},
            {"share", "[0.8, 0.4]"}});
      ProductRate rate;
      reader_.text(*product, "format", rate.format);
      real(*product, "operations", 1, rate.operations);
      numbers(*product, "rows", rate.rows);
      numbers(*product, "share", rate.shares);
      out_.products.push_back(std::move(rate));
    }
  }

  void numbers(const toml::table& table, std::string_view key, std::vector<double>& out) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    const toml::array* list = node->as_array();
    if (list == nullptr) {
      return reader_.error(node->source(), in_quotes(key) + " must be a list of numbers");
    }
    for (const toml::node& each : *list) {
      const auto value = each.value<double>();
      if (!value) {
        reader_.error(each.source(), in_quotes(key) + " must be a list of numbers");
        return;
      }
      out.push_back(*value);
    }
  }

  TableReader reader_;
  Machine out_;
};

// Four digits are more than any of these figures is known to.
std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string list_of(const std::vector<double>& values) {
  std::vector<std::string> parts;
  for (const double value : values) parts.push_back(digits(value));
  return "[" + join(parts) + "]";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') out += '\\';
    out += each;
  }
  return out + "\"";
}

}  // namespace

Result<Machine> parse_machine(std::string_view text, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, name));
  std::vector<std::string> errors;
  Machine machine = MachineReader(name, errors).read(table);
  if (!errors.empty()) return invalid_argument(join(errors, "\n"));
  machine.name = fs::path(name).stem().string();
  machine.file = name;
  if (machine.title.empty()) machine.title = machine.name;
  if (const Status status = check_machine(machine); !status.ok()) {
    return invalid_argument(name + ": " + message_of(status));
  }
  return machine;
}

std::string machine_toml(const Machine& machine) {
  std::string out = "# docs/formats/machine-toml.md says what the figures mean.\nformat = 1\n";
  out += "title = " + quoted(machine.title) + "\nsource = " + quoted(machine.source) + "\n";
  out += std::string("calibrated = ") + (machine.calibrated ? "true" : "false") + "\n";
  if (!machine.date.empty()) out += "date = " + quoted(machine.date) + "\n";
  out += "memory = " + quoted(format_bytes(static_cast<int64_t>(machine.memory_bytes))) + "\n";
  out += "bandwidth = " + digits(machine.bandwidth) + "  # bytes a second\n";
  out += "link = " + digits(machine.link_bandwidth) + "\n";
  if (machine.network_bandwidth > 0) {
    out += "network = " + digits(machine.network_bandwidth) +
           "\nnetwork_us = " + digits(machine.network_ns * 1e-3) + "\n";
  }
  if (!machine.cached.bytes.empty()) {
    out += "\n[cached]\nbytes = " + list_of(machine.cached.bytes) +
           "\nbandwidth = " + list_of(machine.cached.bandwidths) + "\n";
  }
  out += "\n[attention]\noperations = " + digits(machine.attention_operations) +
         "\ndecode = " + digits(machine.decode_share) +
         "\nprompt = " + digits(machine.prompt_share) + "\n";
  out +=
      "\n[overheads]\nstep_us = " + digits(machine.step_ns * 1e-3) +
      "\nlayer_us = " + digits(machine.layer_ns * 1e-3) +
      (machine.memory_layer_ns > 0 ? "\nmemory_layer_us = " + digits(machine.memory_layer_ns * 1e-3)
                                   : "") +
      "\nsequence_us = " + digits(machine.sequence_ns * 1e-3) +
      "\nlogits_us = " + digits(machine.logits_ns * 1e-3) + "\n";
  if (machine.joined.most > 1) {
    out += "\n[joined]\nbandwidth = " + digits(machine.joined.bandwidth) +
           "\nlatency_us = " + digits(machine.joined.latency_ns * 1e-3) +
           "\nmost = " + std::to_string(machine.joined.most) +
           "\nmeasured = " + (machine.joined.measured ? "true" : "false") + "\n";
  }
  if (machine.price.hour > 0) {
    out += "\n[price]\nhour = " + digits(machine.price.hour) +
           "\ncurrency = " + quoted(machine.price.currency) +
           "\nsource = " + quoted(machine.price.source) + "\n";
  }
  for (const ProductRate& rate : machine.products) {
    out += "\n[[product]]\nformat = " + quoted(rate.format) +
           "\noperations = " + digits(rate.operations) + "\nrows = " + list_of(rate.rows) +
           "\nshare = " + list_of(rate.shares) + "\n";
  }
  return out;
}

std::vector<std::string> machine_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Machine> read_machine(const std::string& name_or_path, const std::string& folder) {
  const bool file = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".toml");
  const std::string path = file ? name_or_path : folder + "/" + name_or_path + ".toml";
  if (!file && !is_there(path)) {
    const std::vector<std::string> names = machine_names(folder);
    return not_found("there is no machine " + in_quotes(name_or_path) + "; there are " +
                     join(names) + did_you_mean(name_or_path, names) +
                     "; a file is named with a / or by its .toml");
  }
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMostBytes));
  return parse_machine(text, path);
}

}  // namespace tenon::sim
