// What a fit looks like.
#pragma once

#include "core/report/pages/picture.h"
#include "core/sim/fit.h"

namespace tenon {

// Left: predicted over measured, both logarithmic, on a line where they are equal. Right: the error
// of each step in percent over its measured time. Steps that were held out have a colour of their
// own.
Picture fit_picture(const sim::Fit& fit);

}  // namespace tenon
