"""bench/peers with stand-ins that print what the programs print, and once with the real program."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from peers_stand_ins import BATCHED_BENCH, LLAMA_BENCH, LLAMA_WHEEL, TENON, WORKS, filled, program
from program import BINARY, SOURCE

SCRIPT = SOURCE / "bench/peers/peers.py"
sys.path.insert(0, str(SCRIPT.parent))
from engines import Busy, processor_seconds  # noqa: E402


class Peers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        program(self.folder / "tenon", TENON, binary=repr(str(BINARY)))
        self.works()
        self.answers()

    def works(self, goal=0.5):
        (self.folder / "works.toml").write_text(filled(WORKS, {"goal": goal}))

    def answers(self, **answers):
        answers.setdefault("states", [10.0])
        (self.folder / "answers.json").write_text(json.dumps(answers))

    def peer(self, name="llama", seconds="4.0", step="0.1 * batch", before="pass", help="",
             help_status=0, model='flags["-m"]'):
        folder = self.folder / name / "build" / "bin"
        program(folder / "llama-bench", LLAMA_BENCH, seconds=seconds, before=before, help=help,
                help_status=help_status, model=model)
        program(folder / "llama-batched-bench", BATCHED_BENCH, step=step)
        return ["--peer", self.folder / name / "build" / "bin"]

    def fork(self, **keywords):
        return self.peer("fork", help="-rtr, --run-time-repack <0|1>", help_status=1, **keywords)

    def wheel(self):
        """A Python that finds a stand-in for llama-cpp-python."""
        packages = self.folder / "packages"
        (packages / "llama_cpp").mkdir(parents=True)
        (packages / "llama_cpp/__init__.py").write_text("")
        (packages / "llama_cpp/llama_cpp.py").write_text(
            filled(LLAMA_WHEEL, {"calls": repr(str(self.folder / "wheel.txt"))}))
        info = packages / "llama_cpp_python-9.8.7.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: 9.8.7\n")
        python = self.folder / "python"
        python.write_text(f"#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} \"$@\"\n")
        python.chmod(0o755)
        return python

    def run_script(self, *flags, works=("decode",), pairs=2, tenon=None):
        measuring = ["--tenon", tenon or self.folder / "tenon", "--models", self.folder / "models",
                     "--works-file", self.folder / "works.toml", "--pairs", pairs,
                     "--state-seconds", "0.01", "--share", 0, "--works", *works] if works else []
        return subprocess.run([sys.executable, SCRIPT, *map(str, [*measuring, *flags])],
                              capture_output=True, text=True, check=False, timeout=600)

    def measured(self, *flags, **keywords):
        """Results as --save writes them, and what was printed."""
        done = self.run_script("--save", self.folder / "saved.json", *flags, **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "saved.json").read_text()), done.stdout

    def calls(self, *beginning):
        calls = (self.folder / "calls.txt").read_text().splitlines()
        return [call for call in calls if call.startswith(" ".join(beginning))]

    def test_a_table_states_speeds_fractions_of_the_limit_and_the_ratio(self):
        # 1e9 bytes at 10 GB/s: 0.1 s a step. Tenon takes 0.2 s; the peer 4 s for 10 steps.
        done = self.run_script(*self.peer())
        self.assertEqual(done.returncode, 0, done.stderr)
        row = next(line for line in done.stdout.splitlines() if line.startswith("decode"))
        self.assertIn("5/s (0.50)", row)
        self.assertIn("2.5/s (0.25)", row.replace("2.475/s", "2.5/s"))
        self.assertIn("2.02 [2.02, 2.02]", row)

    def test_programs_run_in_turns_in_reversed_order_each_time(self):
        self.run_script(*self.peer(), pairs=3)
        order = [call.split()[0] for call in self.calls() if "--limits" not in call
                 and not call.startswith("tenon model")]
        tried = 2  # settings
        self.assertEqual(order[tried:], ["tenon", "llama-bench", "llama-bench", "tenon", "tenon",
                                         "llama-bench"])

    def test_the_state_is_measured_before_and_after_each_piece(self):
        self.run_script(*self.peer(), pairs=2)
        kinds = ["state" if "--limits" in call else "piece" for call in self.calls()[-8:]]
        self.assertEqual(kinds, ["piece", "state"] * 4)

    def test_pairs_whose_states_differ_are_dropped_and_made_up_for(self):
        # The first state describes the machine; then around: 10 | 20 20 | 20 20 | 20 20.
        self.answers(states=[10.0, 10.0, 10.0, 20.0, 20.0])
        results, output = self.measured(*self.peer(), pairs=2)
        work = results["works"][0]
        self.assertEqual(work["dropped"], {"llama.cpp": 1})
        self.assertEqual([pair["state"]["read_gbps"] for pair in work["pairs"]["llama.cpp"]],
                         [20.0, 20.0])
        self.assertIn("1 dropped", output)

    def test_states_that_never_agree_end_without_a_ratio(self):
        self.answers(states=[10.0 * 2 ** (i % 2) for i in range(50)])
        results, output = self.measured(*self.peer(), pairs=2)
        self.assertEqual(results["works"][0]["pairs"], {"llama.cpp": []})
        self.assertIn("– (6 dropped)", output)

    def test_pairs_that_others_disturbed_are_dropped(self):
        # More than all processors is never had.
        done = self.run_script(*self.peer(), "--share", 9, pairs=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("– (3 dropped)", done.stdout)
        self.assertRegex(done.stderr, r"dropped: Tenon had \d+\.\d\d of the processors; llama.cpp")

    def test_limits_are_those_of_the_same_pair(self):
        self.answers(states=[10.0, 20.0])
        results, _ = self.measured(*self.peer(), pairs=1)
        pair = results["works"][0]["pairs"]["llama.cpp"][0]
        self.assertAlmostEqual(pair["limit"], 1e9 / 20e9)

    def test_operations_bound_a_prompt(self):
        # 2e6 operations a row and for the head, 101 in all, at 1e9 a second: more than reading.
        results, _ = self.measured(*self.peer(seconds="1.0"), works=("prefill",), pairs=1)
        self.assertAlmostEqual(results["works"][0]["pairs"]["llama.cpp"][0]["limit"], 0.202)

    def test_the_best_setting_of_a_peer_is_tried_out_and_named(self):
        _, output = self.measured(*self.peer(seconds='2.0 if flags["-fa"] == "0" else 4.0'))
        self.assertIn("llama.cpp `-fa 0`: bf16 decode", output)
        self.assertEqual([("-fa 0" in call) for call in self.calls("llama-bench")],
                         [False, True, True, True])

    def test_settings_are_tried_once_for_all_batches_of_a_type(self):
        results, _ = self.measured(*self.peer(), works=("batch 4", "verify 3"))
        # Two settings tried and two pairs, then two pairs more.
        self.assertEqual(len(self.calls("llama-batched-bench")), 2 + 2 + 2)
        self.assertEqual(len(results["works"]), 2)

    def test_a_fork_with_run_time_repacking_is_known_and_gets_it(self):
        results, output = self.measured(
            *self.peer(), *self.fork(seconds='1.0 if "-rtr" in flags else 3.0'))
        self.assertEqual(results["peers"], ["llama.cpp", "ik_llama.cpp"])
        self.assertIn("ik_llama.cpp `-fa 1 -rtr 1", output)
        self.assertEqual(sum("-rtr" in call for call in self.calls()), 3 + 2)

    def test_a_setting_that_a_peer_refuses_is_passed_over(self):
        results, _ = self.measured(*self.peer(
            before='if flags["-fa"] == "1": sys.exit("error: unknown value")'))
        self.assertEqual(results["works"][0]["settings"]["llama.cpp"], ["-fa", "0"])

    def test_a_batch_is_read_from_the_table_of_the_batched_bench(self):
        self.answers(decode=0.2)
        results, output = self.measured(*self.peer(step="0.1 * batch"), works=("batch 4",))
        for pair in results["works"][0]["pairs"]["llama.cpp"]:
            self.assertAlmostEqual(pair["peer"], 0.4)
        self.assertIn("10/s", output)  # 4 tokens in 0.4 s
        self.assertIn("2.00 [2.00, 2.00]", output)

    def test_busy_processes_run_beside_each_piece_and_end_with_it(self):
        # Each piece counts the processes that compute in a loop; states are measured without them.
        count = ('import os, pathlib; told = []\n'
                 '    for process in pathlib.Path("/proc").glob("[0-9]*"):\n'
                 '        try:\n'
                 '            words = (process / "stat").read_text().rsplit(")", 1)[1].split()\n'
                 '            told.append(words[1] == str(os.getppid()) and words[0] != "Z"\n'
                 '                        and b"while True: pass" in (process / "cmdline").read_bytes())\n'
                 '        except OSError: pass\n'
                 '    print("busy", sum(told), file=open('
                 'pathlib.Path(__file__).parents[3] / "busy.txt", "a"))')
        results, output = self.measured(*self.peer(before=count), works=("beside 2",), pairs=2)
        seen = (self.folder / "busy.txt").read_text().splitlines()
        self.assertEqual(seen[:2], ["busy 0"] * 2)  # settings are tried without
        self.assertEqual(seen[2:], ["busy 2"] * 2)
        self.assertEqual(len(results["works"][0]["pairs"]["llama.cpp"]), 2)
        row = next(line for line in output.splitlines() if line.startswith("beside 2"))
        self.assertIn("2.02 [2.02, 2.02]", row)
        self.assertNotIn("(0.50)", row)  # a fraction of a limit that nobody had

    def test_the_time_of_busy_processes_is_not_that_of_strangers(self):
        with Busy(1):
            own = processor_seconds()[1]
            while processor_seconds()[1] == own:
                pass
            self.assertGreater(processor_seconds()[1], own)
        self.assertEqual(Busy.running, [])

    def test_verifying_is_stated_against_a_step_of_one_token(self):
        self.answers(verify=1.1)
        _, output = self.measured(*self.peer(step="0.1 + 0.05 * (batch - 1)"), works=("verify 3",))
        self.assertIn("1.10×", output)
        self.assertIn("2.00×", output)

    def test_memory_and_load_need_no_timing_of_the_peer(self):
        results, output = self.measured(*self.peer(seconds="0.001"), works=("memory", "load"))
        self.assertIn("MiB", output)
        memory, load = results["works"]
        self.assertGreater(memory["pairs"]["llama.cpp"][0]["peer"], 1e6)
        self.assertGreater(load["pairs"]["llama.cpp"][0]["limit"], 0)

    def test_both_read_one_file_that_is_made_once(self):
        peer = self.peer()
        for _ in range(2):
            results, _ = self.measured(*peer)
        made = self.calls("tenon", "model")
        self.assertEqual([call.split()[2] for call in made], ["synth", "convert"])
        file = str(self.folder / "models/stories-260k-bf16.gguf")
        self.assertTrue(all(file in call for call in self.calls("llama-bench")))
        self.assertEqual(len(results["works"][0]["sha256"]), 64)

    def test_types_that_are_not_converted_to_are_quantised(self):
        path = self.folder / "works.toml"
        path.write_text(path.read_text().replace('types = ["bf16"]', 'types = ["q4_0", "iq4_xs"]', 1))
        self.measured(*self.peer())
        made = [call.split()[2:] for call in self.calls("tenon", "model")]
        source = str(self.folder / "models/stories-260k")
        self.assertEqual(made[1:], [["convert", source, f"{source}-q4_0.gguf", "--type", "q4_0"],
                                    ["quantize", source, f"{source}-iq4_xs.gguf", "--method", "iq4_xs"]])

    def test_the_other_formats_are_works_that_can_be_measured(self):
        listed = self.run_script("--works-file", SOURCE / "bench/peers/formats.toml", *self.peer(),
                                 works=("nothing",))
        self.assertIn("there is no 'nothing'; known are decode, decode, batch 8, prefill 512",
                      listed.stderr)

    def test_a_peer_that_read_another_file_is_refused(self):
        results, _ = self.measured(*self.peer(model="__file__"))
        self.assertIn("compare on one checkpoint", results["works"][0]["failures"]["llama.cpp"])

    def test_a_peer_that_is_absent_is_a_column_left_out(self):
        results, output = self.measured("--peer", self.folder / "nowhere", *self.peer())
        self.assertEqual(results["peers"], ["llama.cpp"])
        self.assertIn("nowhere' holds no llama-bench; expected the folder of binaries", output)

    def test_tenon_alone_is_measured_where_no_peer_is(self):
        results, output = self.measured(pairs=2)
        self.assertEqual(len(results["works"][0]["alone"]), 2)
        self.assertIn("5/s (0.50)", output)

    def test_a_program_that_is_no_llama_bench_is_left_out(self):
        program(self.folder / "odd/llama-bench", "print('hello')")
        results, _ = self.measured("--peer", self.folder / "odd")
        self.assertIn("does not list --n-prompt, but: hello; is it llama-bench?",
                      results["absent"][0])

    def test_a_peer_that_crashes_is_left_out_of_that_work_alone(self):
        results, output = self.measured(
            *self.peer(before='sys.exit("out of memory") if flags["-p"] == "100" else None'),
            works=("prefill", "decode"))
        prefill, decode = sorted(results["works"], key=lambda work: work["name"], reverse=True)
        self.assertIn("ended with status 1: out of memory", prefill["failures"]["llama.cpp"])
        self.assertEqual(len(decode["pairs"]["llama.cpp"]), 2)
        self.assertIn("failed", output)

    def test_a_peer_ended_by_a_signal_says_which(self):
        results, _ = self.measured(*self.peer(before="import os; os.kill(os.getpid(), 9)"))
        self.assertIn("was ended by signal 9", results["works"][0]["failures"]["llama.cpp"])

    def test_a_peer_that_does_not_end_is_stopped(self):
        results, _ = self.measured(*self.peer(before="import time; time.sleep(60)"),
                                   "--timeout", 3)
        self.assertIn("did not end within 3.0 s; raise --timeout",
                      results["works"][0]["failures"]["llama.cpp"])

    def test_output_that_is_not_understood_is_shown(self):
        results, _ = self.measured(*self.peer(before='print("| t/s | 12 |"); sys.exit()'))
        self.assertIn("printed no JSON, but: | t/s | 12 |; expected what llama-bench prints",
                      results["works"][0]["failures"]["llama.cpp"])

    def test_times_that_are_no_times_are_refused(self):
        for seconds in ("0.0", "-1.0"):
            results, _ = self.measured(*self.peer(seconds=seconds))
            self.assertIn("expected a number above 0",
                          results["works"][0]["failures"]["llama.cpp"])

    def test_a_batched_bench_without_rows_is_refused(self):
        results, _ = self.measured(*self.peer(step="sys.exit(0)"), works=("batch 4",))
        self.assertIn("printed no row for a batch of 4",
                      results["works"][0]["failures"]["llama.cpp"])

    def test_without_tenon_nothing_is_compared(self):
        done = self.run_script(tenon=self.folder / "absent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not there; build it, or name it with --tenon", done.stderr)

    def test_unknown_works_are_refused_with_those_there_are(self):
        done = self.run_script(works=("decoding",))
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no 'decoding'; known are decode, prefill", done.stderr)

    def test_saved_results_print_the_same_table(self):
        _, output = self.measured(*self.peer(), works=("decode", "prefill"))
        done = self.run_script("--show", self.folder / "saved.json", works=())
        self.assertEqual(done.stdout, output)

    def test_a_file_that_holds_no_results_is_refused(self):
        (self.folder / "other.json").write_text("[]")
        done = self.run_script("--show", self.folder / "other.json", works=())
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds no results of this program", done.stderr)

    def test_goals_decide_the_status_only_when_asked(self):
        self.works(goal=0.9)
        self.assertEqual(self.run_script().returncode, 0)
        done = self.run_script("--goals")
        self.assertEqual(done.returncode, 1)
        self.assertIn("0.90 missed", done.stdout)

    def test_markdown_has_a_table_and_a_roofline(self):
        _, output = self.measured(*self.peer(), "--markdown", works=("decode", "prefill"))
        self.assertIn("| decode | bf16 | 5/s (0.50) |", output)
        self.assertIn("A stories-260k bf16 decode", output)
        picture = output[output.index("```"):]
        self.assertTrue(any(line.startswith("|") and "A" in line for line in picture.splitlines()))

    def test_a_page_gets_new_tables_between_its_marks(self):
        page = self.folder / "page.md"
        page.write_text("# Speed\n<!-- tables -->\n### Mine\n\nYesterday\n\n### Another\n\nAs it was\n"
                        "<!-- end of tables -->\nmethod\n")
        for title in ("Mine", "A third"):
            self.measured(*self.peer(), "--page", page, "--title", title)
        text = page.read_text()
        self.assertNotIn("Yesterday", text)
        self.assertEqual(text.count("| decode | bf16 |"), 2)
        titles = [line for line in text.splitlines() if line.startswith("### ")]
        self.assertEqual(titles, ["### Mine", "### Another", "### A third"])
        self.assertIn("### Another\n\nAs it was\n", text)
        self.assertTrue(text.startswith("# Speed\n") and text.endswith("\nmethod\n"))
        done = self.run_script("--show", self.folder / "saved.json", "--page",
                               self.folder / "works.toml", works=())
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no lines '<!-- tables -->'", done.stderr)

    def test_a_wheel_is_a_peer(self):
        # A Python whose package has an interface that computes nothing: 10 steps of 0.2 s are counted.
        results, output = self.measured("--wheel", self.wheel(), works=("decode", "batch 4", "verify 3"),
                                        pairs=1)
        self.assertEqual(results["peers"], ["llama.cpp (llama-cpp-python 9.8.7)"])
        for work in results["works"]:
            self.assertEqual(work["failures"], {})
            self.assertEqual(len(work["pairs"]["llama.cpp (llama-cpp-python 9.8.7)"]), 1)
        self.assertIn("llama-cpp-python 9.8.7", output)
        calls = (self.folder / "wheel.txt").read_text().splitlines()
        # Of the work "batch 4": a step has a row of each sequence, and all logits are read.
        self.assertIn("4 rows of sequences 0 1 2 3, logits of 4", calls)
        self.assertIn("16 rows of sequences 0, logits of 1", calls)

    def test_a_python_without_a_wheel_is_left_out(self):
        done = self.run_script("--wheel", sys.executable)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("is no Python with one of ik-llama-cpp-python, llama-cpp-python", done.stdout)
        done = self.run_script("--wheel", self.folder / "none")
        self.assertIn("cannot be started: No such file or directory", done.stdout)

    def test_openvino_is_left_out_where_it_is_not_installed(self):
        isolated = subprocess.run(
            [sys.executable, "-E", "-S", SCRIPT, "--tenon", self.folder / "tenon", "--models",
             self.folder / "models", "--works-file", self.folder / "works.toml", "--pairs", "1",
             "--share", "0", "--works", "decode", "--openvino"],
            capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(isolated.returncode, 0, isolated.stderr)
        self.assertIn("left out: the Python package openvino_genai is not installed here; install",
                      isolated.stdout)

    def test_help_says_what_it_is_for(self):
        done = self.run_script("--help", works=())
        self.assertIn("in pairs measured in one machine state", done.stdout)
        self.assertIn("--peer FOLDER", done.stdout)

    def test_the_real_program_answers_what_is_asked_of_it(self):
        works = ("decode", "prefill", "batch 4", "verify 3", "memory", "load")
        results, output = self.measured(
            *self.peer(), "--agree", 1000, "--set", "kv_cache.memory=1MiB",
            works=works, pairs=1, tenon=BINARY)
        self.assertEqual([work["name"] for work in results["works"]], list(works))
        for work in results["works"]:
            self.assertEqual(work["failures"], {})
            self.assertGreater(work["pairs"]["llama.cpp"][0]["limit"], 0)
        self.assertIn("verify 3", output)

    def threads(self, *arguments):
        return subprocess.run(
            [sys.executable, SCRIPT.parent / "threads.py", "--tenon", BINARY, "--models",
             self.folder / "models", "--rounds", "1", "--tokens", "4", "--busy", "0", *arguments],
            capture_output=True, text=True, check=False, timeout=600)

    def test_threads_are_compared_beside_busy_processes(self):
        done = self.threads("--against", BINARY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^tale, 0 busy: 1 thread \d+ ms, 2 threads \d+ ms, the other "
                         r"build, 2 threads \d+ ms; two threads at \d\.\d\d of the better")
        wrong = self.threads("--shapes", "tall")
        self.assertEqual(wrong.returncode, 1)
        self.assertRegex(wrong.stderr, "threads.py: .*tall")


if __name__ == "__main__":
    unittest.main(verbosity=2)
