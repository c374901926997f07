// What `tenon plugins check` found, as one page: no network, no scripts.
#pragma once

#include <string>

#include "tools/tenon/plugins/check_report.h"

namespace tenon {

std::string check_page(const CheckReport& report);

}  // namespace tenon
