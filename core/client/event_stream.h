// Server-sent events (the HTML standard, 9.2.6), wherever their bytes are cut.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tenon::client {

class EventStream {
 public:
  // `on_data` gets the data of one event, its lines joined by line ends; false ends the reading.
  explicit EventStream(std::function<bool(std::string_view data)> on_data,
                       size_t most_event_bytes = size_t{16} << 20)
      : on_data_(std::move(on_data)), most_bytes_(most_event_bytes) {}

  // False once an event is too long, or on_data had enough: nothing more is taken.
  bool put(std::string_view bytes);
  bool is_too_long() const { return is_too_long_; }

 private:
  bool take_line(std::string_view line);
  bool end_line();

  std::function<bool(std::string_view)> on_data_;
  const size_t most_bytes_;
  std::string line_;  // the beginning of one
  std::string data_;  // of the event so far, each line with its end
  bool has_data_ = false;
  bool after_return_ = false;  // a line feed now belongs to the line before
  bool at_start_ = true;
  bool is_too_long_ = false;
  bool is_over_ = false;
};

}  // namespace tenon::client
