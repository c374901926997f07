#include "core/tokenizer/files/json_reader.h"

#include <array>
#include <limits>
#include <utility>

#include "core/base/json/json_fault.h"
#include "core/base/quote.h"

namespace tenon::tok {
namespace {

using nlohmann::json;

constexpr size_t kDeepest = 64;
constexpr size_t kMostValues = size_t{1} << 20;

// Builds the document as the parser walks the text, and stops it at the first fault.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(TokenizerJson& out, bool has_tables) : out_(out), has_tables_(has_tables) {}

  const std::string& fault() const { return fault_; }

  bool null() override { return scalar(json()); }
  bool boolean(bool value) override { return scalar(json(value)); }
  bool number_integer(int64_t value) override { return whole(value, json(value)); }
  bool number_unsigned(uint64_t value) override {
    const bool fits = value <= uint64_t{std::numeric_limits<int64_t>::max()};
    return whole(fits ? static_cast<int64_t>(value) : -1, json(value));
  }
  bool number_float(double value, const std::string&) override { return scalar(json(value)); }
  bool string(std::string& value) override {
    if (table_ == Table::merges) return merge_text(value);
    return scalar(json(std::move(value)));
  }
  bool binary(json::binary_t&) override { return fail("a binary value"); }

  bool key(std::string& key) override {
    key_ = std::move(key);
    return true;
  }

  bool start_object(size_t) override {
    if (table_ != Table::none) return table_ == Table::skipped ? skip() : wrong_table();
    if (is_table("vocab")) {
      out_.vocab.emplace();
      return enter(Table::vocab);
    }
    return open(json::object());
  }
  bool start_array(size_t) override {
    if (table_ == Table::merges && table_depth_ == 1) {
      pair_.clear();
      ++table_depth_;
      return true;
    }
    if (table_ != Table::none) return table_ == Table::skipped ? skip() : wrong_table();
    // A list of pieces belongs to models that are refused by their type, which may come later.
    if (is_table("vocab")) return enter(Table::skipped);
    if (is_table("merges")) {
      out_.merges.emplace();
      return enter(Table::merges);
    }
    return open(json::array());
  }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (table_ == Table::merges && table_depth_ == 2 && !end_pair()) return false;
    return close();
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    // "parse error at line 1, column 2: …" of what is no JSON at all: the end says enough.
    std::string text = json_fault(error.what());
    const size_t colon = text.find(": ");
    if (text.starts_with("parse error") && colon != text.npos) text.erase(0, colon + 2);
    return fail("not JSON at byte " + std::to_string(position) + ": " + text);
  }

 private:
  enum class Table { none, vocab, merges, skipped };

  bool fail(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }
  bool wrong_table() {
    return fail(table_ == Table::vocab ? "model.vocab is no object of pieces and ids"
                                       : "model.merges is no list of pairs");
  }

  bool is_table(std::string_view name) const {
    return has_tables_ && stack_.size() == 2 && is_in_model_ && key_ == name;
  }
  bool enter(Table table) {
    if (std::exchange(seen_[static_cast<size_t>(table)], true)) {
      return fail("the key " + in_quotes(key_) + " stands twice in one object");
    }
    table_ = table;
    table_depth_ = 1;
    return true;
  }
  bool skip() {
    ++table_depth_;
    return true;
  }
  bool close() {
    if (table_ == Table::none) {
      stack_.pop_back();
    } else if (--table_depth_ == 0) {
      table_ = Table::none;
    }
    return true;
  }

  bool whole(int64_t value, json number) {
    if (table_ != Table::vocab) return scalar(std::move(number));
    out_.vocab->push_back({std::move(key_), value});
    return true;
  }

  bool scalar(json value) {
    if (table_ == Table::skipped) return true;
    if (table_ != Table::none) return wrong_table();
    return place(std::move(value)) != nullptr;
  }
  bool open(json container) {
    if (stack_.size() == kDeepest) {
      return fail("it is nested deeper than " + std::to_string(kDeepest) + " levels");
    }
    const bool is_model = stack_.size() == 1 && key_ == "model";
    json* placed = place(std::move(container));
    if (placed == nullptr) return false;
    stack_.push_back(placed);
    if (stack_.size() == 2) is_in_model_ = is_model;
    return true;
  }
  json* place(json value) {
    if (++values_ > kMostValues) {
      fail("it has more than " + std::to_string(kMostValues) + " values");
      return nullptr;
    }
    if (stack_.empty()) {
      out_.document = std::move(value);
      return &out_.document;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    const auto [member, is_new] = parent.emplace(key_, std::move(value));
    if (is_new) return &*member;
    fail("the key " + in_quotes(key_) + " stands twice in one object");
    return nullptr;
  }

  // "left right", or a part of ["left", "right"].
  bool merge_text(std::string& value) {
    if (table_depth_ == 2) {
      pair_.push_back(std::move(value));
      return pair_.size() <= 2 || wrong_table();
    }
    if (value.starts_with("#version")) return true;
    const size_t space = value.find(' ');
    if (space == std::string::npos || value.find(' ', space + 1) != std::string::npos) {
      return fail("merge " + std::to_string(out_.merges->size() + 1) + " is " + in_quotes(value) +
                  "; expected two pieces with one space between them");
    }
    out_.merges->emplace_back(value.substr(0, space), value.substr(space + 1));
    return true;
  }
  bool end_pair() {
    if (pair_.size() != 2) return wrong_table();
    out_.merges->emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    return true;
  }

  TokenizerJson& out_;
  bool has_tables_;
  std::vector<json*> stack_;  // the open containers of the document
  std::string key_;
  size_t values_ = 0;
  bool is_in_model_ = false;
  Table table_ = Table::none;
  std::array<bool, 4> seen_{};  // by Table
  size_t table_depth_ = 0;
  std::vector<std::string> pair_;
  std::string fault_;
};

Result<TokenizerJson> parse(std::string_view text, bool has_tables) {
  TokenizerJson out;
  Builder builder(out, has_tables);
  try {
    if (!json::sax_parse(text.begin(), text.end(), &builder)) {
      return invalid_argument(builder.fault());
    }
  } catch (const std::exception& error) {
    return invalid_argument("cannot be read as JSON: " + json_fault(error.what()));
  }
  if (!out.document.is_object()) return invalid_argument("the document is no JSON object");
  return out;
}

}  // namespace

Result<TokenizerJson> parse_tokenizer_json(std::string_view text) {
  return parse(text, true);
}

Result<nlohmann::json> parse_json(std::string_view text) {
  TENON_ASSIGN_OR_RETURN(TokenizerJson out, parse(text, false));
  return std::move(out.document);
}

}  // namespace tenon::tok
