// The lines of a request's head as they come. A parser mends, or accepts, what others before
// this server may read in another way: that is refused, with a sentence each.
#pragma once

#include <string>
#include <string_view>

namespace tenon::http {

class HeadLines {
 public:
  // Looks at more bytes, up to the end of the head. Empty: nothing is wrong with them.
  std::string_view fault_in(std::string_view bytes);

 private:
  std::string_view take(char c);
  std::string_view end_line();

  std::string line_;  // what is there of it; of a field, its name and the colon
  char before_ = 0;
  bool is_first_ = true;
  bool has_colon_ = false;
  bool has_ended_ = false;
};

}  // namespace tenon::http
