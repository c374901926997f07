"""Models by name: what is found in the cache of the hub's programs, and what is brought there."""
import hashlib
import importlib.util
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import tempfile
import unittest

from program import BINARY, MODEL, run
from stand_in_hub import COMMIT, Hub

FILES = {path.name: path.read_bytes() for path in MODEL.iterdir()}
WEIGHTS = FILES["model.safetensors"]
EXTRAS = {"pytorch_model.bin": b"pickled", "onnx/model.onnx": b"onnx", "run.py": b"print()",
          "1_Pooling/config.json": b"{}", "consolidated.safetensors": b"twice"}
PROMPT = ("run", "Once upon a time", "--max-tokens", "8", "--no-echo")
ENVIRONMENT = {key: value for key, value in os.environ.items()
               if not key.startswith(("HF_", "HUGGING", "XDG_", "TRANSFORMERS_"))
               and not key.lower().endswith("_proxy")}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.home = self.folder / "home"
        self.cache = self.home / "hub"

    def tenon(self, *arguments, cwd=None, **environment):
        return subprocess.run(
            [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
            cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
            env=ENVIRONMENT | {"HF_HOME": str(self.home)} | environment)

    def good(self, *arguments, **rest):
        done = self.tenon(*arguments, **rest)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *arguments, **rest):
        done = self.tenon(*arguments, **rest)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stderr

    def fill(self, repository, files, ref="main", commit=COMMIT):
        """A model as the hub's programs leave it."""
        model = self.cache / ("models--" + repository.replace("/", "--"))
        snapshot = model / "snapshots" / commit
        snapshot.mkdir(parents=True, exist_ok=True)
        (model / "blobs").mkdir(exist_ok=True)
        for name, source in files.items():
            blob = model / "blobs" / f"{abs(hash(name)):040x}"
            shutil.copy(source, blob)
            (snapshot / name).symlink_to(os.path.relpath(blob, snapshot))
        if ref:
            (model / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
            (model / "refs" / ref).write_text(commit)
        return snapshot


class Found(Case):
    def test_a_name_in_the_cache_is_the_model_for_every_command(self):
        snapshot = self.fill("ours/tale", {name: MODEL / name for name in FILES})
        expected = run(*PROMPT, "--model", MODEL).stdout
        self.assertEqual(self.good(*PROMPT, "--model", "ours/tale"), expected)
        self.assertEqual(self.good(*PROMPT, "--model", "ours/tale@main"), expected)
        self.assertEqual(self.good(*PROMPT, "--model", f"ours/tale@{COMMIT}"), expected)
        self.assertEqual(self.good(*PROMPT, "--set", "model.path=ours/tale"), expected)
        self.assertIn(str(snapshot), self.good("model", "info", "ours/tale"))
        self.assertTrue(self.good("tokenize", "Once", "--model", "ours/tale"))

    def test_a_pipeline_file_names_a_model_as_well(self):
        self.fill("ours/tale", {name: MODEL / name for name in FILES})
        pipeline = self.folder / "files" / "named.toml"
        pipeline.parent.mkdir()
        pipeline.write_text('format = 1\n[model]\npath = "ours/tale"\n')
        expected = run(*PROMPT, "--model", MODEL).stdout
        self.assertEqual(self.good(*PROMPT, "--config", pipeline), expected)

    def test_a_folder_of_that_path_comes_before_the_cache(self):
        self.fill("ours/tale", {"config.json": MODEL / "config.json"})
        shutil.copytree(MODEL, self.folder / "ours" / "tale")
        self.assertIn("path                   ours/tale", self.good("model", "info", "ours/tale"))

    def test_the_cache_is_where_the_variables_say(self):
        self.fill("ours/tale", {name: MODEL / name for name in FILES})
        moved = self.folder / "else where"
        shutil.move(self.cache, moved)
        self.assertIn("not in the cache", self.refused("model", "info", "ours/tale"))
        places = {"HF_HUB_CACHE": "$PLACE", "HUGGINGFACE_HUB_CACHE": "${PLACE}"}
        for name, value in places.items():
            self.good("model", "info", "ours/tale", **{name: value, "PLACE": str(moved)})
        shutil.move(moved, self.folder / "huggingface" / "hub")
        self.good("model", "info", "ours/tale", HF_HOME="~/huggingface", HOME=str(self.folder))
        self.good("model", "info", "ours/tale", HF_HOME="", XDG_CACHE_HOME=str(self.folder))

    def test_an_old_name_without_an_owner_is_found(self):
        self.fill("tale2", {name: MODEL / name for name in FILES})
        self.good("model", "info", "tale2")

    def test_the_only_gguf_file_is_the_model_and_one_of_several_is_named(self):
        gguf = self.folder / "tale.gguf"
        self.good("model", "convert", MODEL, gguf)
        snapshot = self.fill("ours/tale-GGUF", {"tale-f32.gguf": gguf, "config.json": MODEL / "config.json"})
        self.assertIn("tale-f32.gguf", self.good("model", "info", "ours/tale-GGUF"))
        self.fill("ours/tale-GGUF", {"other.gguf": gguf})
        self.assertIn("name one of them:\n  ours/tale-GGUF/other.gguf\n  ours/tale-GGUF/tale-f32.gguf",
                      self.refused("model", "info", "ours/tale-GGUF"))
        self.assertIn(str(snapshot / "other.gguf"),
                      self.good("model", "info", "ours/tale-GGUF/other.gguf"))

    def test_a_name_that_nobody_brought_is_a_sentence(self):
        for arguments in (("run", "x", "--model", "ours/none"), ("model", "info", "ours/none")):
            text = self.refused(*arguments)
            self.assertIn(f"not in the cache either ({self.cache})", text)
            self.assertIn("'tenon model pull ours/none' brings it", text)
        pipeline = self.folder / "named.toml"
        pipeline.write_text('format = 1\n[model]\npath = "ours/none"\n')
        self.assertIn("tenon model pull ours/none", self.refused("run", "x", "--config", pipeline))

    def test_a_snapshot_with_a_file_missing_says_what_brings_it(self):
        self.fill("ours/tale", {"config.json": MODEL / "config.json"})
        self.assertIn(f"is not whole – 'tenon model pull ours/tale@{COMMIT}' brings",
                      self.refused("model", "info", "ours/tale"))

    def test_a_path_out_of_the_cache_is_no_name(self):
        for name in ("../tale", "ours/../../tale", "ours/tale@../../x", "/ours/tale", "ours--x/tale"):
            self.assertIn("is no name of a model", self.refused("model", "pull", name), name)


class HubCase(Case):
    def setUp(self):
        super().setUp()
        self.hub = Hub({"ours/tale": FILES | EXTRAS, "ours/closed": FILES}, gated={"ours/closed"})
        self.addCleanup(self.hub.close)
        self.model = self.cache / "models--ours--tale"
        self.snapshot = self.model / "snapshots" / COMMIT
        self.blob = self.model / "blobs" / hashlib.sha256(WEIGHTS).hexdigest()

    def tenon(self, *arguments, **rest):
        return super().tenon(*arguments, **({"HF_ENDPOINT": self.hub.url + "/"} | rest))


class Pulled(HubCase):
    def assert_nothing_is_visible(self):
        self.assertFalse((self.model / "snapshots").exists())
        self.assertFalse((self.model / "refs").exists())

    def test_what_is_brought_is_what_a_model_needs_and_runs(self):
        out = self.good("model", "pull", "ours/tale")
        self.assertIn(f"ours/tale is at {COMMIT}: 7 files, 11.2 MiB, of which 11.2 MiB came now\n",
                      out)
        self.assertEqual(out.splitlines()[-1], str(self.snapshot))
        brought = {str(path.relative_to(self.snapshot)) for path in self.snapshot.rglob("*")
                   if path.is_file()}
        self.assertEqual(brought, set(FILES) | {"1_Pooling/config.json"})
        for path in brought:
            self.assertEqual((self.snapshot / path).read_bytes(), (FILES | EXTRAS)[path])
            self.assertFalse(os.path.isabs(os.readlink(self.snapshot / path)))
        self.assertEqual((self.model / "refs/main").read_text(), COMMIT)
        self.assertEqual(self.good(*PROMPT, "--model", "ours/tale"),
                         run(*PROMPT, "--model", MODEL).stdout)
        self.assertEqual(list(self.model.rglob("*.incomplete")), [])

    def test_bytes_that_are_there_are_not_brought_again(self):
        self.good("model", "pull", "ours/tale")
        self.hub.seen.clear()
        self.assertIn("of which 0 B came now", self.good("model", "pull", "ours/tale"))
        self.assertEqual([path for _, path in self.hub.asked() if "/resolve/" in path], [])

    def test_named_files_alone_are_brought(self):
        self.good("model", "pull", "ours/tale@v1", "--file", "*.py", "--file", "onnx/*")
        brought = {str(path.relative_to(self.snapshot)) for path in self.snapshot.rglob("*.*")}
        self.assertEqual(brought, {"run.py", "onnx/model.onnx"})
        self.assertEqual((self.model / "refs/v1").read_text(), COMMIT)
        text = self.refused("model", "pull", "ours/tale", "--file", "*.q8")
        self.assertIn("'ours/tale' has no file '*.q8'; it has 1_Pooling/config.json, ", text)
        self.assertIn("model.safetensors", text)

    def test_of_several_gguf_models_one_is_named(self):
        self.hub.models["ours/tale"] = {"a-Q4.gguf": b"4" * 2000, "b-00001-of-00002.gguf": b"one",
                                        "b-00002-of-00002.gguf": b"two", "README.md": b""}
        text = self.refused("model", "pull", "ours/tale")
        self.assertIn("has 2 GGUF models; name one, as ours/tale/a-Q4.gguf", text)
        self.assertIn("\n  a-Q4.gguf  (2.0 KiB)\n  b.gguf  (6 B)", text)
        out = self.good("model", "pull", "ours/tale/b-00001-of-00002.gguf")
        self.assertEqual(out.splitlines()[-1], str(self.snapshot / "b-00001-of-00002.gguf"))
        self.assertEqual((self.snapshot / "b-00002-of-00002.gguf").read_bytes(), b"two")

    def test_a_lost_connection_goes_on_where_it_ended(self):
        self.hub.cuts = [1_000_000, 3_000_000]
        self.good("model", "pull", "ours/tale")
        ranges = [headers.get("Range") for host, _, _, headers in self.hub.seen if host == "bytes"]
        self.assertEqual(ranges, [None, "bytes=1000000-", "bytes=4000000-"])
        self.assertEqual(self.blob.read_bytes(), WEIGHTS)

    def test_a_pull_that_fails_shows_nothing_and_the_next_one_goes_on(self):
        self.hub.cuts = [500_000, 0, 0, 0, 0]
        self.assertIn("what came is kept", self.refused("model", "pull", "ours/tale"))
        self.assert_nothing_is_visible()
        unfinished = pathlib.Path(str(self.blob) + ".incomplete")
        self.assertEqual(unfinished.stat().st_size, 500_000)
        self.hub.cuts, self.hub.seen = [], []
        self.good("model", "pull", "ours/tale")
        self.assertEqual([headers.get("Range") for host, _, _, headers in self.hub.seen
                          if host == "bytes"], ["bytes=500000-"])
        self.assertEqual(self.blob.read_bytes(), WEIGHTS)

    def test_a_server_without_parts_sends_all_of_the_file_again(self):
        self.hub.ranges, self.hub.cuts = False, [1_000_000]
        self.good("model", "pull", "ours/tale")
        self.assertEqual(self.blob.read_bytes(), WEIGHTS)

    def test_wrong_bytes_are_refused_and_removed(self):
        for path in ("model.safetensors", "config.json"):
            self.hub.wrong = {path: b"others"}
            self.assertRegex(self.refused("model", "pull", "ours/tale"),
                             f"'{path}': what came has the hash [0-9a-f]+, not [0-9a-f]+ as the hub")
            self.assert_nothing_is_visible()
            self.assertEqual(list(self.model.rglob("*.incomplete")), [])

    def test_a_signal_leaves_nothing_visible(self):
        self.hub.cuts = [2_000_000, 0, 0, 0]  # then waits, for 1 s and 3 s
        with subprocess.Popen([BINARY, "model", "pull", "ours/tale"], cwd=self.folder,
                              env=ENVIRONMENT | {"HF_HOME": str(self.home),
                                                 "HF_ENDPOINT": self.hub.url}) as process:
            while len(self.hub.asked("bytes")) < 3:
                self.assertIsNone(process.poll())
            process.terminate()
            self.assertEqual(process.wait(timeout=60), 128 + 15)
        self.assert_nothing_is_visible()
        self.hub.cuts = []
        self.good("model", "pull", "ours/tale")

    def test_a_busy_server_is_asked_again(self):
        self.hub.busy = 2
        self.good("model", "pull", "ours/tale", "--file", "run.py")
        self.hub.busy = 100
        self.assertIn("answered with status 503", self.refused("model", "pull", "ours/tale"))

    def test_the_token_goes_to_the_hub_and_nowhere_else(self):
        self.good("model", "pull", "ours/tale", HF_TOKEN="hf_good")
        sent = {(host, headers.get("Authorization")) for host, _, _, headers in self.hub.seen}
        self.assertEqual(sent, {("hub", "Bearer hf_good"), ("bytes", None)})

    def test_a_gated_model_is_a_sentence_and_opens_to_a_token(self):
        text = self.refused("model", "pull", "ours/closed")
        self.assertIn(f"'ours/closed' is gated: its authors give it to those who accepted their "
                      f"terms; accept them at {self.hub.url}/ours/closed, and set HF_TOKEN", text)
        self.assertIn("the token that was sent may not read it",
                      self.refused("model", "pull", "ours/closed", HF_TOKEN="hf_bad"))
        self.home.mkdir(exist_ok=True)
        (self.home / "token").write_text("hf_good\n")
        self.assertIn("is gated", self.refused("model", "pull", "ours/closed",
                                               HF_HUB_DISABLE_IMPLICIT_TOKEN="1"))
        self.good("model", "pull", "ours/closed", "--file", "config.json")

    def test_missing_models_and_revisions_are_sentences(self):
        self.assertIn(f"there is no model 'ours/none' at {self.hub.url}, or it is private: then set "
                      "HF_TOKEN", self.refused("model", "pull", "ours/none"))
        self.assertIn("'ours/tale' has no branch, tag or commit 'v2'",
                      self.refused("model", "pull", "ours/tale@v2"))
        self.good("model", "pull", "ours/tale@refs/pr/1", "--file", "run.py")
        self.assertTrue((self.model / "refs/refs/pr/1").exists())

    def test_no_server_and_no_hub_are_sentences(self):
        self.assertIn("http://127.0.0.1:1 cannot be asked: ",
                      self.refused("model", "pull", "ours/tale", HF_ENDPOINT="http://127.0.0.1:1"))
        self.assertIn("HF_HUB_OFFLINE is set",
                      self.refused("model", "pull", "ours/tale", HF_HUB_OFFLINE="1"))

    def test_a_proxy_is_used_where_a_variable_names_one(self):
        self.good("model", "pull", "ours/tale", "--file", "run.py",
                  HF_ENDPOINT="http://hub.invalid", http_proxy=self.hub.url)
        self.assertTrue(all(path.startswith("http://hub.invalid/") for _, path in self.hub.asked()))

    def test_without_libcurl_pulling_is_refused_by_name(self):
        empty = self.folder / "libcurl.so.4"
        empty.write_bytes(b"")
        for name in ("libcurl-gnutls.so.4", "libcurl-nss.so.4"):
            (self.folder / name).write_bytes(b"")
        self.assertIn("libcurl (libcurl.so.4), which is not here – install libcurl4",
                      self.refused("model", "pull", "ours/tale", LD_LIBRARY_PATH=str(self.folder)))

    def test_a_terminal_sees_the_speed_and_the_time_that_is_left(self):
        self.hub.cuts = [2_000_000, 0, 1000]  # a second passes before the third try
        main, terminal = pty.openpty()
        done = subprocess.run([BINARY, "model", "pull", "ours/tale"], stdout=subprocess.PIPE,
                              stderr=terminal, stdin=subprocess.DEVNULL, timeout=60, check=False,
                              env=ENVIRONMENT | {"HF_HOME": str(self.home),
                                                 "HF_ENDPOINT": self.hub.url})
        os.close(terminal)
        shown = os.read(main, 1 << 20).decode()
        os.close(main)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(shown, r"bringing \[#*\.*\] \d+ of 12 MB, \d+\.\d MB/s, \d+:\d\d left")


@unittest.skipUnless(importlib.util.find_spec("huggingface_hub"), "huggingface_hub is not installed")
class WithHuggingFace(HubCase):
    """The real program of the hub, on the same server and the same cache."""

    def setUp(self):
        super().setUp()
        self.hub.models["ours/tale"] = dict(FILES)

    def hugging_face(self, code, **environment):
        done = subprocess.run(
            [sys.executable, "-c", "from huggingface_hub import *\n" + code], text=True, check=False,
            capture_output=True, timeout=300,
            env=ENVIRONMENT | {"HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.url} | environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_it_finds_what_tenon_brought_without_asking_for_bytes(self):
        self.good("model", "pull", "ours/tale")
        self.hub.seen.clear()
        path = self.hugging_face("print(snapshot_download('ours/tale'))")
        self.assertEqual(path, str(self.snapshot))
        self.assertEqual(self.hub.asked("bytes"), [])
        self.assertEqual([path for method, path in self.hub.asked()
                          if method == "GET" and "/resolve/" in path], [])
        offline = "print(snapshot_download('ours/tale'), hf_hub_download('ours/tale', 'config.json'))"
        self.assertEqual(self.hugging_face(offline, HF_HUB_OFFLINE="1"),
                         f"{self.snapshot} {self.snapshot}/config.json")
        self.assertEqual(self.hugging_face(
            "i = scan_cache_dir()\n"
            "print([(r.repo_id, r.nb_files, [*r.refs]) for r in i.repos], i.warnings)"),
            "[('ours/tale', 6, ['main'])] []")

    def test_tenon_finds_what_it_brought_and_leaves_the_same(self):
        def layout():
            return {str(path.relative_to(self.cache)): os.readlink(path) if path.is_symlink() else
                    path.read_bytes() for path in self.cache.rglob("*")
                    if path.is_symlink() or path.is_file()}

        self.hugging_face("snapshot_download('ours/tale')")
        theirs = layout()
        self.hub.seen.clear()
        self.assertIn("of which 0 B came now", self.good("model", "pull", "ours/tale"))
        self.assertEqual(self.hub.asked("bytes"), [])
        self.assertEqual(self.good(*PROMPT, "--model", "ours/tale"),
                         run(*PROMPT, "--model", MODEL).stdout)
        shutil.rmtree(self.home)
        self.good("model", "pull", "ours/tale")
        ours = layout()
        own = {path for path in theirs if not path.startswith("models--") or "/trees/" in path}
        self.assertEqual({path: theirs[path] for path in theirs if path not in own},
                         {path: ours[path] for path in ours if not path.startswith(".locks")})

    def test_both_ask_the_same_paths(self):
        self.good("model", "pull", "ours/tale")
        ours = {path for _, path in self.hub.asked()}
        shutil.rmtree(self.home)
        self.hub.seen.clear()
        self.hugging_face("snapshot_download('ours/tale')")
        theirs = {path.replace("&expand=false", "").replace("?expand=false&recursive=true",
                                                            "?recursive=true")
                  for _, path in self.hub.asked()}
        self.assertEqual(ours - theirs, set())


if __name__ == "__main__":
    unittest.main()
