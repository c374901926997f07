#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/format.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr size_t kWidest = size_t{1} << 20;

class PercentFormatter {
 public:
  PercentFormatter(const MarkedText& format, const Value& values, Budget& budget)
      : format_(format), bytes_(format.bytes()), values_(values), out_(budget) {}

  Result<Value> run() {
    while (at_ < bytes_.size()) {
      const size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
      out_.add(format_, at_, percent);
      at_ = percent;
      if (at_ < bytes_.size()) TENON_RETURN_IF_ERROR(add_field());
    }
    const List* tuple = values_.list();
    const bool is_tuple = tuple != nullptr && tuple->kind == ListKind::tuple;
    const size_t count = is_tuple ? tuple->items.size() : 1;
    const bool may_be_left = values_.dict() != nullptr || (tuple != nullptr && !is_tuple);
    if (taken_ < count && !may_be_left) {
      return invalid_argument("not all values were used by the format");
    }
    return make_text(out_.budget(), out_.take());
  }

 private:
  char peek() const { return at_ < bytes_.size() ? bytes_[at_] : '\0'; }

  Result<Value> next_value() {
    const List* tuple = values_.list();
    const bool is_tuple = tuple != nullptr && tuple->kind == ListKind::tuple;
    const size_t count = is_tuple ? tuple->items.size() : 1;
    if (taken_ >= count) return invalid_argument("the format needs more values than there are");
    ++taken_;
    return is_tuple ? tuple->items[taken_ - 1] : values_;
  }

  Result<Value> named_value() {
    const size_t end = bytes_.find(')', at_);
    if (end == std::string_view::npos) return invalid_argument("a format's name has no end");
    const std::string_view name = bytes_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const Value* found = values_.dict() == nullptr ? nullptr : values_.dict()->find(name);
    if (found == nullptr) return invalid_argument("a format names a value that there is not");
    return *found;
  }

  Result<size_t> number() {
    size_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<size_t>(peek() - '0');
      if (value > kWidest) return invalid_argument("a format is too wide");
    }
    return value;
  }

  Status add_field() {
    ++at_;
    std::optional<Value> value;
    if (peek() == '(') {
      TENON_ASSIGN_OR_RETURN(value, named_value());
    }
    FormatSpec spec;
    bool pads_zeros = false;
    for (bool is_flag = true; is_flag;) {
      const char flag = peek();
      is_flag = flag == '-' || flag == '+' || flag == ' ' || flag == '#' || flag == '0';
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') pads_zeros = true;
      if (is_flag) ++at_;
    }
    TENON_ASSIGN_OR_RETURN(spec.width, number());
    if (peek() == '.') {
      ++at_;
      TENON_ASSIGN_OR_RETURN(const size_t precision, number());
      spec.precision = static_cast<int>(precision);
    }
    spec.type = peek();
    if (spec.type == '\0') return invalid_argument("a format ends in the middle of a field");
    ++at_;
    if (spec.type == '%') {
      out_.add("%");
      return Status();
    }
    if (!value) {
      TENON_ASSIGN_OR_RETURN(value, next_value());
    }
    if (pads_zeros && spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    return add_value(*value, spec);
  }

  Status add_value(const Value& value, FormatSpec spec) {
    if (spec.type == 's' || spec.type == 'r') {
      TextBuilder text(out_.budget());
      TENON_RETURN_IF_ERROR(spec.type == 's' ? add_text(value, text)
                                             : add_representation(value, text));
      MarkedText shown = text.take();
      if (spec.precision >= 0) {
        shown.truncate(byte_of_character(shown.bytes(), static_cast<size_t>(spec.precision)));
      }
      if (spec.align == '=') spec.fill = " ";
      add_aligned(shown, spec, '>', out_);
      return Status();
    }
    static constexpr std::string_view kTypes = "diuxXofFeEgG";
    if (kTypes.find(spec.type) == std::string_view::npos) {
      return invalid_argument("a format has a field '%" + std::string(1, spec.type) +
                              "', which is not supported");
    }
    Value number = value;
    if (spec.type == 'd' || spec.type == 'i' || spec.type == 'u') {
      spec.type = 'd';
      if (value.is_real()) number = static_cast<Integer>(value.real());
    }
    TENON_ASSIGN_OR_RETURN(std::string digits, format_number(number, spec));
    add_aligned(MarkedText(std::move(digits), true), spec, '>', out_);
    return Status();
  }

  const MarkedText& format_;
  std::string_view bytes_;
  const Value& values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t taken_ = 0;
};

}  // namespace

Result<Value> format_percent(const MarkedText& format, const Value& values, Budget& budget) {
  return PercentFormatter(format, values, budget).run();
}

}  // namespace tenon::chat
