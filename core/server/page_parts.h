// The page as the build embeds it (tools/cmake/TenonPage.cmake), in the order of its text.
#pragma once

#include <string_view>

namespace tenon::server {

struct PageParts {
  std::string_view head;
  std::string_view styles;  // all that the page's style element has
  std::string_view middle;
  std::string_view scripts;  // all that its script element has
  std::string_view tail;
};
extern const PageParts kPageParts;

}  // namespace tenon::server
