"""`tenon plugins check`: every deliberately wrong plugin is caught by the case that should catch it."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

from program import BINARY, SANITIZED, run

FOLDER = pathlib.Path(BINARY).parent.parent / "tests/bad_plugins"

# Of each library: the wrong plugins, the case that sees it, and as what.
RIGHT = {"sound", "waits_for_company", "warms_up"}  # which keep their promises
OTHERS = {"proposes_nothing", "sleeps"}  # tried by tests of their own
WRONG = {
    "schedulers": ("scheduler", {
        "grants_twice": ("scheduler.random_views", "fail"),
        "grants_strangers": ("scheduler.random_views", "fail"),
        "grants_more": ("scheduler.random_views", "fail"),
        "grants_nothing": ("scheduler.random_views", "fail"),
        "invents_drafts": ("scheduler.random_views", "fail"),
        "exceeds_tokens": ("scheduler.random_views", "fail"),
        "exceeds_rows": ("scheduler.serves_everyone", "fail"),
        "starves": ("scheduler.serves_everyone", "fail"),
        "never_preempts": ("scheduler.scarce_memory", "fail"),
        "insists": ("scheduler.refusals", "hang"),
        "writes_behind": ("scheduler.random_views", "fail"),
        "knows_all_events": ("scheduler.unknown_events", "fail"),
        "shares_state": ("scheduler.state_of_its_own", "fail"),
        "slow": ("scheduler.speed", "too slow"),
        "waits_for_itself": ("scheduler.nothing_to_do", "hang"),
        "throws": ("scheduler.nothing_to_do", "crash"),
        "exits": ("scheduler.nothing_to_do", "crash"),
        "fails_at_once": ("any.defaults", "fail"),
        "crashes_at_bounds": ("any.option_bounds", "crash"),
        "has_everything": ("any.unknown_extension", "fail"),
        "loses_memory": ("any.created_repeatedly", "leak"),
        "keeps_host_memory": ("any.created_repeatedly", "leak"),
        "needs_memory": ("any.no_memory", "crash"),
        "rounds": ("any.floating_point_state", "fail"),
        "loses_memory_in_plan": ("any.used_repeatedly", "leak"),
        "takes_memory": ("scheduler.memory", "fail"),
        "fails_where_someone_gives_up": ("scheduler.random_views", "crash"),
        "reads_a_clock": ("any.keeps_to_the_host", "fail"),
        "reads_a_file": ("any.keeps_to_the_host", "fail"),
        "starts_a_thread": ("any.keeps_to_the_host", "fail"),
        "draws_numbers": ("any.keeps_to_the_host", "fail"),
        "prints": ("any.keeps_to_the_host", "fail"),
        "changes_its_view": ("any.views", "fail"),
        "remembers_everyone": ("scheduler.ended_sequences", "leak"),
        "sets_locale": ("any.keeps_to_the_host", "fail"),
        "counts_to_sixty_thousand": ("scheduler.long_prompts", None),
        "waits_an_hour": ("scheduler.serves_everyone", "fail"),
        "puts_off": ("scheduler.serves_everyone", "fail"),
        "ignores_its_options": ("any.option_effects", "warn"),
    }),
    "kv_caches": ("kv_cache", {
        "loses_blocks": ("kv_cache.comes_back", "fail"),
        "grants_anyway": ("kv_cache.failure_changes_nothing", "fail"),
        "forgets_salts": ("kv_cache.keys", "fail"),
        "keeps_moves": ("kv_cache.traffic", "fail"),
        "counts_wrong": ("kv_cache.traffic", "fail"),
        "is_never_sound": ("kv_cache.traffic", "fail"),
        "hands_out_too_early": ("kv_cache.scarce_traffic", "fail"),
        "shares_its_table": ("kv_cache.traffic", "fail"),
        "promises_more": ("kv_cache.traffic", "fail"),
        "fails_for_no_reason": ("kv_cache.traffic", "fail"),
        "counts_nothing_used": ("kv_cache.comes_back", "fail"),
        "remembers_everyone": ("kv_cache.ended_sequences", "leak"),
    }),
    "samplers": ("sampler", {
        "counts_rows": ("sampler.key_alone", "fail"),
        "ignores_seeds": ("sampler.key_counts", "fail"),
        "ignores_positions": ("sampler.key_counts", "fail"),
        "last_of_equals": ("sampler.greedy", "fail"),
        "ignores_allowed": ("sampler.allowed", "fail"),
        "fails_for_all": ("sampler.faulty_rows", "fail"),
        "draws_from_nothing": ("sampler.faulty_rows", "fail"),
        "ignores_scores": ("sampler.score", "fail"),
        "says_other_shares": ("sampler.distribution", "fail"),
        "sums_to_two": ("sampler.looking", "fail"),
        "draws_when_asked": ("sampler.looking", "fail"),
        "keeps_too_many": ("sampler.top_k", "fail"),
        "accepts_all": ("sampler.verify", "fail"),
        "names_strangers": ("sampler.key_alone", "fail"),
        "speaks_of_banned": ("sampler.allowed", "fail"),
        "counts_sequences": ("sampler.key_alone", "fail"),
        "cuts_ids": ("sampler.greedy", "fail"),
        "reads_behind": ("sampler.key_alone", "crash"),
        "ignores_temperature": ("sampler.temperature", "fail"),
        "ignores_top_p": ("sampler.top_p", "fail"),
        "knows_no_forks": ("sampler.forks", "fail"),
        "takes_trees_for_chains": ("sampler.trees", "fail"),
        "claims_bias": ("sampler.bias", "fail"),
        "claims_bans": ("sampler.bans", "fail"),
        "claims_penalties": ("sampler.penalties", "fail"),
        "claims_dry": ("sampler.dry", "fail"),
        "claims_top_n_sigma": ("sampler.top_n_sigma", "fail"),
        "claims_min_p": ("sampler.min_p", "fail"),
        "claims_xtc": ("sampler.xtc", "fail"),
        "remembers_everyone": ("sampler.ended_sequences", "leak"),
        "writes_its_input": ("sampler.key_alone", "fail"),
        "overflows": ("sampler.large_logits", "fail"),
    }),
    "drafters": ("drafter", {
        "offers_more": ("drafter.no_room", "fail"),
        "drafts_more": ("drafter.room", "fail"),
        "drafts_strangers": ("drafter.room", "fail"),
        "remembers_the_last": ("drafter.fresh", "fail"),
        "shares_state": ("any.same_answers", "fail"),
        "mixes_sequences": ("drafter.apart", "fail"),
        "needs_parents": ("drafter.forks", "fail"),
        "needs_two_tokens": ("drafter.short_histories", "fail"),
        "remembers_everyone": ("drafter.ended_sequences", "leak"),
        "ignores_its_options": ("any.option_effects", "warn"),
        "writes_past_where_asked": ("drafter.room", "crash"),
        "throws_at_bounds": ("any.option_bounds", "fail"),
    }),
    "kernels_linear": ("linear", {
        "skips_a_column": ("linear.products", "fail"),
        "counts_rows": ("linear.same_bits", "fail"),
        "writes_behind": ("linear.products", None),
        "reads_behind": ("linear.products", "crash"),
        "packs_behind": ("linear.products", None),
        "rounds_more": ("linear.gather", "fail"),
        "forgets_bias": ("linear.epilogues", "fail"),
        "stores_where_it_adds": ("linear.epilogues", "fail"),
        "takes_any_epilogue": ("linear.refusals", "fail"),
        "takes_rows_in_order": ("linear.rows", "fail"),
        "gathers_the_first": ("linear.gather", "fail"),
        "ignores_row_scale": ("linear.row_scale", "fail"),
        "ignores_y_rows": ("linear.y_rows", "fail"),
        "ignores_strides": ("linear.strides", "fail"),
        "gathers_without_room": ("linear.strides", "fail"),
        "runs_the_first_job": ("linear.jobs", "fail"),
        "takes_rows_as_stored": ("linear.stored_rows", "fail"),
        "loses_the_tail": ("linear.products", "fail"),
        "works_alone": ("linear.threads", "fail"),
        "takes_memory": ("linear.memory", "warn"),
        "writes_its_input": ("any.views", "fail"),
    }),
    "kernels_attention": ("attention", {
        "forgets_scale": ("attention.formula", "fail"),
        "forgets_windows": ("attention.windows", "fail"),
        "sees_too_little": ("attention.formula", "fail"),
        "skips_a_slice": ("attention.formula", "fail"),
        "counts_rows": ("attention.same_bits", "fail"),
        "plans_behind": ("attention.formula", None),
        "writes_behind": ("attention.formula", None),
        "forgets_soft_caps": ("attention.soft_cap", "fail"),
        "forgets_sinks": ("attention.sinks", "fail"),
        "forgets_slopes": ("attention.alibi", "fail"),
        "has_one_storage": ("attention.shared_layers", "fail"),
        "sees_nothing_ahead": ("attention.spans", "fail"),
        "serves_all": ("attention.own_rows", "fail"),
        "follows_positions": ("attention.positions", "fail"),
        "takes_memory": ("attention.memory", "fail"),
        "recurses": ("attention.formula", "crash"),
        "keeps_its_plan": ("attention.plans", "fail"),
        "never_rounds": ("attention.formula", "fail"),
        "writes_its_input": ("any.views", "fail"),
    }),
    "kernels_state": ("state", {
        "changes_its_start": ("state.start", "fail"),
        "writes_unreached": ("state.start", "fail"),
        "starts_from_nothing": ("state.same_bits", "fail"),
        "skips_a_slice": ("state.formula", "fail"),
        "writes_behind": ("state.formula", None),
        "forgets_offsets": ("state.formula", "fail"),
        "takes_memory": ("state.memory", "fail"),
    }),
    "kv_stores": ("kv_store", {
        "forgets_groups": ("kv_store.keys", "fail"),
        "changes_a_bit": ("kv_store.what_was_put", "fail"),
        "says_more": ("kv_store.what_was_put", "fail"),
        "removes_nothing": ("kv_store.what_was_put", "fail"),
        "copies_the_beginning": ("kv_store.room", "fail"),
        "writes_behind": ("kv_store.room", None),
        "answers_twice": ("kv_store.what_was_put", "fail"),
        "loses_answers": ("kv_store.answers", "fail"),
        "waits_for_nobody": ("kv_store.answers", "hang"),
    }),
    "kernels_delta": ("state", {
        "tiles_heads": ("state.formula", "fail"),
        "adds_plainly": ("state.formula", "fail"),
        "decays_late": ("state.formula", "fail"),
        "decays_as_one": ("state.formula", "fail"),
        "forgets_length": ("state.formula", "fail"),
        "forgets_scale": ("state.formula", "fail"),
        "begins_afresh": ("state.same_bits", "fail"),
    }),
}
# A sanitizer sees these itself, and counts no memory for anybody else.
UNDER_SANITIZERS = {"leak": None, "crash": None}


def library(name):
    return FOLDER / f"libtenon-promises_{name}.so"


def check(*arguments, **keywords):
    return run("plugins", "check", *arguments, "--quick", **keywords)


class Wrong(unittest.TestCase):
    def test_each_is_caught_by_the_case_that_should(self):
        for name, (interface, plugins) in WRONG.items():
            for plugin, (case, verdict) in plugins.items():
                with self.subTest(library=name, plugin=plugin):
                    if SANITIZED and verdict in UNDER_SANITIZERS:
                        continue
                    limit = 2 if verdict == "hang" else 60
                    done = check(library(name), "--plugin", f"{interface}/test.{plugin}", "--case",
                                 case, "--time-limit", limit, "--json")
                    self.assertEqual(done.returncode, 0 if verdict == "warn" else 1,
                                     done.stdout + done.stderr)
                    found = [one for one in json.loads(done.stdout)["cases"] if one["case"] == case]
                    self.assertEqual(len(found), 1)
                    if verdict is None:  # a page that nobody may touch, or bytes behind the end
                        self.assertIn(found[0]["verdict"], ["fail", "crash"])
                    else:
                        self.assertEqual(found[0]["verdict"], verdict, found[0]["what"])
                    self.assertNotEqual(found[0]["what"], "")

    def test_there_are_forty_of_them_and_more(self):
        self.assertGreater(sum(len(plugins) for _, plugins in WRONG.values()), 40)

    def test_every_wrong_plugin_of_a_library_is_on_the_list(self):
        for name, (interface, plugins) in WRONG.items():
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / library(name).name).symlink_to(library(name))
                listed = json.loads(run("plugins", "list", interface, "--plugin-path", folder,
                                        "--json").stdout)
            found = {one["id"][5:] for one in listed if one["id"].startswith("test.")}
            self.assertEqual(found - RIGHT - OTHERS, set(plugins))


class Sound(unittest.TestCase):
    def test_what_the_templates_write_keeps_every_promise_whatever_the_seed(self):
        for name, (interface, _) in WRONG.items():
            for seed in [1, 2, 77]:
                with self.subTest(interface=interface, seed=seed):
                    done = check(library(name), "--plugin", f"{interface}/test.sound", "--seed", seed)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("passed", done.stdout)
                    self.assertNotIn("  warn", done.stdout)


class Report(unittest.TestCase):
    def test_a_finding_quotes_the_promise_and_says_how_to_see_it_again(self):
        done = check(library("samplers"), "--plugin", "sampler/test.ignores_scores", "--case",
                     "sampler.score", "--seed", "17")
        self.assertEqual(done.returncode, 1)
        self.assertIn("<tenon/sampler.h> says: \"nothing is drawn, the result is this token\"",
                      done.stdout)
        again = f"again: tenon plugins check {library('samplers')} --plugin " \
                "sampler/test.ignores_scores --case sampler.score --seed 17 --quick"
        self.assertIn(again, done.stdout)

    def test_a_crash_names_the_call(self):
        done = check(library("schedulers"), "--plugin", "scheduler/test.throws", "--case",
                     "scheduler.nothing_to_do")
        self.assertIn("crash", done.stdout)
        self.assertIn("plan of scheduler 'test.throws'" if not SANITIZED else "crash", done.stdout)

    def test_a_scheduler_may_wait_a_while_on_purpose(self):
        done = check(library("schedulers"), "--plugin", "scheduler/test.waits_for_company", "--case",
                     "scheduler.serves_everyone", "--case", "scheduler.narrow_steps")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_hang_says_whether_it_computed_or_waited(self):
        for plugin, case, words in [
                ("insists", "scheduler.refusals", r"no end in [12] s of processor time"),
                ("waits_for_itself", "scheduler.nothing_to_do", r"it has slept for 1 s and taken 0 s")]:
            with self.subTest(plugin=plugin):
                done = check(library("schedulers"), "--plugin", f"scheduler/test.{plugin}", "--case",
                             case, "--time-limit", 1)
                self.assertRegex(done.stdout, "hang.*" + words)

    def test_time_in_which_a_case_is_stopped_is_no_hang_of_it(self):
        with subprocess.Popen([BINARY, "plugins", "check", library("schedulers"), "--plugin",
                               "scheduler/test.waits_for_itself", "--case",
                               "scheduler.nothing_to_do", "--time-limit", "1", "--json"],
                              stdout=subprocess.PIPE, text=True) as checking:
            case = self.case_process(checking)
            os.kill(case, signal.SIGSTOP)
            time.sleep(2)
            os.kill(case, signal.SIGCONT)
            found = json.loads(checking.communicate()[0])["cases"][-1]
        self.assertRegex(found["what"], "slept for 1 s")
        self.assertGreater(found["seconds"], 2.9)

    @staticmethod
    def case_process(checking):
        """The one that runs the scheduler's case; before it one of the library runs."""
        while True:
            for child in pathlib.Path(f"/proc/{checking.pid}/task/{checking.pid}/children") \
                    .read_text().split():
                try:
                    if b"scheduler.nothing_to_do\0--seed" in \
                            pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                        return int(child)
                except (FileNotFoundError, ProcessLookupError):
                    pass  # it has ended meanwhile

    def test_junit_has_a_test_case_for_each_case(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.xml"
            done = check(library("samplers"), "--plugin", "sampler/test.ignores_scores", "--case",
                         "sampler", "--junit", path)
            self.assertEqual(done.returncode, 1)
            suite = xml.etree.ElementTree.parse(path).getroot()
        self.assertEqual(suite.get("failures"), "1")
        names = [case.get("name") for case in suite]
        self.assertIn("sampler.score", names)
        failed = [case.get("name") for case in suite if case.find("failure") is not None]
        self.assertEqual(failed, ["sampler.score"])

    def test_the_sentence_that_is_quoted_is_the_promise_that_was_broken(self):
        for name, plugin, case, sentence in [
                ("schedulers", "scheduler/test.grants_more", "scheduler.random_views",
                 "only what the ledger granted;"),
                ("schedulers", "scheduler/test.invents_drafts", "scheduler.random_views",
                 "drafts that could be proposed; a grant may use up to these"),
                ("schedulers", "scheduler/test.exceeds_tokens", "scheduler.random_views",
                 "to keep within `max_sequences` and `max_batch_tokens`;"),
                ("kv_caches", "kv_cache/test.counts_wrong", "kv_cache.traffic",
                 "total = reserved + free + those that await `step_done`."),
                ("samplers", "sampler/test.sums_to_two", "sampler.looking",
                 "What a row would be drawn from, after every bias, ban and stage: sums to 1"),
                ("drafters", "drafter/test.drafts_strangers", "drafter.room",
                 "index into the vocabulary")]:
            with self.subTest(plugin=plugin):
                done = check(library(name), "--plugin", plugin, "--case", case)
                self.assertIn(f'says: "{sentence}"', done.stdout)

    def test_a_crash_is_not_said_to_be_against_a_sentence(self):
        done = check(library("schedulers"), "--plugin", "scheduler/test.exits", "--case",
                     "scheduler.nothing_to_do")
        self.assertIn('while it was held to <tenon/scheduler.h>: "', done.stdout)
        self.assertNotIn("says:", done.stdout)

    def test_a_drafter_that_never_proposes_is_not_exercised(self):
        with tempfile.TemporaryDirectory() as folder:
            page, junit = pathlib.Path(folder) / "page.html", pathlib.Path(folder) / "junit.xml"
            done = check(library("drafters"), "--plugin", "drafter/test.proposes_nothing", "--html",
                         page, "--junit", junit)
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.assertIn("Not exercised, so nothing is known", page.read_text())
            self.assertIn('<skipped message="not exercised: it proposes nothing in any of 4 texts',
                          junit.read_text())
        self.assertIn("not exercised  drafter.room: it proposes nothing in any of 4 texts, at its "
                      "defaults or with any of", done.stdout)
        self.assertNotRegex(done.stdout, r"pass +drafter\.")
        told = json.loads(check(library("drafters"), "--plugin", "drafter/test.proposes_nothing",
                                "--json").stdout)
        self.assertIs(told["exercised"], False)
        self.assertIs(told["sound"], True)

    def test_a_drafter_that_acts_with_an_option_is_driven_with_it(self):
        done = check(library("drafters"), "--plugin", "drafter/test.writes_past_where_asked",
                     "--case", "drafter.forks", "--json")
        self.assertNotEqual(json.loads(done.stdout)["cases"][-1]["verdict"], "pass", done.stdout)

    def test_an_effect_that_shows_after_a_while_is_no_false_alarm(self):
        done = check(library("drafters"), "--plugin", "drafter/test.warms_up", "--case",
                     "any.option_effects")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("warn", done.stdout)

    def test_hangs_cost_three_limits_at_most(self):
        done = check(library("drafters"), "--plugin", "drafter/test.sleeps", "--time-limit", 1,
                     "--json")
        cases = json.loads(done.stdout)["cases"]
        self.assertEqual([case["verdict"] for case in cases].count("hang"), 3)
        self.assertLess(sum(case["seconds"] for case in cases if case["verdict"] == "hang"), 6)
        self.assertIn("3 cases hung before it", cases[-1]["what"])

    def test_the_same_seed_finds_the_same(self):
        found = [check(library("drafters"), "--plugin", "drafter/test.remembers_the_last", "--case",
                       "drafter.fresh", "--seed", "5").stdout for _ in range(2)]
        self.assertEqual(found[0], found[1])


class Usage(unittest.TestCase):
    def assert_refused(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stdout)
        for text in texts:
            self.assertIn(text, done.stdout + done.stderr)

    def test_a_library_without_a_stamp_fails_its_first_case(self):
        done = check(FOLDER / "libtenon-no_stamp.so")
        self.assert_refused(done, "fail", "file.stamp")
        self.assertNotIn("file.loads", done.stdout)

    def test_what_is_left_of_a_library_is_called_truncated(self):
        whole = library("schedulers").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            for size in (10, 64, 200, 5000):
                left = pathlib.Path(folder) / "libtenon-left.so"
                left.write_bytes(whole[:size])
                with self.subTest(size=size):
                    done = check(left)
                    self.assert_refused(done, "fail", "file.stamp", "the library is truncated",
                                        f"and the file at {size}; copy or build it anew")
                    self.assertNotIn("TENON note", done.stdout)

    def test_a_library_that_cannot_be_loaded_fails_its_second_case(self):
        self.assert_refused(check(FOLDER / "libtenon-missing_symbol.so"), "fail      file.loads")

    def test_a_case_that_does_not_exist_is_refused(self):
        self.assert_refused(check(library("samplers"), "--case", "sampler.gready"),
                            "'sampler.gready'", "did you mean 'sampler.greedy'")

    def test_a_plugin_that_the_file_has_not_is_refused(self):
        self.assert_refused(check(library("samplers"), "--plugin", "sampler/test.nobody"),
                            "sampler/test.nobody")

    def test_types_that_an_option_leaves_out_are_not_asked_for(self):
        cpu = FOLDER.parent.parent / "plugins/libtenon-attention_cpu.so"
        for products in ["f32", "bf16", "int8"]:
            with self.subTest(products=products):
                done = check(cpu, "--case", "attention", "--option", f"products={products}")
                if "processor" in done.stdout and done.returncode != 0:
                    self.skipTest("not on this processor")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertNotIn("skipped", done.stdout)

    def test_an_option_without_a_default_is_asked_for_once(self):
        replay = FOLDER.parent.parent / "plugins/libtenon-sampler_replay.so"
        cases = ("--case", "any", "--case", "sampler.greedy")
        done = check(replay, *cases)
        self.assert_refused(done, "it needs the option 'tokens', which has no default",
                            "--option tokens=VALUE")
        self.assertRegex(done.stdout, r"2 passed, \d+ not exercised, 1 failed")
        done = check(replay, "--option", "tokens=5 6 7", "--case", "any.defaults")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_duration_of_fuzzing_is_one(self):
        self.assert_refused(check(library("samplers"), "--fuzz", "soon"), "--fuzz 'soon'", "60s")

    def test_a_file_that_does_not_exist_is_refused(self):
        self.assert_refused(check("/nowhere/libtenon-x.so"), "/nowhere/libtenon-x.so")


class Reports(unittest.TestCase):
    ONE = ("--plugin", "sampler/test.sound", "--case", "sampler.greedy")

    def test_a_page_stands_alone_and_says_what_is_broken(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.html"
            check(library("samplers"), "--plugin", "sampler/test.ignores_allowed", "--case",
                  "sampler.allowed", "--html", page)
            text = page.read_text()
        self.assertIn("Breaks what its interfaces promise", text)
        self.assertIn("<code>sampler.allowed</code>", text)
        self.assertIn("--case sampler.allowed --seed 1", text)
        self.assertNotIn("<script", text)
        self.assertNotIn("http", text)

    def test_a_page_of_a_sound_plugin_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.html"
            done = check(library("samplers"), *self.ONE, "--html", page)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("Keeps what its interfaces promise", page.read_text())

    def test_fuzzing_goes_on_with_further_seeds(self):
        done = check(library("samplers"), *self.ONE, "--fuzz", "1s", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = json.loads(done.stdout)
        self.assertGreater(told["fuzz"]["seeds"], 0)
        self.assertGreater(told["fuzz"]["cases"], 0)
        self.assertEqual([case["case"] for case in told["cases"]].count("sampler.greedy"), 1)

    def test_fuzzing_does_not_begin_where_something_is_broken(self):
        done = check(library("samplers"), "--plugin", "sampler/test.ignores_allowed", "--case",
                     "sampler.allowed", "--fuzz", "1s", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("fuzz", json.loads(done.stdout))


if __name__ == "__main__":
    unittest.main()
