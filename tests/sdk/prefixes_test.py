"""Where an installation lies, and what lies beside it: a prefix that was moved, a second one of another
version, plugins that are missing, plugins for another processor. Each runs, or says in a sentence why not.

  TENON_BUILD_DIR=build/dev python3 tests/sdk/prefixes_test.py"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"]).resolve()
AARCH64, X86_64 = 183, 62
HERE = os.uname().machine
NEWER = "0.9.0"
PROMPT = ("run", "Once upon a time", "--max-tokens", "8", "--temperature", "0", "--no-echo", "--quiet")


def call(program, *arguments, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TENON_")}
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True,
                          check=False, timeout=300, stdin=subprocess.DEVNULL,
                          env={**environment, **{key: str(value) for key, value in variables.items()}})


def change(path, old, new):
    """In a file of bytes or text; the length stays."""
    data = path.read_bytes()
    assert old in data and len(old) == len(new), (path, old)
    path.write_bytes(data.replace(old, new))


def plugins_of(prefix):
    return next(path for path in prefix.rglob("tenon/plugins")
                if path.relative_to(prefix).parts[0].startswith("lib"))


class Prefixes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.held.cleanup)
        cls.work = pathlib.Path(cls.held.name)
        done = call("cmake", "--install", BUILD, "--prefix", cls.work / "elsewhere")
        assert done.returncode == 0, done.stdout + done.stderr
        cls.prefix = cls.work / "moved here"  # with a space in it
        (cls.work / "elsewhere").rename(cls.prefix)
        cls.tenon = cls.prefix / "bin/tenon"
        cls.text = call(cls.tenon, *PROMPT).stdout

    def copy(self, name):
        """Of the prefix, to break something in; where it can be, of links."""
        made = self.work / name
        subprocess.run(["cp", "-r", "--link", self.prefix, made], check=True)
        self.addCleanup(shutil.rmtree, made)
        return made

    def own_copy(self, path):
        """A link becomes a file of its own."""
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
        return path

    def newer(self):
        """What a later version would have put beside it: its plugins do not fit this program."""
        made = self.copy("newer")
        for path in plugins_of(made).glob("libtenon-*.so"):
            if b"note=1\n" not in path.read_bytes():
                continue
            boundary = re.search(rb"boundary=([0-9a-f]{16})", path.read_bytes())[1]
            change(self.own_copy(path), b"boundary=" + boundary, b"boundary=0123456789abcdef")
            change(path, b"\nsdk=0.1.0\n", f"\nsdk={NEWER}\n".encode())
        version = next(made.rglob("tenon-config-version.cmake"))
        self.own_copy(version)
        version.write_text(version.read_text().replace("0.1.0", NEWER))
        return made

    def test_a_prefix_that_was_moved_runs_and_finds_all_that_is_its_own(self):
        self.assertNotEqual(self.text, "")
        done = call(self.tenon, "doctor")
        self.assertEqual(done.returncode, 0, done.stdout)
        listed = call(self.tenon, "plugins", "list").stdout
        self.assertIn(str(self.prefix), listed)
        self.assertNotIn(str(BUILD), listed)
        self.assertNotIn("elsewhere", listed)

    def test_a_link_to_the_program_is_the_program(self):
        link = self.work / "link"
        link.symlink_to(self.tenon)
        self.assertEqual(call(link, *PROMPT).stdout, self.text)

    def test_plugins_of_another_version_are_refused_with_both_versions(self):
        plugins = plugins_of(self.newer())
        done = call(self.tenon, "plugins", "list", "--plugin-path", plugins)
        self.assertIn(f"the plugin (SDK {NEWER}) does not fit this program (0.1.0)",
                      done.stdout + done.stderr)
        self.assertIn("boundary is 0123456789abcdef, expected", done.stdout + done.stderr)
        file = plugins / "libtenon-scheduler_continuous.so"
        done = call(self.tenon, *PROMPT, "--set", f'plugins.load=["{file}"]')
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not fit this program (0.1.0)", done.stderr)
        self.assertIn("rebuild it against this program's SDK", done.stderr)

    def test_a_second_version_beside_it_is_passed_over_for_its_own(self):
        plugins = plugins_of(self.newer())
        done = call(self.tenon, *PROMPT, TENON_PLUGIN_PATH=plugins)
        self.assertEqual((done.returncode, done.stdout), (0, self.text), done.stderr)

    def configure(self, prefixes, version):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(some LANGUAGES CXX)\n"
            f"find_package(tenon {version} REQUIRED)\n"
            'message(STATUS "program ${TENON_PROGRAM} of ${tenon_VERSION}")\n')
        return call("cmake", "-S", folder, "-B", folder / "build",
                    "-DCMAKE_PREFIX_PATH=" + ";".join(map(str, prefixes)))

    def test_cmake_takes_the_version_that_is_asked_for_with_its_own_program(self):
        newer = self.newer()
        for prefixes in ([self.prefix, newer], [newer, self.prefix]):
            for version, owner in (("0.1.0", self.prefix), (NEWER, newer)):
                with self.subTest(first=prefixes[0].name, version=version):
                    done = self.configure(prefixes, version)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(f"program {owner}/bin/tenon of {version}", done.stdout)

    def test_cmake_says_which_version_there_is(self):
        done = self.configure([self.prefix], NEWER)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r'tenon-config.cmake", version: "?0\.1\.0|version: 0\.1\.0')

    def test_a_plugin_that_is_missing_is_named_with_those_that_are_there(self):
        prefix = self.copy("without")
        (plugins_of(prefix) / "libtenon-scheduler_continuous.so").unlink()
        done = call(prefix / "bin/tenon", *PROMPT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no scheduler plugin 'continuous'", done.stderr)
        self.assertIn("There are: ", done.stderr)
        self.assertIn(f"searched: {plugins_of(prefix)}", done.stderr)
        done = call(prefix / "bin/tenon", "doctor")
        self.assertEqual(done.returncode, 1)
        self.assertIn("continuous", done.stdout)
        # The others go on.
        self.assertEqual(call(prefix / "bin/tenon", *PROMPT, "--set",
                              "scheduler.plugin=static").stdout, self.text)

    def test_a_kind_of_plugin_of_which_none_is_there_is_named(self):
        prefix = self.copy("empty")
        for path in plugins_of(prefix).glob("libtenon-sampler_*.so"):
            path.unlink()
        done = call(prefix / "bin/tenon", *PROMPT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no sampler plugin 'standard': there are no sampler plugins at all", done.stderr)
        self.assertIn(str(plugins_of(prefix)), done.stderr)

    def test_a_file_that_a_pipeline_names_and_that_is_missing_is_named(self):
        done = call(self.tenon, *PROMPT, "--set", 'plugins.load=["/nowhere/libtenon-acme.so"]')
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/libtenon-acme.so", done.stderr)
        self.assertIn("No such file or directory", done.stderr)

    def for_another_processor(self, machine=None, arch=None, kind=None):
        """A folder with a scheduler whose header says so."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        path = folder / "libtenon-scheduler_other.so"
        shutil.copy(plugins_of(self.prefix) / "libtenon-scheduler_static.so", path)
        data = bytearray(path.read_bytes())
        if machine is not None:
            data[18:20] = struct.pack("<H", machine)
        if kind is not None:
            data[4:6] = bytes(kind)
        path.write_bytes(data)
        if arch is not None:
            change(path, b"\narch=x86_64-linux\n", arch)
        return folder, path

    @unittest.skipIf(HERE != "x86_64", "the stamp that is changed is one for x86-64")
    def test_a_plugin_for_another_processor_is_refused_by_everyone_who_meets_it(self):
        cases = [
            # As a build for it would say, but that names of one length are exchanged in place.
            (dict(machine=AARCH64, arch=b"\narch=arm_64-linux\n"),
             "architecture is arm_64-linux, expected x86_64-linux: it was built for another processor"),
            (dict(machine=AARCH64), "the ELF machine is 183, expected 62: it was built for another"),
            (dict(kind=(1, 1)), "built for another architecture: expected a 64-bit little-endian"),
            (dict(kind=(2, 2)), "built for another architecture: expected a 64-bit little-endian")]
        for how, words in cases:
            folder, path = self.for_another_processor(**how)
            with self.subTest(**how):
                done = call(self.tenon, "plugins", "list", "--plugin-path", folder)
                self.assertIn(words, done.stdout + done.stderr)
                done = call(self.tenon, "plugins", "check", path, "--quick")
                self.assertEqual(done.returncode, 1)
                self.assertIn("file.stamp", done.stdout)
                self.assertIn(words, done.stdout)
                done = call(self.tenon, *PROMPT, "--set", f'plugins.load=["{path}"]')
                self.assertEqual(done.returncode, 1)
                self.assertIn(words, done.stderr)
                done = call(self.tenon, "doctor", "--plugin-path", folder)
                self.assertEqual(done.returncode, 1)
                self.assertIn(words, done.stdout)
                # In a folder with others it does not keep them from running.
                done = call(self.tenon, *PROMPT, "--plugin-path", folder)
                self.assertEqual((done.returncode, done.stdout), (0, self.text), done.stderr)


if __name__ == "__main__":
    unittest.main()
