// Where the class of a plugin in Python comes from: options of all three interfaces. Each has a
// struct of its own with these members.
#pragma once

#include <tenon/sdk/plugin.h>

#include "plugins/bridge/interpreter.h"

namespace tenon::bridge {

template <typename Options>
inline constexpr OptionSpec kPythonOptions[] = {
    sdk::path<&Options::file>("file", "", "the Python file with the class"),
    sdk::text<&Options::name>("class", "", "the class, where the file has several that would do"),
    sdk::text<&Options::arguments>("arguments", "", "a text that the class is made with, if any"),
    sdk::text<&Options::key>("key", "", "the name of an object of this Python; set by tenon.LLM"),
    sdk::path<&Options::libpython>("libpython", "",
                                   "the library of the Python to run in; empty = this process, or "
                                   "the newest there is"),
};

template <typename Options>
Plugin::Source source_of(const Options& options) {
  return {options.file, options.name, options.arguments, options.key, options.libpython};
}

}  // namespace tenon::bridge
