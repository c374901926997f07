"""`tenon simulate` and `tenon calibrate`: what they print, and what they refuse."""
import json
import pathlib
import tempfile
import unittest

from program import SOURCE, run

WORK = """format = 1
[[request]]
count = 24
prompt_tokens = 300
max_tokens = 40
"""


class Simulate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        self.work = self.folder / "work.toml"
        self.work.write_text(WORK)

    def simulate(self, *arguments, machine="h100", model="llama-3.1-8b"):
        return run("simulate", "--workload", self.work, "--out", self.out, "--quiet",
                   "--model", model, "--set", "limits.context_tokens=2048",
                   *(["--machine", machine] if machine else []), *arguments, cwd=self.folder)

    def test_a_report_says_that_it_is_simulated_and_on_what(self):
        done = self.simulate("--arm", "static:scheduler.plugin=static", "--in-flight", 16)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("simulated: ", done.stdout.splitlines()[0])
        plan = json.loads((self.out / "report.json").read_text())["plan"]
        self.assertEqual(plan["machine"],
                         "simulated: NVIDIA H100 SXM, 80 GB (h100: calibrated on 2026-11-27)")
        self.assertIn("simulated", (self.out / "report.html").read_text())

    def test_what_was_never_calibrated_is_said(self):
        done = self.simulate("--arm", "static:scheduler.plugin=static", "--in-flight", 16,
                             machine="b200")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("never calibrated, from data sheets",
                      (self.out / "report.md").read_text())

    def test_the_same_simulation_is_the_same_to_the_byte(self):
        texts = []
        for name in ("one", "two"):
            self.out = self.folder / name
            done = self.simulate("--arm", "chunked:scheduler.plugin=chunked", "--rate", 40)
            self.assertEqual(done.returncode, 0, done.stderr)
            texts.append((self.out / "requests.jsonl").read_text())
        self.assertEqual(*texts)

    def test_a_trace_of_very_many_requests_is_simulated_and_shown_again(self):
        # More than a workload file takes, and more rows than are kept.
        trace = self.folder / "trace.csv"
        trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" +
                         "".join(f"{i / 4000:.6f},1,1\n" for i in range(50_001)))
        self.work = trace
        done = self.simulate("--arm", "two:cluster.machines=2", "--metric", "ttft_mean",
                             model="smollm-135m")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.out / "workload.csv").exists())
        pieces = [json.loads(line) for line in (self.out / "pieces.jsonl").open()]
        self.assertEqual([piece.get("rows_of") is not None for piece in pieces], 4 * [False] + 6 * [True])
        with (self.out / "requests.jsonl").open() as rows:
            self.assertEqual(sum(1 for _ in rows), 4 * 50_001)
        report = (self.out / "report.json").read_text()
        again = run("compare", "show", self.out)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((self.out / "report.json").read_text(), report)

    def test_lines_of_a_trace_that_are_out_of_order_are_told(self):
        trace = self.folder / "trace.csv"
        trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n5,100,10\n3,100,10\n4,50,5\n")
        done = run("simulate", "--workload", trace, "--out", self.out, "--machine", "h100",
                   "--model", "llama-3.1-8b", "--arm", "static:scheduler.plugin=static",
                   cwd=self.folder)
        self.assertIn("1 line of the trace is out of order, with an earlier time than the line "
                      "before", done.stderr)
        rows = [json.loads(line) for line in (self.out / "requests.jsonl").open()]
        self.assertEqual([row["prompt_tokens"] for row in rows[:3]], [100, 50, 100])

    def test_a_faster_machine_is_better_and_each_arm_may_have_its_own(self):
        done = self.simulate("--arm", "h200:executor.machine=h200", "--in-flight", 8,
                             "--metric", "tpot_mean")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"h200 is better than base")
        plan = json.loads((self.out / "report.json").read_text())["plan"]
        self.assertIn("H100", plan["machine"])
        self.assertIn("H200", plan["machine"])

    def test_four_machines_answer_more_than_one(self):
        done = self.simulate("--arm", "four:cluster.machines=4", "--in-flight", 24)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"four is better than base")

    def test_two_joined_machines_answer_faster_than_one(self):
        done = self.simulate("--arm", "two:parallel.tensor=2", "--in-flight", 4,
                             "--metric", "tpot_mean")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"two is better than base")
        self.assertNotIn("others used", done.stdout)
        head = json.loads((self.out / "comparison.json").read_text())
        self.assertEqual([arm["model"] for arm in head["arms"]],
                         2 * ["llama-3.1-8b (8.03 billion parameters)"])

    def test_machines_that_fail_and_machines_with_roles_are_on_the_page(self):
        done = self.simulate("--arm", "fails:cluster.failure=1@200ms/2s", "--rate", 40,
                             "--set", "cluster.machines=2", "--metric", "latency_mean")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"fails is worse than base")
        page = (self.out / "report.html").read_text()
        self.assertIn("machine 1 fails at 200ms for 2s", page)
        self.assertIn("Every machine of fails", page)
        self.out = self.folder / "apart"
        done = self.simulate("--arm", "apart:cluster.prefill=1", "--rate", 40,
                             "--arm", "apart:cluster.decode_machine=h200", "--several",
                             "--set", "cluster.machines=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (self.out / "report.html").read_text()
        self.assertIn("1 of them for prompts, the others h200", page)
        self.assertIn("h200", page)

    def test_a_run_that_was_recorded_is_followed(self):
        real = run("compare", "--workload", self.work, "--out", self.out, "--quiet", "--record",
                   "--arm", "static:scheduler.plugin=static", "--pairs", 4, "--noise-pairs", 0,
                   "--in-flight", 3, "--set", "limits.context_tokens=512", "--budget", "20s",
                   cwd=self.folder)
        self.assertIn(real.returncode, (0, 5), real.stderr)
        for arm in (0, 1):
            done = run("simulate", "--follow", self.out, "--of", arm, "--machine", "h100")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("plans are alike: every one, and all that was seen", done.stdout)
        other = run("simulate", "--follow", self.out, "--machine", "h100",
                    "--set", "limits.max_sequences=1")
        self.assertEqual(other.returncode, 1, other.stdout)
        self.assertIn("then the first line that is not:", other.stdout)

    def test_a_folder_without_a_record_is_not_followed(self):
        done = run("simulate", "--follow", self.folder, "--machine", "h100")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no record of arm 0 – expected a folder of `tenon compare --record`",
                      done.stderr)

    def test_nonsense_is_a_sentence(self):
        arm = ["--arm", "static:scheduler.plugin=static"]
        file = self.folder / "strange.toml"
        whole = (SOURCE / "configs/machines/h100.toml").read_text()
        for machine, arguments, words, *model in (
                (None, arm, "no machine is named; write --machine NAME"),
                ("h10", arm, "there is no machine 'h10'; there are a100-80gb, b200, h100"),
                ("h100", [*arm, "--set", "executor.weights=q6_k"],
                 "has no rate for weights of format 'q6_k'; it has bf16, q8_0 and q4_0"),
                ("h100", [*arm, "--set", "executor.weights=q9"], "there is no format 'q9'"),
                ("l40s", arm,
                 "the model's weights take 87.0 GiB, and machine 'l40s' has 44.0 GiB",
                 "mixtral-8x7b"),
                ("h100", arm, "there is no shape 'llama-9b'", "llama-9b"),
                ("h100", ["--arm", "s:url=http://127.0.0.1:1"],
                 "arm 's' is a running server, which cannot be simulated"),
                ("h100", ["--arm", "c:cluster.routing=nearest"],
                 "'nearest' is no routing; expected round_robin, least_load, prefix or session"),
                ("h100", ["--arm", "c:cluster.machines=0"], "cluster.machines is 0"),
                ("h100", ["--arm", "c:cluster.prefill=1"], "one at least must be left"),
                ("h100", ["--arm", "c:cluster.decode_machine=h200"],
                 "cluster.decode_machine is 'h200', and cluster.prefill is 0"),
                ("h100", ["--arm", "c:executor.plugin=cpu"],
                 "'executor.plugin=cpu' is set, and a simulation has the executor \"sim\""),
                ("h100", ["--arm", "c:cluster.failure=2@soon/1s"], "'2@soon/1s' is no failure"),
                ("h100", ["--arm", "c:cluster.failure=2@1s/1s"],
                 "machine 2 is to fail, and there are 1"),
                ("h100", ["--arm", "c:cluster.colour=red"],
                 "'cluster.colour' is no key of a cluster"),
                ("h100", [*arm, "--set", "parallel.tensor=16"],
                 "parallel.tensor is 16, and the link of machine 'h100' joins 8"),
                ("h100", [*arm, "--set", "kv_cache.memory=900GiB"],
                 "kv_cache.memory is 900.0 GiB – there are 79.0 GiB of memory in all"),
                (str(file), arm, "bandwidth is -1.0; it must be a number above 0")):
            with self.subTest(words=words):
                file.write_text(whole.replace("bandwidth = 3.35e12", "bandwidth = -1.0", 1))
                done = self.simulate(*arguments, machine=machine,
                                     model=(model or ["llama-3.1-8b"])[0])
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
                self.assertFalse(self.out.exists())

    def test_a_fault_of_a_workload_names_the_file_that_was_given(self):
        self.work.write_text(WORK.replace("count = 24", "count = 0"))
        done = self.simulate("--arm", "static:scheduler.plugin=static")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"{self.work}:3:9: count is 0", done.stderr)

    def test_a_figure_that_makes_no_sense_is_a_sentence_with_its_key(self):
        whole = (SOURCE / "configs/machines/h100.toml").read_text()
        file = self.folder / "strange.toml"
        for old, new, words in (
                ("bandwidth = 3.35e12", "bandwidth = nan", "strange.toml:11:13: bandwidth is nan"),
                ("link = 5.5e10", "link = 0.0", "link is 0.0; it must be a number above 0"),
                ("bandwidth = 3.35e12", "bandwidth = 3.35",
                 "bandwidth is 3.35, which is less than any machine has; write it in bytes a second"),
                ("step_us = 120.0", "step_us = 1e12",
                 "overheads.step_us is 1e+12, which is more than any step takes; write it in micro"),
                ("link = 5.5e10", "lnik = 5.5e10", "'lnik' is no key of a machine"),
                ("memory = \"79GiB\"", "memory = \"0GiB\"", "memory is 0B, which is less"),
                ("memory = \"79GiB\"", "memory = \"79\"", "write its unit: \"80GiB\""),
                ("link = 5.5e10", "", "'link' is missing – write link = 5.5e10"),
                ("decode = 0.63", "decode = 63.0", "attention.decode is 63.0, which is no share"),
                ("step_us = 120.0", "step_us = -5.0", "overheads.step_us is -5.0; it must be 0 or"),
                ("decode = 0.63", "decode = 0.0", "attention.decode is 0.0"),
                ("rows = [1, 8,", "rows = [8, 1,", "product 'bf16': rows 1.0 come after 8.0"),
                ("share = [0.857, 0.765, 0.715, 0.324, 0.364]", "share = [0.857]",
                 "product 'bf16': there are 5 rows and 1 shares"),
                ("share = [0.857,", "share = [0.001,", "8.0 rows take less time than 1.0"),
                ("format = \"q4_0\"", "format = \"bf16\"", "product 'bf16' is there twice"),
                ("hour = 2.69", "hour = -2.0", "price.hour is -2.0"),
                ("format = 1\n", "format = [\n", "not TOML")):
            with self.subTest(words=words):
                self.assertEqual(whole.count(old) > 0, True, old)
                file.write_text(whole.replace(old, new, 1))
                done = self.simulate("--arm", "static:scheduler.plugin=static", machine=file)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
                self.assertIn(str(file), done.stderr)

    def test_a_machine_at_another_pace_is_a_file_like_any_other(self):
        now = self.folder / "now.toml"
        done = run("calibrate", "--against", "h100", "--pace", 2, "--out", now)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("bandwidth = 1.675e+12", now.read_text())
        self.assertIn("at a pace of 2.000 times", now.read_text())
        done = self.simulate("--arm", f"slower:executor.machine={now}", "--in-flight", 16, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        metrics = json.loads(done.stdout)["arms"][0]["metrics"]
        throughput = next(each for each in metrics if each["metric"] == "throughput")
        self.assertEqual(throughput["verdict"], "worse")
        for arguments, expected in ((["--pace", 2], "--against"),
                                    (["--against", "h100", "--pace", 2], "give it one (--out)"),
                                    (["--against", "h1", "--pace", 2, "--out", now],
                                     "there is no machine 'h1'")):
            done = run("calibrate", *arguments, cwd=self.folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr)

    def test_only_a_simulation_moves_the_clock(self):
        done = run("run", "hello", "--set", "executor.plugin=sim", "--set", "executor.machine=h100")
        self.assertEqual(done.returncode, 1)
        self.assertIn("`tenon simulate` moves; use that", done.stderr)
        done = run("run", "hello", "--set", "executor.machine=h100")
        self.assertEqual(done.returncode, 1)
        self.assertIn("executor.machine is a key of simulations", done.stderr)


if __name__ == "__main__":
    unittest.main()
