// The conversation itself: turns from a terminal or from standard input, answers to standard
// output.
#pragma once

#include "tools/tenon/chat/session.h"

namespace tenon {

// Until the input ends. The exit status: 0, or 1 where a turn of a program could not be answered,
// or what a signal ended. Errors: the pipeline cannot be opened.
Result<int> talk(const ChatFlags& flags);

}  // namespace tenon
