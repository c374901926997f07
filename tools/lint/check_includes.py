#!/usr/bin/env python3
"""A source includes what it uses of the headers that are precompiled, itself or by headers of this
project: the compiler does not see that such an #include is missing.

    tools/lint/check_includes.py ROOT

Prints what is missing; exit status 1 when anything is. A name of `std` counts that NAMES lists. What
else a header of the standard library includes is left to the library, but for what no library can do
without (PROVIDED).
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cmake"))
from together import COMMENT, LITERAL, Headers, written  # noqa: E402

FOLDERS = ("bench", "core", "plugins", "sdk", "tests", "tools")
NAMES = {
    "algorithm": "sort stable_sort max_element min_element minmax_element all_of any_of none_of find_if "
                 "find_if_not count_if copy_n copy_if fill_n transform lower_bound upper_bound equal_range "
                 "binary_search nth_element partial_sort rotate reverse unique remove_if clamp includes "
                 "set_intersection lexicographical_compare is_sorted shuffle partition stable_partition",
    "array": "array to_array",
    "atomic": "atomic atomic_flag atomic_thread_fence memory_order_acquire memory_order_release "
              "memory_order_relaxed",
    "bit": "bit_cast popcount countr_zero countl_zero bit_ceil bit_floor bit_width endian has_single_bit",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cmath": "sqrt exp log pow fabs isnan isinf isfinite ceil floor lround llround nearbyint round log2 exp2 "
             "tanh ldexp frexp lrint fma hypot trunc",
    "cstddef": "byte max_align_t",
    "cstdint": "uint8_t int8_t uint16_t int16_t uint32_t int32_t uint64_t int64_t uintptr_t",
    "cstdio": "fprintf printf snprintf fputs fwrite fread fopen fclose FILE",
    "cstdlib": "getenv abort exit malloc free strtod strtol system",
    "cstring": "memcpy memset memmove memcmp strlen strcmp strerror strncmp strchr strstr",
    "filesystem": "filesystem",
    "fstream": "ifstream ofstream fstream",
    "functional": "function bind reference_wrapper ref cref invoke",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this",
    "mutex": "mutex lock_guard unique_lock scoped_lock recursive_mutex once_flag call_once",
    "numeric": "accumulate iota inner_product partial_sum reduce gcd lcm midpoint",
    "optional": "optional nullopt make_optional",
    "random": "mt19937 mt19937_64 uniform_int_distribution uniform_real_distribution normal_distribution "
              "random_device",
    "set": "set multiset",
    "span": "span as_bytes as_writable_bytes",
    "sstream": "ostringstream istringstream stringstream",
    "string": "string to_string stoi stol stod stoul getline",
    "string_view": "string_view",
    "thread": "thread jthread this_thread",
    "unordered_map": "unordered_map unordered_multimap",
    "utility": "exchange pair make_pair in_range",
    "variant": "variant visit get_if holds_alternative monostate",
    "vector": "vector",
}
# GoogleTest has macros instead of names.
MACROS = {"gtest/gtest.h": r"\bTEST(?:_F|_P)?\(|\bEXPECT_(?:TRUE|EQ)\(", "gmock/gmock.h": r"\b(?:EXPECT|ASSERT)_THAT\("}
WITH_STRINGS = "filesystem fstream sstream iostream random stdexcept system_error iomanip"
PROVIDED = {
    **{header: {"string", "string_view"} for header in WITH_STRINGS.split()},
    **{header: {"utility"} for header in ("map", "unordered_map", "memory", "algorithm", "variant", "optional")},
    "string": {"string_view"}, "mutex": {"chrono"}, "thread": {"chrono", "atomic"},
    "condition_variable": {"mutex", "chrono"}, "span": {"array", "cstddef"},
    "future": {"mutex", "thread", "chrono", "memory", "functional"},
    "stop_token": {"atomic"}, "shared_mutex": {"chrono"}, "semaphore": {"chrono"},
    "gmock/gmock.h": {"gtest/gtest.h"},
}
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", re.MULTILINE)
USED = re.compile(r"\bstd::(\w+)")
HEADERS_OF = {name: header for header, names in NAMES.items() for name in names.split()}


def precompiled(root):
    """The headers that tools/cmake/TenonPrecompiled.cmake lists."""
    text = (root / "tools/cmake/TenonPrecompiled.cmake").read_text()
    return {header for part in re.findall(r"set\(TENON_PRECOMPILED\w*HEADERS([^)]*)\)", text)
            for header in re.findall(r"<([^>]+)>", part)}


def missing_in(path, headers):
    """(name, header) of what a source uses and does not include."""
    files = {path} | headers.seen_by(path)
    included = {header for file in files for header in INCLUDE.findall(written(file))}
    for header in list(included):
        included |= PROVIDED.get(header, set())
    text = LITERAL.sub('""', COMMENT.sub("", written(path)))
    used = {(f"std::{name}", HEADERS_OF[name]) for name in USED.findall(text) if name in HEADERS_OF}
    used |= {(found[0].rstrip("("), header) for header, macro in MACROS.items() if (found := re.search(macro, text))}
    return sorted((name, header) for name, header in used if header not in included)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    unknown = precompiled(root) - NAMES.keys() - MACROS.keys()
    complaints = [f"tools/lint/check_includes.py: no name of <{header}> is listed, which is precompiled"
                  for header in sorted(unknown)]
    headers = Headers(root)
    paths = sorted(path for folder in FOLDERS for kind in ("*.cc", "*.h") for path in (root / folder).rglob(kind))
    for path in paths:
        complaints += [f"{path.relative_to(root)}: uses {used} without #include <{header}>"
                       for used, header in missing_in(path, headers)]
    print("\n".join(complaints) if complaints else f"{len(paths)} sources include what they use")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
