"""`tenon load` against a server that misbehaves in every way, and against `tenon serve`."""
import csv
import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time
import unittest

from program import BINARY, SOURCE, run
from server import PATIENCE, Server
from stand_in_server import StandIn

WORKLOAD = """format = 1
[[request]]
prompt = "a king"
max_tokens = 4
count = 3
[[request]]
prompt = "a queen"
max_tokens = 8
temperature = 0
arrival = "30ms"
"""


class Load(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.workload = self.file("work.toml", WORKLOAD)

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def file(self, name, text):
        self.path(name).write_text(text)
        return self.path(name)

    def load(self, url, *arguments, workload=None):
        return run("load", url, "--workload", workload or self.workload, *arguments)

    def json(self, url, *arguments, status=0, **keywords):
        done = self.load(url, "--json", *arguments, **keywords)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    # What is sent.

    def test_sends_what_the_workload_says(self):
        with StandIn("good") as server:
            report = self.json(server.url)
        self.assertEqual(sorted((body["prompt"], body["max_tokens"], body.get("temperature"))
                                for _, body, _ in server.seen),
                         [("a king", 4, None)] * 3 + [("a queen", 8, 0)])
        self.assertEqual({path for path, _, _ in server.seen}, {"/v1/completions"})
        self.assertTrue(all(body["ignore_eos"] and body["stream"] for _, body, _ in server.seen))
        self.assertEqual((report["answered"], report["failed"], report["tokens"], report["prompt_tokens"]),
                         (4, 0, 20, 16))
        self.assertEqual(report["counted_by"], {"usage": 4})
        self.assertEqual(report["loop"], "open")
        self.assertEqual(report["model"], "good")

    def test_a_sweep_has_a_point_for_each_load(self):
        with StandIn("good") as server:
            report = self.json(server.url, "--sweep", "concurrency=1,2,4", "--name", "first")
            self.assertEqual(len(server.seen), 3 * 4)
        self.assertEqual([point["load"] for point in report["points"]], [1, 2, 4])
        self.assertEqual([point["answered"] for point in report["points"]], [4, 4, 4])
        for point in report["points"]:
            self.assertGreater(point["tokens_per_second"], 0)
            self.assertGreater(point["latency_ms"]["value"], 0)
        self.assertEqual((report["name"], report["sweep"]), ("first", "concurrency"))
        saved = self.file("first.json", json.dumps(report))
        with StandIn("good") as server:
            done = self.load(server.url, "--sweep", "concurrency=1..4", "--name", "second", "--beside",
                             saved, "--charts", self.path("charts"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?ms)^second$.*^  1 .*^  2 .*^  4 .*^first$.*^  1 ")
        for name in ["ttft", "latency", "gap"]:
            picture = self.path(f"charts/sweep-{name}.svg").read_text()
            self.assertIn(">second</text>", picture)
            if name != "gap":  # tokens of this server may come all at once
                self.assertIn("first, concurrency 4:", picture)

    def test_a_sweep_that_is_none_is_refused(self):
        for sweep in ["rate", "rate=", "rate=5..1", "rate=0..4", "concurrency=1.5,2", "pace=1..4",
                      "rate=1,1"]:
            with self.subTest(sweep=sweep):
                done = self.load("http://127.0.0.1:1", "--sweep", sweep)
                self.assertEqual(done.returncode, 1)
                self.assertIn("expected rate=LOW..HIGH", done.stderr)

    def test_sends_chats(self):
        with StandIn("good") as server:
            self.json(server.url + "/v1/", "--chat")
        path, body, _ = server.seen[0]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual(body["messages"], [{"role": "user", "content": "a king"}])

    def test_sends_prompts_of_a_file(self):
        prompts = self.file("prompts.jsonl", '{"prompt": [1, 2], "max_tokens": 2, "seed": 5}\n{"prompt": "b"}\n')
        with StandIn("good") as server:
            done = run("load", server.url, "--prompts", prompts, "--max-tokens", 3, "--in-flight", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(body["prompt"], body["max_tokens"], body.get("seed")) for _, body, _ in server.seen],
                         [([1, 2], 2, 5), ("b", 3, None)])

    def test_draws_prompts_from_a_vocabulary(self):
        drawn = self.file("drawn.toml", "format = 1\n[[request]]\nprompt_tokens = 6\nmax_tokens = 2\n")
        with StandIn("good") as server:
            refused = self.load(server.url, workload=drawn)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("--vocabulary", refused.stderr)
            self.json(server.url, "--vocabulary", 50, workload=drawn)
        ids = server.seen[0][1]["prompt"]
        self.assertEqual(len(ids), 6)
        self.assertTrue(all(0 <= one < 50 for one in ids))

    def test_sends_the_key_of_the_environment(self):
        with StandIn("good") as server:
            done = subprocess.run([BINARY, "load", server.url, "--workload", str(self.workload)],
                                  env={**os.environ, "TENON_API_KEY": "secret"}, capture_output=True,
                                  text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(all(fields["Authorization"] == "Bearer secret" for _, _, fields in server.seen))
        self.assertNotIn("secret", done.stdout + done.stderr)

    def test_a_closed_loop_has_one_after_the_other(self):
        with StandIn("good") as server:
            report = self.json(server.url, "--in-flight", 1)
        self.assertEqual(report["loop"], "closed")
        self.assertIn("closed loop, 1 in flight", report["work"])
        self.assertEqual([body["prompt"] for _, body, _ in server.seen], ["a king"] * 3 + ["a queen"])

    def test_an_open_loop_sends_at_a_rate(self):
        with StandIn("good") as server:
            report = self.json(server.url, "--rate", 200, "--seed", 4)
        self.assertIn("Poisson arrivals at 200.0 a second", report["work"])
        self.assertEqual(report["answered"], 4)

    def test_answers_in_one_piece_have_no_first_token(self):
        with StandIn("good") as server:
            report = self.json(server.url, "--no-stream")
        self.assertEqual(report["tokens"], 20)
        self.assertNotIn("ttft_ms", report["figures"])
        self.assertIn("latency_ms", report["figures"])

    def test_pieces_are_counted_where_nobody_counts_tokens(self):
        with StandIn("good") as server:
            report = self.json(server.url, "--no-usage")
        self.assertNotIn("stream_options", server.seen[0][1])
        self.assertEqual(report["counted_by"], {"events": 4})
        self.assertEqual(report["tokens"], 20)
        self.assertIn("pieces of text", " ".join(report["notes"]))

    # What is shown.

    def test_figures_are_ordered_and_few_requests_have_no_tail(self):
        with StandIn("good") as server:
            report = self.json(server.url)
        for name in ("ttft_ms", "latency_ms"):
            figure = report["figures"][name]
            self.assertEqual(figure["count"], 4)
            self.assertLessEqual(figure["p50"]["value"], figure["most"])
            self.assertIsNone(figure["p99"]["value"])
            self.assertIsNone(figure["p99"]["high"])
        self.assertEqual(report["figures"]["gap_ms"]["count"], 3 * 3 + 7)

    def test_rows_tell_of_every_request(self):
        with StandIn("half") as server:
            done = self.load(server.url, "--in-flight", 1, "--rows", self.path("rows.jsonl"), "--texts")
        self.assertEqual(done.returncode, 1)
        rows = [json.loads(line) for line in self.path("rows.jsonl").read_text().splitlines()]
        self.assertEqual([row["index"] for row in rows], [0, 1, 2, 3])
        self.assertEqual([row["error"] for row in rows], [None, "refused", None, "refused"])
        self.assertEqual([row["status"] for row in rows], [200, 429, 200, 429])
        self.assertEqual(rows[0]["texts"], ["xxxx"])
        self.assertEqual(rows[0]["answer"], rows[2]["answer"])
        self.assertGreaterEqual(rows[0]["latency_ms"], rows[0]["ttft_ms"])

    def test_a_published_trace_is_a_workload_and_lines_are_prompts(self):
        trace = self.file("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                       "2023-11-16 18:15:46.5,5,2\n")
        with StandIn("good") as server:
            self.json(server.url, "--vocabulary", 100, workload=trace)
            self.assertEqual([len(body["prompt"]) for _, body, _ in server.seen], [5])
        with StandIn("good") as server:
            run("load", server.url, "--prompts", trace)
            self.assertEqual(len(server.seen), 2)

    def test_what_cannot_be_written_is_told_before_anything_is_sent(self):
        with StandIn("good") as server:
            for arguments in (["--rows", self.workload], ["--rows", "/nowhere/rows.jsonl"],
                              ["--sweep", "concurrency=1,2", "--charts", self.workload]):
                with self.subTest(arguments=arguments):
                    done = self.load(server.url, *arguments)
                    self.assertEqual(done.returncode, 1)
            self.assertEqual([path for path, _, _ in server.seen if "completions" in path], [])
        self.assertEqual(self.workload.read_text(), WORKLOAD)

    def test_a_full_disk_takes_the_rows_and_nothing_else(self):
        """To whoever writes a file, a limit on its size is a disk that is full."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        with StandIn("good") as server:
            done = subprocess.run(
                [BINARY, "load", server.url, "--workload", self.workload, "--json", "--rows",
                 self.path("rows.jsonl")],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                timeout=PATIENCE, preexec_fn=limit, restore_signals=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(json.loads(done.stdout)["answered"], 4)
        self.assertFalse(self.path("rows.jsonl").exists())

    def test_a_table_has_a_line_a_figure(self):
        with StandIn("good") as server:
            done = self.load(server.url, "--csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["figure"] for row in rows],
                         ["throughput", "requests", "ttft", "tpot", "gap", "latency", "lateness"])
        self.assertEqual(rows[2]["p99"], "")

    # What goes wrong.

    def failed(self, model, *arguments):
        with StandIn(model) as server:
            report = self.json(server.url, *arguments, status=1)
        self.assertEqual(report["failed"], 4)
        self.assertEqual(sum(error["count"] for error in report["errors"]), 4)
        return report["errors"][0]

    def test_names_what_went_wrong(self):
        for model, kind, message in (("full", "refused", "HTTP 429: too many requests"),
                                     ("cut", "closed", "within the response"),
                                     ("broken", "server", "the engine is gone"),
                                     ("garbage", "protocol", "no JSON object: '{\"choices\": [\\x1B[31m'"),
                                     ("html", "protocol", "no JSON object")):
            with self.subTest(model=model):
                error = self.failed(model)
                self.assertEqual(error["kind"], kind)
                self.assertIn(message, error["message"])

    def test_gives_up_on_silence(self):
        self.assertEqual(self.failed("silent", "--silence-timeout", 0.05)["kind"], "timeout")
        self.assertEqual(self.failed("silent", "--timeout", 0.05)["kind"], "timeout")

    def test_says_how_many_failed(self):
        with StandIn("half") as server:
            done = self.load(server.url, "--in-flight", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 answered, 2 failed", done.stdout)
        self.assertIn("2 × refused: HTTP 429: too many requests", done.stdout)
        self.assertEqual(done.stderr, "tenon: 2 of 4 requests failed\n")

    def test_says_that_nobody_listens(self):
        done = self.load(f"unix:{self.path('nothing')}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot connect to 'unix:", done.stderr)

    def test_asks_which_of_several_models(self):
        with StandIn("good", "full") as server:
            done = self.load(server.url)
            self.assertEqual(done.returncode, 1)
            self.assertIn("serves 2 models (good, full) – say which: --model NAME", done.stderr)
            self.assertEqual(self.json(server.url, "--model", "good")["answered"], 4)

    def test_refuses_wrong_usage(self):
        for arguments in (["http://h"], ["--workload", self.workload],
                          ["http://h", "--workload", self.workload, "--prompts", "x"],
                          ["http://h", "--workload", self.workload, "--rate", 1, "--in-flight", 1],
                          ["http://h", "--workload", self.workload, "--in-flight", 0],
                          ["http://h", "--workload", self.workload, "--json", "--csv"],
                          ["http://h", "--workload", self.workload, "--texts"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(run("load", *arguments).returncode, 2)

    def test_refuses_addresses_that_are_none(self):
        done = self.load("localhost:8000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'localhost:8000' is no address of a server", done.stderr)

    def test_an_interrupt_shows_what_is_known(self):
        with StandIn("hanging") as server:
            process = subprocess.Popen(
                [BINARY, "load", server.url, "--workload", str(self.workload), "--in-flight", "1", "--json",
                 "--rows", str(self.path("rows.jsonl"))],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            limit = time.monotonic() + PATIENCE
            while len(server.seen) < 3 and time.monotonic() < limit:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, errors)
        report = json.loads(out)
        self.assertEqual(report["partial"], {"ended_by": "SIGINT", "unanswered": 1, "unsent": 1})
        self.assertEqual((report["answered"], report["failed"]), (2, 0))
        self.assertEqual(len(self.path("rows.jsonl").read_text().splitlines()), 3)

    # Our own server.

    def test_our_server_answers_as_the_program_itself(self):
        prompts = self.file("prompts.jsonl", "".join(
            json.dumps({"prompt": text, "max_tokens": 12, "temperature": 0}) + "\n"
            for text in ("The old witch", "A king", "Once upon a time")))
        alone = json.loads(run("run", "--file", prompts, "--json", "--no-echo").stdout)
        with Server("--socket", self.path("socket")) as server:
            for url in (f"http://127.0.0.1:{server.port}", f"unix:{self.path('socket')}"):
                with self.subTest(url=url):
                    done = run("load", url, "--prompts", prompts, "--json", "--rows", self.path("rows.jsonl"),
                               "--texts", "--in-flight", 3)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    rows = [json.loads(line) for line in self.path("rows.jsonl").read_text().splitlines()]
                    rows.sort(key=lambda row: row["index"])
                    texts = [one["text"] for one in alone["requests"]]
                    self.assertEqual([row["texts"][0] for row in rows], texts)
                    self.assertEqual({row["counted_by"] for row in rows}, {"usage"})
                    self.assertEqual(json.loads(done.stdout)["model"], "tale")

    def test_a_bundled_workload_goes_through(self):
        with Server() as server:
            report = self.json(f"http://127.0.0.1:{server.port}", "--in-flight", 4, "--model", "tale")
            self.assertEqual(report["tokens"], 20)
            chats = self.json(f"http://127.0.0.1:{server.port}", "--chat")
            self.assertEqual(chats["failed"], 0)


if __name__ == "__main__":
    unittest.main()
