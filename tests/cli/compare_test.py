"""`tenon compare`: what it refuses and what it writes. How it ends: `compare_ends_test.py`; its verdicts:
`compare_verdicts_test.py`."""
import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest
from xml.etree import ElementTree

from comparing import PLANTED, WORK, Case
from program import SOURCE, run
from server import PATIENCE, Server


class Refusals(Case):
    def test_more_than_one_difference_is_refused_unless_it_is_meant(self):
        done = self.compare("--arm", "b:scheduler.plugin=chunked", "--arm", "b:kv_cache.plugin=radix")
        self.assertEqual(done.returncode, 1)
        self.assertIn("differs in 2 keys (kv_cache.plugin, scheduler.plugin)", done.stderr)
        self.assertFalse(self.out.exists())

    def test_what_cannot_be_compared_is_said_before_anything_is_loaded(self):
        for arguments, expected in (
                ([], "nothing to compare the base with"),
                (["--arm", "b:", "--metric", "throughputs"], "did you mean 'throughput'?"),
                (["--arm", "b:", "--fail-if", "b.speed > base"], "'speed' is no metric"),
                (["--arm", "b:", "--goodput", "ttft=soon"], "'soon' is no time"),
                (["--arm", "b:", "--goodput", "share=0.9"], "there is no bound"),
                (["--arm", "b:", "--goodput", "ttft=1s", "--metric", "requests"], "go together"),
                (["--arm", "b:", "--fail-if", "c.requests > base"], "there is no arm 'c'"),
                (["--arm", "b:", "--fail-if", "b.requests > a"], "the base is called 'base'")):
            done = self.compare(*arguments)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(expected, done.stderr)
            self.assertFalse(self.out.exists())

    def test_an_arm_that_does_not_compose_says_why(self):
        done = self.compare("--arm", "b:scheduler.plugin=nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("arm 'b'", done.stderr)
        self.assertIn("no scheduler plugin 'nothing'", done.stderr)
        self.assertFalse(self.out.exists())

    def test_results_are_never_mixed(self):
        self.out.mkdir()
        done = self.compare("--arm", "b:")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is there already", done.stderr)


class Results(Case):
    def test_a_folder_holds_everything_and_is_reported_again(self):
        done = self.compare("--arm", "scheduler.plugin=chunked", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        arm = report["arms"][0]
        self.assertEqual(arm["name"], "chunked")
        self.assertTrue(arm["answers"].startswith("equal"), arm["answers"])
        self.assertGreaterEqual(arm["pairs"] + arm["dropped_pairs"], 5)
        noise = report["noise"]
        self.assertEqual(noise["pairs"] + noise["dropped_pairs"], 2)
        self.assertTrue(report["plan"]["ended"])
        names = {path.name for path in self.out.iterdir()}
        self.assertLessEqual(
            {"comparison.json", "pieces.jsonl", "requests.jsonl", "workload.toml", "arm0.toml",
             "arm1.toml", "report.html", "report.json", "report.csv", "report.md"}, names)
        head = json.loads((self.out / "comparison.json").read_text())
        self.assertIn('scheduler.plugin: "continuous" → "chunked"', head["arms"][1]["differences"])
        rows = (self.out / "requests.jsonl").read_text().splitlines()
        self.assertEqual(len(rows), 3 * len(self.pieces()))
        again = run("compare", "show", self.out, "--json")
        self.assertEqual(json.loads(again.stdout), report)
        page = (self.out / "report.html").read_text()
        for forbidden in ("http://", "https://", "<script", "@import", "url("):
            self.assertNotIn(forbidden, page)

    def test_pictures_are_files_and_the_report_says_what_was_measured(self):
        done = self.compare("--arm", "scheduler.plugin=chunked", "--pictures", "svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("scheduler: continuous → chunked\n"), done.stdout)
        for line in ("model          tale", "formats        weights", "lengths        prompts of 12 tokens",
                     "errors         none in", "K/V memory     chunked: at most", "date           20"):
            self.assertIn("  " + line, done.stdout)
        names = {path.name for path in (self.out / "pictures").iterdir()}
        self.assertLessEqual({"differences-chunked.svg", "time.svg", "first-token.svg"}, names)
        self.assertEqual({path.suffix for path in (self.out / "pictures").iterdir()}, {".svg"})
        for path in (self.out / "pictures").iterdir():
            ElementTree.parse(path)
        done = run("compare", "show", self.out, "--pictures", "png")
        if "librsvg" in done.stderr:  # not here: refused, and nothing is written
            self.assertEqual(done.returncode, 1)
            self.assertFalse(list((self.out / "pictures").glob("*.png")))
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        drawn = {path.stem for path in (self.out / "pictures").glob("*.png")}
        self.assertEqual(drawn, {name.removesuffix(".svg") for name in names})
        for path in (self.out / "pictures").glob("*.png"):
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_a_folder_that_was_cut_is_reported_as_far_as_it_goes(self):
        self.assertEqual(self.compare("--arm", "b:").returncode, 0)
        before = sum(piece["kind"] == "measured" and piece["arm"] == "b" for piece in self.pieces())
        path = self.out / "pieces.jsonl"
        path.write_text(path.read_text()[:-200])
        done = run("compare", "show", self.out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was cut", done.stderr)
        arm = json.loads(done.stdout)["arms"][0]
        self.assertEqual(arm["pairs"] + arm["dropped_pairs"], before - 1)

    def test_arms_take_turns_once_they_are_warm(self):
        self.work.write_text(WORK.replace("count = 3", "count = 8").replace("max_tokens = 8", "max_tokens = 120"))
        done = self.compare("--arm", "b:", "--pairs", 4, "--noise-pairs", 0, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["arms"][0]["answers"].startswith("equal"))
        self.assertEqual({len(piece["turns"]) for piece in self.pieces()
                          if piece["kind"] == "warm_up"}, {0})
        measured = [piece for piece in self.pieces() if piece["kind"] == "measured"]
        self.assertEqual(len(measured), 8)
        for piece in measured:
            self.assertGreater(len(piece["turns"]), 1)
            # What others did in their turns is in no figure.
            self.assertAlmostEqual(sum(turn[0] for turn in piece["turns"]), piece["seconds"], delta=0.01)
            parts = sum(piece["prefill_seconds"].values()) + sum(piece["decode_seconds"].values())
            self.assertLessEqual(parts, 1.01 * piece["seconds"])

    def test_folders_of_two_days_are_compared_unpaired(self):
        self.assertEqual(self.compare("--arm", "b:").returncode, 0)
        other = self.folder / "other"
        shutil.copytree(self.out, other)
        done = run("compare", "show", self.out, other)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("unpaired", done.stdout)
        self.assertIn("+0.0 % [", done.stdout)

    def test_no_folder_of_a_comparison_is_refused(self):
        done = run("compare", "show", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no folder of a comparison", done.stderr)

    def test_a_folder_of_another_program_is_refused(self):
        self.assertEqual(self.compare("--arm", "b:").returncode, 0)
        path = self.out / "comparison.json"
        head = json.loads(path.read_text())
        for change, expected in (({"plan": head["plan"] | {"primary": "speed"}}, "is about 'speed'"),
                                 ({"format": "1"}, "is not of format 1"),
                                 ({"plan": 3}, "is not of format 1"),
                                 ({"arms": {}}, "is not of format 1")):
            path.write_text(json.dumps(head | change))
            done = run("compare", "show", self.out)
            self.assertEqual(done.returncode, 1, change)
            self.assertIn(expected, done.stderr)

    def test_the_command_line_wins_over_the_file(self):
        file = self.folder / "file.toml"
        file.write_text('format = 1\nurl = "http://127.0.0.1:1"\nrate = 200.0\n[[arm]]\nname = "b"\n')
        done = self.compare(file, "--base", "default", "--in-flight", 2, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("closed loop, 2 in flight", json.loads(done.stdout)["plan"]["work"])
        self.out = self.folder / "served"
        file.write_text('format = 1\nbase = "default"\n[[arm]]\nname = "b"\n')
        done = self.compare(file, "--base", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("http://127.0.0.1:1", done.stderr)

    def test_poisson_arrivals_are_drawn_once_and_kept(self):
        done = self.compare("--arm", "b:", "--rate", 200, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("open loop", json.loads(done.stdout)["plan"]["work"])
        arrivals = json.loads((self.out / "arrivals.json").read_text())
        self.assertEqual(len(arrivals), 3)
        self.assertLess(arrivals[0], arrivals[2])

    def test_every_state_of_the_cache_is_what_it_says(self):
        reused = {}
        for cache in ("cold", "warm", "steady"):
            self.out = self.folder / cache
            work = self.folder / "work.toml"
            work.write_text("format = 1\n[[request]]\nprompt_tokens = 64\nmax_tokens = 4\n")
            done = self.compare("--set", "kv_cache.plugin=prefix", "--arm", "b:", "--cache", cache)
            self.assertEqual(done.returncode, 0, done.stderr)
            reused[cache] = [piece["counters"]["reused_tokens"] for piece in self.pieces()]
        self.assertEqual(set(reused["cold"]), {0})
        self.assertTrue(all(reused["warm"]), reused["warm"])
        # The first piece of each arm has digests, and a cache of its own; the next one fills it.
        measured = [piece["counters"]["reused_tokens"] for piece in self.pieces()
                    if piece["kind"] == "measured"]
        self.assertTrue(measured and all(measured), measured)
        first = [piece for piece in self.pieces() if piece["arm"] == "b"][:3]
        self.assertEqual([piece["counters"]["reused_tokens"] > 0 for piece in first],
                         [False, False, True])

    def test_the_highest_rate_that_keeps_a_bound_is_searched_in_both_arms(self):
        self.work.write_text(WORK.replace("count = 3", "count = 10"))
        done = self.compare("--arm", "b:", "--goodput", "ttft=400ms,share=0.9,probes=4", "--json",
                            "--pairs", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["plan"]["primary"], "goodput_rate")
        probes = [piece for piece in self.pieces() if piece["kind"] == "probe"]
        self.assertEqual(len(probes), 4 * 2 * 4)
        self.assertTrue(all(piece["rate"] > 0 for piece in probes))
        self.assertIn("in 4 searches of 4 probes", "".join(report["notes"]))
        again = run("compare", "show", self.out, "--json")
        self.assertEqual(json.loads(again.stdout), report)

    def test_a_share_of_too_few_requests_is_refused(self):
        done = self.compare("--arm", "b:", "--goodput", "ttft=400ms")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the workload has 3 requests", done.stderr)


class Verdicts(Case):
    def test_an_arm_with_other_tokens_is_not_ranked(self):
        done = self.compare("--arm", "wrong:sampler.plugin=replay", "--arm",
                            "wrong:sampler.options.tokens=5 6 7 8", "--several")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("different answers", done.stdout)
        self.assertIn("request 0, sample 0 has other tokens", done.stdout)
        self.assertNotIn("better", done.stdout)
        self.assertEqual({piece["kind"] for piece in self.pieces()}, {"warm_up"})

    def test_lossy_arms_are_judged_by_what_they_predict_of_a_text(self):
        done = self.compare("--arm", "i8:kv_cache.dtype=i8", "--arm", "i4:kv_cache.dtype=i4",
                            "--text-tokens", 512, "--text-window", 128, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        i8, i4 = [arm["fidelity"] for arm in json.loads(done.stdout)["arms"]]
        self.assertEqual(i8["tokens"], 4 * 127)
        self.assertEqual(len(i8["window_kl_nats"]), 4)
        self.assertLess(0, i8["kl_nats"]["mean"])
        self.assertLess(10 * i8["kl_nats"]["mean"], i4["kl_nats"]["mean"])
        self.assertGreater(i8["same_top"], i4["same_top"])
        self.assertEqual(i8["base_perplexity"], i4["base_perplexity"])
        self.assertFalse((self.out / "predictions.tmp").exists())

    def test_weights_of_another_type_are_written_judged_and_removed(self):
        done = self.compare("--arm", "weights=q4_0", "--text-tokens", 256, "--text-window", 128, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(0, json.loads(done.stdout)["arms"][0]["fidelity"]["kl_nats"]["mean"])
        head = json.loads((self.out / "comparison.json").read_text())
        self.assertEqual(head["arms"][1]["differences"][-1], "weights: as they are → q4_0")
        self.assertEqual([path for path in self.out.iterdir() if path.suffix == ".gguf"], [])
        self.out = self.folder / "refused"
        done = self.compare("--arm", "weights=q9")
        self.assertEqual(done.returncode, 1)
        self.assertIn("arm 'q9': weights: 'q9' cannot be written; expected f32", done.stderr)
        self.assertFalse(self.out.exists())

    def test_weights_that_no_block_fits_are_named(self):
        model = self.folder / "model"  # with rows of 172
        self.assertEqual(run("model", "synth", "--shape", "stories-260k", "--out", model).returncode, 0)
        done = self.compare("--model", model, "--arm", "weights=q8_0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("as they are → q8_0, but where rows are no whole blocks: "
                      "blk.0.ffn_down.weight and 4 more", done.stdout)

    def test_an_arm_that_cannot_be_judged_is_measured_all_the_same(self):
        text = self.folder / "text"
        text.write_text("")
        done = self.compare("--arm", "i8:kv_cache.dtype=i8", "--text", text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("what the answers are worth is not judged", done.stdout)

    def planted(self, name, *arguments):
        shutil.copy(PLANTED / f"libtenon-{name}.so", self.folder)
        return self.compare("--plugin-path", self.folder, *arguments)

    def test_a_token_in_many_that_is_another_one_is_found(self):
        """One of 10,000 takes 10,000 tokens: here one of 40, and none, of 24 a piece."""
        self.work.write_text(WORK + "temperature = 0.0\ntop_p = 1.0\n")
        done = self.planted("slipping", "--set", "sampler.plugin=test.slipping", "--arm",
                            "slips:sampler.options.every=40")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("slips: request", done.stdout)
        self.assertIn("has other tokens", done.stdout)

class Views(Case):
    def test_another_scheduler_is_shown_where_it_decides_otherwise(self):
        self.work.write_text("format = 1\n" + "".join(
            f"[[request]]\nprompt_tokens = 12\nmax_tokens = {count}\n" for count in (4, 12, 6)))
        done = self.compare("--set", "limits.max_sequences=2", "--arm", "scheduler.plugin=static",
                            "--record")
        self.assertEqual(done.returncode, 0, done.stderr)
        for number in (0, 1):
            done = run("compare", "replay", self.out, "--of", number)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("plans are alike: every one", done.stdout)
        done = run("compare", "replay", self.out, "--set", "scheduler.plugin=static")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("then the first that is not", done.stdout)
        # The first request has ended, and a row is free: only one of both takes the next one.
        self.assertIn("1 of 2 rows run, 1 sequences wait", done.stdout)
        self.assertIn("waits, 0 of 12 tokens computed): recorded 12 tokens, here nothing", done.stdout)

    def test_a_comparison_that_was_not_recorded_says_so(self):
        self.assertEqual(self.compare("--arm", "b:").returncode, 0)
        done = run("compare", "replay", self.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a comparison that was recorded has it (--record)", done.stderr)
        views = self.out / "views0.jsonl"
        for make, said in ((views.touch, "has no views"), (views.mkdir, "is not a regular file"),
                           (lambda: os.mkfifo(views), "is not a regular file")):
            make()
            done = run("compare", "replay", self.out, timeout=20)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(said, done.stderr)
            views.rmdir() if views.is_dir() else views.unlink()


class Servers(Case):
    def setUp(self):
        super().setUp()
        self.work.write_text(
            'format = 1\n[[request]]\nprompt = "Once upon a time"\ncount = 3\nmax_tokens = 8\n'
            '[[request]]\nprompt_tokens = 20\nprefix_tokens = 4\nmax_tokens = 5\n')

    def test_a_server_stands_in_one_table_with_a_pipeline(self):
        with Server() as server:
            url = f"http://127.0.0.1:{server.port}"
            done = self.compare("--arm", f"served:url={url}", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            arm = report["arms"][0]
            self.assertTrue(arm["answers"].startswith("equal: every text"), arm["answers"])
            self.assertIn("is asked over HTTP", "".join(arm["notes"]))
            served = [piece for piece in self.pieces() if piece["arm"] == "served"]
            self.assertEqual({piece["generated_tokens"] for piece in served}, {3 * 8 + 5})
            self.out = self.folder / "both"
            done = self.compare("--base", url, "--arm", f"again:url={url}", "--json", "--in-flight", 2)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["arms"][0]["different_answers"], False)

    def test_a_server_with_other_answers_is_not_ranked_unless_they_may_differ(self):
        with Server("--set", "sampler.plugin=replay", "--set",
                    "sampler.options.tokens=5 6 7 8") as server:
            arm = ["--arm", f"other:url=http://127.0.0.1:{server.port}"]
            done = self.compare(*arm)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("answer 0 has another text (0 of 4 texts are the base's)", done.stdout)
            self.out = self.folder / "may"
            done = self.compare(*arm, "--answers-may-differ")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("0 of 4 texts are the base's; the comparison says that answers may differ",
                          done.stdout)

    def test_a_server_that_is_not_there_or_dies_is_a_clear_end(self):
        done = self.compare("--arm", "b:url=http://127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("arm 'b'", done.stderr)
        self.out = self.folder / "dies"
        with Server() as server:
            process = self.started(arm=f"b:url=http://127.0.0.1:{server.port}")
            server.process.kill()
            out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("arm 'b': request", errors)
        self.assertIn("b against base", out)

    def test_a_server_has_no_settings(self):
        done = self.compare("--arm", "b:url=http://127.0.0.1:1", "--arm", "b:sampler.plugin=x",
                            "--several")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a server runs as it was started", done.stderr)


class Pairs(unittest.TestCase):
    def judged(self, lines, *flags, status=0):
        done = run("compare", "pairs", "-", *flags, stdin=lines)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_pairs_of_a_stranger_get_a_verdict_and_an_interval(self):
        lines = "static,chunked\n" + "".join(f"{10 + i},{11 + 1.1 * i + 0.01 * (i % 2)}\n" for i in range(9))
        text = self.judged(lines).stdout
        self.assertIn("chunked is better than static", text)
        answer = json.loads(self.judged(lines, "--lower", "--json").stdout)
        self.assertEqual(answer["verdict"], "worse")
        self.assertAlmostEqual(answer["ratio"]["estimate"], 1.1, delta=0.01)
        self.assertLess(answer["ratio"]["low"], 1.1)

    def test_too_few_pairs_have_no_bounds(self):
        answer = json.loads(self.judged("1,2\n", "--json").stdout)
        self.assertEqual(answer["verdict"], "inconclusive")
        self.assertIsNone(answer["ratio"]["high"])

    def test_what_is_no_pair_is_refused_with_its_line(self):
        errors = self.judged("1,2\n1;2\n", status=1).stderr
        self.assertIn("standard input: line 2: '1;2' is no pair", errors)

    def test_names_stand_on_the_first_line_only(self):
        errors = self.judged("1,2\na,b\n", status=1).stderr
        self.assertIn("standard input: line 2", errors)
        self.assertIn("one pair does not tell", self.judged("a,b\n1,2\n").stdout)


class Files(unittest.TestCase):
    def test_every_comparison_that_comes_with_tenon_composes(self):
        for path in sorted((SOURCE / "configs/comparisons").glob("*.toml")):
            with self.subTest(path.stem), tempfile.TemporaryDirectory() as folder:
                # A budget that is spent before the first pair: everything is loaded, warmed up and held
                # against the base's answers.
                done = run("compare", path, "--budget", "1ms", "--noise-pairs", 0, "--quiet", "--out",
                           f"{folder}/out", "--json")
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn("no pair was measured", done.stderr)
                report = json.loads(done.stdout)
                self.assertTrue(report["plan"]["claim"])
                self.assertTrue(report["plan"]["expect"])

    def test_every_comparison_of_servers_composes(self):
        with Server("--threads", 1) as server, tempfile.TemporaryDirectory() as folder:
            for path in sorted((SOURCE / "configs/comparisons/servers").glob("*.toml")):
                with self.subTest(path.stem):
                    # Both servers are the same one here.
                    text = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{server.port}", path.read_text())
                    file = pathlib.Path(folder) / path.name
                    file.write_text(text.replace("../../", f"{SOURCE}/configs/"))
                    done = run("compare", file, "--budget", "1ms", "--noise-pairs", 0, "--quiet", "--out",
                               f"{folder}/{path.stem}", "--json")
                    self.assertEqual(done.returncode, 5, done.stderr)
                    report = json.loads(done.stdout)
                    self.assertTrue(report["plan"]["claim"])
                    self.assertTrue(report["plan"]["expect"])


if __name__ == "__main__":
    unittest.main()
