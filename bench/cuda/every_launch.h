// Every kernel, launched once in each of its sizes, for those who ask what a launch asks for. No
// array is there: only a machine that runs no thread can take these.
#pragma once

namespace tenon::cuda::bench {

// False when one was refused.
bool launch_every_kernel();

}  // namespace tenon::cuda::bench
