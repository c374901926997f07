"""engine.guard, plugins.lock and plugins.policy from outside."""
import json
import pathlib
import re
import shutil
import signal
import tempfile
import unittest

from program import BINARY, MODEL, SANITIZED, run, settings

BUILD = pathlib.Path(BINARY).parent.parent
PROMPT = "Once upon a time"


class Guard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_with(self, *flags, prompt=PROMPT):
        return run("run", prompt, "--max-tokens", 16, "--temperature", 0, "--no-echo", "--quiet",
                   *flags)

    def strangers(self, name):
        shutil.copy(BUILD / f"tests/{name}.so", self.folder)
        return ["--plugin-path", self.folder]

    def test_every_level_says_the_same(self):
        flags = self.strangers("bad_plugins/libtenon-stuck")
        # Sound as long as it is not destroyed.
        flags += settings(scheduler__plugin="test.destroy_crashes")
        usual = self.run_with()
        self.assertEqual(usual.returncode, 0, usual.stderr)
        for level in ("checks", "isolate"):
            done = self.run_with(*settings(engine__guard=level))
            self.assertEqual((done.returncode, done.stdout), (0, usual.stdout), done.stderr)
        done = self.run_with(*flags, *settings(engine__guard="isolate"))
        self.assertEqual((done.returncode, done.stdout), (0, usual.stdout), done.stderr)

    def test_whoever_writes_into_what_it_is_lent_is_named_where_calls_are_looked_at(self):
        for interface, library, words in [
                ("sampler", "samplers", "sample changed the logits or history"),
                ("linear", "kernels_linear", "run changed the activations, biases or factors"),
                ("attention", "kernels_attention", "run changed the q, k or v")]:
            flags = self.strangers(f"bad_plugins/libtenon-promises_{library}")
            flags += ["--set", f"{interface}.plugin=test.writes_its_input"]
            with self.subTest(interface=interface):
                self.assertEqual(self.run_with(*flags).returncode, 0, "seen without being asked")
                done = self.run_with(*flags, *settings(engine__guard="checks"))
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("test.writes_its_input", done.stderr)
                self.assertIn(f"{words} that it was shown – expected that it only reads them",
                              done.stderr)

    @unittest.skipIf(SANITIZED, "sanitizers have handlers of their own")
    def test_whoever_writes_far_beyond_its_room_is_named(self):
        flags = self.strangers("bad_plugins/libtenon-overruns")
        for interface, plugin, call in [
                ("scheduler", "test.writes_beyond_grants", "plan"),
                ("sampler", "test.writes_beyond_results", "sample"),
                ("sampler", "test.writes_before_results", "sample")]:
            for level in ("off", "checks"):
                with self.subTest(plugin=plugin, guard=level):
                    done = self.run_with(*flags, "--set", f"{interface}.plugin={plugin}",
                                         *settings(engine__guard=level))
                    self.assertEqual(done.returncode, -signal.SIGSEGV, done.stderr)
                    self.assertIn(f"tenon: {call} of {interface} '{plugin}' crashed", done.stderr)

    def test_a_plan_that_never_returns_is_named_and_the_answer_is_complete(self):
        flags = self.strangers("bad_plugins/libtenon-stuck")
        done = self.run_with(*flags, *settings(scheduler__plugin="test.plan_hangs",
                                               engine__guard="isolate", engine__call_limit="2s"))
        self.assertEqual((done.returncode, done.stdout), (0, self.run_with().stdout), done.stderr)
        self.assertIn("scheduler 'test.plan_hangs': its process did not return within 2s "
                      "(engine.call_limit) in plan", done.stderr)
        self.assertIn("from here on 'continuous' plans in its place", done.stderr)

    def test_a_plugin_that_exits_ends_its_own_process(self):
        flags = self.strangers("bad_plugins/libtenon-stuck")
        done = self.run_with(*flags, *settings(scheduler__plugin="test.plan_exits",
                                               engine__guard="isolate"))
        self.assertEqual((done.returncode, done.stdout), (0, self.run_with().stdout), done.stderr)
        # The status is 0 but where a leak sanitizer has something to say.
        self.assertRegex(done.stderr, "its process ended with status [0-9]+ in plan")

    def run_json(self, *flags):
        done = run("run", PROMPT, "--max-tokens", 16, "--temperature", 0, "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        return told["pipeline"]["guard"], {one["interface"]: one for one in told["plugins"]}

    def test_the_report_says_how_each_plugin_was_watched(self):
        for level in ("off", "checks"):
            guard, plugins = self.run_json(*settings(engine__guard=level))
            self.assertEqual(guard, level)
            self.assertEqual({plugins[one]["guard"] for one in ("scheduler", "sampler")}, {level})
        guard, plugins = self.run_json("--check-plugins")
        self.assertEqual((guard, plugins["kv_cache"]["guard"]), ("checks", "checks"))
        flags = self.strangers("bad_plugins/libtenon-stuck")
        flags += settings(scheduler__plugin="test.destroy_crashes", engine__guard="isolate")
        guard, plugins = self.run_json(*flags)
        self.assertEqual(guard, "isolate")
        # The installation's own are trusted.
        self.assertEqual(plugins["scheduler"]["guard"], "isolate")
        self.assertEqual(plugins["sampler"]["guard"], "checks")
        self.assertNotIn("lost", plugins["scheduler"])

    def test_the_report_says_who_was_lost_and_who_went_on(self):
        flags = self.strangers("bad_plugins/libtenon-stuck")
        flags += settings(scheduler__plugin="test.plan_exits", engine__guard="isolate")
        _, plugins = self.run_json(*flags)
        lost = plugins["scheduler"]["lost"]
        self.assertEqual((lost["times"], lost["then"]), (1, "'continuous' plans in its place"))
        self.assertRegex(lost["why"], "^its process ended with status [0-9]+ in plan$")
        done = run("run", PROMPT, "--max-tokens", 4, *flags)
        self.assertIn("in processes of their own: scheduler 'test.plan_exits'\n", done.stderr)
        self.assertRegex(done.stderr, "scheduler 'test.plan_exits' was lost: its process ended with "
                                      "status [0-9]+ in plan; 'continuous' plans in its place\n")

    def escape(self, level):
        """What came of each thing that the plugin tried, and the run."""
        file = self.folder / f"written-{level}"
        flags = self.strangers("at_load/libtenon-at_load_escapes")
        flags += settings(scheduler__plugin="test.escapes", engine__guard=level,
                          scheduler__options__file=file)
        done = run("run", PROMPT, "--max-tokens", 16, "--temperature", 0, "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = dict(re.findall(r"test.escapes: (\w+): (.*)", done.stderr))
        return told, json.loads(done.stdout), file.exists(), done.stderr

    @unittest.skipIf(SANITIZED, "sanitizers ask the system for more")
    def test_an_isolated_plugin_does_nothing_to_others(self):
        told, report, written, errors = self.escape("isolate")
        refused = "Operation not permitted"
        self.assertEqual(told, {"socket": refused, "write": refused, "read": "done",
                                "unlink": refused, "execve": refused, "fork": refused,
                                "ptrace": refused, "kill": refused, "setrlimit": refused,
                                "shrink": refused, "thread": "done"}, errors)
        self.assertFalse(written)
        plugin = next(one for one in report["plugins"] if one["interface"] == "scheduler")
        self.assertEqual(plugin["refused"], "socket")
        self.assertNotIn("lost", plugin)
        self.assertIn("scheduler test.escapes: it asked the system for 'socket', which was refused",
                      errors)

    def test_one_that_is_trusted_may_do_what_the_program_may(self):
        told, report, written, errors = self.escape("checks")
        self.assertEqual((told["socket"], told["write"], told["fork"]), ("done",) * 3, errors)
        self.assertTrue(written)
        self.assertNotIn("Operation not permitted", errors)

    def test_a_strangers_drafter_that_runs_a_model_of_the_programs_is_refused(self):
        library = next(BUILD.glob("plugins/**/libtenon-drafter_draft_model.so"))
        # By another name, so that it is not taken for the installation's own.
        copy = self.folder / library.name
        copy.write_bytes(library.read_bytes().replace(b"draft_model", b"drafx_model"))
        done = self.run_with("--plugin-path", self.folder, *settings(
            drafter__plugin="drafx_model", drafter__model=MODEL, engine__guard="isolate"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("it runs a second model of the program's, which cannot be had in a "
                      "process of its own", done.stderr)

    def test_that_nobody_was_isolated_is_said(self):
        done = run("run", PROMPT, "--max-tokens", 4, *settings(engine__guard="isolate"))
        self.assertIn("in processes of their own: none, as all plugins are the installation's own",
                      done.stderr)

    def pipeline(self, text=""):
        config = self.folder / "pipeline.toml"
        config.write_text(f'format = 1\n[model]\npath = "{MODEL}"\n{text}')
        return config

    def test_a_lock_lets_in_what_it_pins_and_nothing_that_changed(self):
        config = self.pipeline('[plugins]\npolicy = "locked"\n')
        refused = self.run_with("--config", config)
        self.assertEqual(refused.returncode, 1)
        self.assertIn('plugins.policy is "locked", but there is no plugins.lock', refused.stderr)
        made = run("plugins", "lock", "--config", config)
        self.assertEqual(made.returncode, 0, made.stderr)
        lock = self.folder / "plugins.lock"
        self.assertIn(f"wrote {lock}: ", made.stdout)
        taken = self.run_with("--config", config)
        self.assertEqual(taken.returncode, 0, taken.stderr)
        lines = lock.read_text().splitlines()
        changed = [("0" * 64 + line[64:]) if "scheduler_continuous" in line else line
                   for line in lines]
        lock.write_text("\n".join(changed) + "\n")
        refused = self.run_with("--config", config)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("libtenon-scheduler_continuous.so: its sha256 is ", refused.stderr)
        self.assertIn("but it is pinned to 000", refused.stderr)

    def test_a_lock_needs_a_place(self):
        done = run("plugins", "lock")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is neither --config nor --output", done.stderr)

    def test_strangers_files_without_a_signature_are_refused_where_the_policy_asks(self):
        flags = self.strangers("bad_plugins/libtenon-stuck")
        flags += settings(scheduler__plugin="test.plan_exits", plugins__policy="signed",
                          plugins__key="RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")
        done = self.run_with(*flags)
        self.assertEqual(done.returncode, 1)
        self.assertIn('libtenon-stuck.so: plugins.policy is "signed", but there is no signature '
                      'beside it', done.stderr)
        self.assertEqual(self.run_with(*settings(plugins__policy="signed")).returncode, 0)


if __name__ == "__main__":
    unittest.main()
