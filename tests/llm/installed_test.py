#!/usr/bin/env python3
"""Programs that embed Tenon, built against an installed tree that was moved: they say what `tenon run` says, and find
plugins, pipelines and the bundled model by the place of libtenon, whatever program loads it.

  TENON_BUILD_DIR=build/dev python3 tests/llm/installed_test.py"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"]).resolve()
CACHE = (BUILD / "CMakeCache.txt").read_text()
SANITIZED = re.search(r"^TENON_SANITIZE:\w+=(.*)$", CACHE, re.M)[1]
PROMPT = "Once upon a time"

# Tokens of an answer through the C interface, from a process that is no program of ours.
THROUGH_CTYPES = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
P, S, U, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int32
class Setting(ctypes.Structure): _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]
class Request(ctypes.Structure):
    _fields_ = [("size", U), ("want", I), ("text", ctypes.c_char_p), ("text_bytes", S), ("tokens", P), ("token_count", S),
                ("messages", P), ("message_count", S), ("settings", ctypes.POINTER(Setting)), ("setting_count", S),
                ("on_delta", P), ("on_end", P), ("user", P)]
class Answer(ctypes.Structure):
    _fields_ = [("size", U), ("finish", I), ("text", ctypes.c_char_p), ("text_bytes", S), ("tokens", ctypes.POINTER(I)),
                ("token_count", S), ("logprobs", P), ("stop", P), ("prompt_tokens", U), ("reused_tokens", U)]
lib.tenon_llm_error_message.restype = ctypes.c_char_p
def check(error):
    if error: sys.exit(lib.tenon_llm_error_message(P(error)).decode())
for name in ("open", "submit", "call_wait", "call_answer", "call_release", "close"):
    getattr(lib, "tenon_llm_" + name).restype = P
llm, call = P(), P()
settings = (Setting * 1)((b"max_tokens", b"24"))
request = Request(ctypes.sizeof(Request), 0, sys.argv[2].encode(), settings=settings, setting_count=1)
answer = Answer(ctypes.sizeof(Answer))
check(lib.tenon_llm_open(None, ctypes.byref(llm)))
check(lib.tenon_llm_submit(llm, ctypes.byref(request), ctypes.byref(call)))
check(lib.tenon_llm_call_wait(call))
check(lib.tenon_llm_call_answer(call, S(0), ctypes.byref(answer)))
print(json.dumps({"tokens": answer.tokens[:answer.token_count], "text": answer.text.decode()}))
check(lib.tenon_llm_call_release(call))
check(lib.tenon_llm_close(llm))
"""


def call(*command, folder=None, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TENON_")}
    environment.update({key: str(value) for key, value in variables.items()})
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300,
                          stdin=subprocess.DEVNULL, cwd=folder, env=environment)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.work = pathlib.Path(held.name)
        done = call("cmake", "--install", BUILD, "--prefix", cls.work / "elsewhere")
        assert done.returncode == 0, done.stdout + done.stderr
        cls.prefix = cls.work / "moved here"  # with a space in it
        (cls.work / "elsewhere").rename(cls.prefix)
        cls.library = next(cls.prefix.rglob("libtenon.so.1"))
        done = call(cls.prefix / "bin/tenon", "run", PROMPT, "--max-tokens", "24", "--json")
        assert done.returncode == 0, done.stderr
        cls.expected = json.loads(done.stdout)["requests"][0]

    def answered(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout, self.expected["text"] + "\n")

    @unittest.skipIf(SANITIZED, "a sanitizer has to be loaded before the program")
    def test_a_foreign_program_gets_exactly_the_tokens_of_the_program(self):
        done = call(sys.executable, "-c", THROUGH_CTYPES, self.library, PROMPT)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["tokens"], self.expected["tokens"])
        self.assertEqual(said["text"], self.expected["text"])

    def test_the_example_in_cpp_is_short(self):
        lines = (ROOT / "sdk/examples/08-embedding/story.cc").read_text().splitlines()
        self.assertLessEqual(len([line for line in lines if line and not line.startswith("//")]), 15)

    @unittest.skipIf(SANITIZED, "the example is linked without the sanitizer")
    @unittest.skipUnless(shutil.which("pkg-config"), "there is no pkg-config here")
    def test_the_example_in_cpp_gets_exactly_the_tokens_of_the_program(self):
        example = (self.prefix / "share/tenon/examples/08-embedding/story.cc").read_text()
        shows_text = "std::puts(answer->text.c_str());"
        self.assertIn(shows_text, example)
        source, program = self.work / "tokens.cc", self.work / "tokens"
        source.write_text(example.replace(shows_text, 'for (int id : answer->tokens) std::printf("%d\\n", id);'))
        found = call("pkg-config", "--cflags", "--libs", "tenon-llm", PKG_CONFIG_PATH=self.library.parent / "pkgconfig")
        self.assertEqual(found.returncode, 0, found.stderr)
        done = call("c++", "-std=c++17", source, *shlex.split(found.stdout), "-o", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = call(program, LD_LIBRARY_PATH=self.library.parent)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([int(line) for line in done.stdout.split()], self.expected["tokens"])

    @unittest.skipIf(SANITIZED, "the example is linked without the sanitizer")
    def test_cmake_builds_the_examples_in_cpp_and_c(self):
        folder = self.work / "cmake"
        shutil.copytree(self.prefix / "share/tenon/examples/08-embedding", folder)
        done = call("cmake", "-S", folder, "-B", folder / "build", "-DCMAKE_PREFIX_PATH=" + str(self.prefix))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = call("cmake", "--build", folder / "build")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.answered(call(folder / "build/story_cpp"))
        self.answered(call(folder / "build/story_c"))

    @unittest.skipIf(SANITIZED, "the example is linked without the sanitizer")
    @unittest.skipUnless(shutil.which("rustc"), "there is no rustc here")
    def test_rust_needs_the_c_interface_alone(self):
        source = self.prefix / "share/tenon/examples/09-embedding-rust/story.rs"
        program = self.work / "story_rust"
        done = call("rustc", "--edition", "2021", "-L", f"native={self.library.parent}", "-o", program, source)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.answered(call(program, LD_LIBRARY_PATH=self.library.parent))

    def test_cmake_says_that_a_component_is_not_installed(self):
        folder = self.work / "without"
        done = call("cmake", "--install", BUILD, "--prefix", folder / "sdk", "--component", "sdk")
        self.assertEqual(done.returncode, 0, done.stderr)
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(some LANGUAGES C CXX)\n"
            "find_package(Tenon 0.1 REQUIRED COMPONENTS llm)\n")
        done = call("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'sdk'}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("llm", done.stderr)

    def test_a_component_alone_is_headers_library_and_package(self):
        folder = self.work / "alone"
        done = call("cmake", "--install", BUILD, "--prefix", folder, "--component", "llm")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {path.name for path in folder.rglob("*") if not path.is_dir()}
        self.assertEqual({name for name in names if not name.startswith("tenonLlmTargets")},
                         {"libtenon.so", "libtenon.so.1", "llm.h", "llm_c.h", "tenon-llm.pc", "tenon-config.cmake",
                          "tenon-config-version.cmake"})


if __name__ == "__main__":
    unittest.main()
