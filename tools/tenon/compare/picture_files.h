// The pictures of a report as files of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/report/pages/picture.h"

namespace tenon {

enum class PictureFormat : uint8_t { svg = 0, png = 1, both = 2 };
// "svg", "png", "both"; null of any other word.
std::optional<PictureFormat> picture_format(std::string_view word);

// OK where this machine can make PNGs: it has librsvg, which is looked for when it is asked for.
// Error: what to install.
Status png_available();
// Writes each picture as FOLDER/pictures/NAME.svg, .png or both; `caption` stands below it. PNGs
// have two pixels a unit. Gives back the paths.
Result<std::vector<std::string>> write_pictures(const std::vector<Picture>& pictures,
                                                const std::string& caption,
                                                const std::string& folder, PictureFormat format);

}  // namespace tenon
