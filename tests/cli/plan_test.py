"""`tenon plan`: what it finds, that it is the same each time, and what it refuses."""
import json
import pathlib
import tempfile
import unittest

from program import SOURCE, run

# Few requests of few tokens: a test asks whether it works, not what is true of a machine.
SMALL = {"--model": "smollm-135m", "--slo": "ttft=500ms,gap=100ms", "--rate": 40,
         "--requests": 60, "--prompt-tokens": 64, "--answer-tokens": 16, "--max-sequences": 8,
         "--batch-tokens": 256, "--machine": "h100", "--tensor": "1"}


def arguments_of(**changed):
    """`tensor="2"` stands for --tensor 2, in place of what SMALL has."""
    options = {**SMALL, **{"--" + name.replace("_", "-"): value for name, value in changed.items()}}
    if "--workload" in options:
        del options["--prompt-tokens"]  # of drawn prompts alone
    # An option of "" is a flag.
    return [word for option in options.items() for word in option if word != ""]


class Plan(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def plan(self, **changed):
        done = run("plan", *arguments_of(**changed), "--json", "--quiet", cwd=self.folder)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_the_cheapest_comes_first_with_what_binds(self):
        plan = self.plan(machine="h100,l40s", tensor="1,2", out=self.folder / "out")
        held = [each for each in plan["findings"] if "refused" not in each]
        self.assertEqual(len(held), 4, plan["summary"])
        prices = [each["price_per_hour"] for each in held]
        self.assertEqual(prices, sorted(prices))
        self.assertTrue(held[0]["pareto"])
        for each in held:
            self.assertIn(each["binds"], ("memory", "bandwidth", "compute", "links", "overheads",
                                          "queueing"))
            self.assertGreaterEqual(each["at"]["kept_share"], 0.9)
            if each["replicas"] > 1:
                less = each["one_replica_less"]
                self.assertTrue(less["kept_share"] < 0.9 or less["saturated"])
            self.assertAlmostEqual(
                each["price_per_hour"],
                each["machines"] * {"h100": 2.69, "l40s": 0.79}[each["machine"]])
        self.assertTrue(any("never calibrated" in line and "l40s" in line
                            for line in plan["warnings"]))
        self.assertTrue(any("links" in line for line in plan["warnings"]))
        page = (self.folder / "out/plan.html").read_text()
        self.assertIn("<svg", page)
        self.assertIn(held[0]["machine"], page)
        self.assertTrue((self.folder / "out/plan.svg").read_text().startswith("<svg"))
        self.assertEqual(json.loads((self.folder / "out/plan.json").read_text())["findings"],
                         plan["findings"])

    def test_it_is_the_same_with_any_number_of_threads_and_follows_the_seed(self):
        one = self.plan(machine="h100,a100-80gb", threads=1)["findings"]
        self.assertEqual(one, self.plan(machine="h100,a100-80gb", threads=3)["findings"])
        self.assertNotEqual(one, self.plan(machine="h100,a100-80gb", seed=2)["findings"])

    def test_a_probe_that_is_cut_short_changes_no_plan(self):
        # Of 400 requests a second one replica holds a part: its probes are lost early.
        for changed in ({"rate": 400, "slo": "ttft=200ms,gap=60ms"},
                        {"rate": 400, "slo": "gap=30ms"},
                        {"rate": 300, "slo": "ttft=100ms", "scheduler": "continuous,static"}):
            with self.subTest(changed=changed):
                cut = self.plan(**changed)["findings"]
                whole = self.plan(**changed, whole_probes="")["findings"]
                self.assertEqual([self.verdict(each) for each in cut],
                                 [self.verdict(each) for each in whole])
                for each in cut:
                    self.assertFalse(each.get("one_replica_less", {}).get("cut_short", False))

    @staticmethod
    def verdict(finding):
        """Without what a probe that was lost says of itself."""
        lost = "refused" in finding and finding.get("at", {}).get("requests", 0) > 0
        return {**finding, "at": None} if lost else finding

    def test_far_beyond_what_a_replica_holds_a_probe_ends_soon(self):
        plan = self.plan(rate=3000, slo="ttft=200ms", most=2)
        refused, = plan["findings"]
        self.assertIn("it takes more than 2 replicas", refused["refused"])

    def test_a_price_that_is_given_wins(self):
        plan = self.plan(machine="h100,l40s", price="l40s=99")
        self.assertEqual(plan["findings"][0]["machine"], "h100")
        self.assertTrue(any("l40s 99.00 USD (--price)" in line for line in plan["warnings"]))

    def test_a_shape_may_be_named_by_its_end_and_what_does_not_fit_has_numbers(self):
        done = run("plan", "--model", "70b-shape", "--slo", "ttft=2s", "--rate", 1, "--machine",
                   "h100", "--tensor", "1", "--quiet", cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"h100, weights .*: weights in bf16 take 131\.\d GiB, more than "
                                      r"90 % of the 79\.0 GiB of h100")
        self.assertIn("Nothing that was looked at holds the goal.", done.stdout)

    def test_a_goal_that_is_impossible_is_a_sentence(self):
        plan = self.plan(slo="gap=1us")
        self.assertIn("even one request at a time: ", plan["findings"][0]["refused"])

    def test_time_that_is_up_is_said(self):
        plan = self.plan(budget="1ms")
        self.assertTrue(plan["out_of_time"])
        self.assertIn("time was up", plan["findings"][0]["refused"])
        self.assertTrue(any("time was up" in line for line in plan["warnings"]))

    def test_nonsense_is_a_sentence(self):
        broken = self.folder / "broken.toml"
        whole = (SOURCE / "configs/machines/h100.toml").read_text()
        broken.write_text(whole.replace("bandwidth = 3.35e12", "bandwidth = -1.0", 1))
        for changed, words in (
                ({"machine": "h10"}, "there is no machine 'h10'; there are a100-80gb"),
                ({"machine": broken}, "bandwidth is -1.0; it must be a number above 0"),
                ({"slo": "ttft=never"}, "'never' is no time above 0"),
                ({"slo": "speed=1"}, "'speed' is none of them"),
                ({"slo": "ttft=1s,ttft=2s"}, "'ttft' is there twice"),
                ({"tensor": "0"}, "--tensor"),
                ({"tensor": "1,,2"}, "--tensor is '1,,2', which has an empty entry"),
                ({"tensor": "16"}, "no machine's link joins so many"),
                ({"price": "tpu=1"}, "names no machine of this plan"),
                ({"price": "h100=-1"}, "--price"),
                ({"price": "h100"}, "--price 'h100' has no price"),
                ({"routing": "nearest"}, "'nearest' is no routing"),
                ({"budget": "soon"}, "is no time such as 10min"),
                ({"workload": "nowhere.toml"}, "nowhere.toml")):
            with self.subTest(words=words):
                done = run("plan", *arguments_of(**changed), "--quiet", cwd=self.folder)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
        for changed, words in (
                ({"model": "llama-9b"}, "there is no shape 'llama-9b'"),
                ({"scheduler": "nobody"}, "nobody"),
                ({"weights": "q6_k"}, "has no rate for weights of format 'q6_k'")):
            with self.subTest(words=words):
                done = run("plan", *arguments_of(**changed), "--quiet", cwd=self.folder)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(done.stderr.count(words), 1)  # once, not for each candidate
                self.assertNotIn("--set", done.stderr)  # nobody wrote one
                self.assertEqual(done.stdout, "")
        self.assertEqual(self.plan(machine="h100,h100")["findings"],
                         self.plan(machine="h100")["findings"])

    def test_what_cannot_be_written_is_told_before_the_search(self):
        (self.folder / "file").write_text("")
        done = run("plan", *arguments_of(), "--out", "file", cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot make the folder 'file'", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_published_trace_is_a_workload(self):
        (self.folder / "azure.csv").write_text(
            "TIMESTAMP,ContextTokens,GeneratedTokens\n" +
            "".join(f"2023-11-16 18:15:{i:02}.5,100,10\n" for i in range(50)))
        self.assertIn("50 requests of", self.plan(workload="azure.csv")["traffic"])


if __name__ == "__main__":
    unittest.main()
