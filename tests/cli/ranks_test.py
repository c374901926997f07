"""Several processes that run one model: equal answers, refusals, and what happens when one of them is lost."""
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import unittest

from program import BINARY, MODEL, SANITIZED, run, run_json, settings

MPIRUN = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
TEXT = ["--model", MODEL, "--max-tokens", "12", "--threads", "1", "Once upon a time"]
SEED = int(os.environ.get("TENON_TEST_SEED", "17"))


def digest_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["requests"][0]["digest"]


class Refusals(unittest.TestCase):
    """What needs no MPI."""

    def refused(self, *arguments, status=1, **environment):
        done = subprocess.run([BINARY, "run", *map(str, TEXT), *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, **environment}, stdin=subprocess.DEVNULL, timeout=300)
        self.assertEqual(done.returncode, status, done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("tenon: ")]
        self.assertEqual(len(said), 1, done.stderr)
        return said[0]

    def test_one_process_where_several_are_configured(self):
        said = self.refused("--set", "parallel.tensor=2")
        self.assertIn("parallel.tensor is 2, but this is one process; start it with --launch 2, or by mpirun -n 2", said)

    def test_an_executor_that_runs_in_one_process(self):
        said = self.refused("--set", "parallel.tensor=2", "--set", "executor.plugin=ref")
        self.assertIn('parallel.tensor is 2, but executor "ref" runs a model in one process', said)

    def test_eviction_by_the_weights_of_all_heads(self):
        done = run("config", "check", "--model", MODEL, *settings(
            parallel__tensor=2, kv_cache__plugin="heavy_hitters", kv_cache__options__heavy_tokens=32,
            kv_cache__options__window_tokens=64))
        self.assertEqual(done.returncode, 1)
        self.assertIn('parallel.tensor is 2, but kv_cache "heavy_hitters" evicts by the weight that all heads give',
                      done.stderr)

    def test_a_launcher_that_is_not_installed(self):
        said = self.refused("--launch", "2", PATH="/nowhere")
        self.assertIn("--launch needs Open MPI's mpirun, which is not installed; Debian's package openmpi-bin brings it",
                      said)

    def test_the_launcher_of_mpich(self):
        said = self.refused(status=2, PMI_SIZE="2", PMI_RANK="0")
        self.assertIn("started by MPICH's launcher, or one like it", said)
        done = subprocess.run([BINARY, "run", "x"], capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, "PMI_SIZE": "2", "PMI_RANK": "1"}, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", ""))

    def test_the_plan_is_shown_without_starting_anybody(self):
        done = run("config", "explain", "--model", MODEL, "--set", "parallel.tensor=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# parallel: 3 ranks; matrices are cut by columns, and what they make is gathered", done.stdout)
        for rank in range(3):
            self.assertRegex(done.stdout, rf"#   rank {rank}: \d+ heads?, \d+ of K and V; weights \S+ \w+, K/V \S+ \w+")
        self.assertRegex(done.stdout, r"#   gathered for each row: \S+ \w+ a layer at most, ")
        self.assertNotIn("parallel", run("config", "explain", "--model", MODEL).stdout)


@unittest.skipUnless(MPIRUN, "Open MPI's mpirun is not installed (package openmpi-bin)")
@unittest.skipIf(SANITIZED, "MPI's own memory is not for sanitizers")
class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alone = run_json(*TEXT)["requests"][0]["digest"]

    def mpirun(self, ranks, *arguments, **environment):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return subprocess.run([MPIRUN, "-n", str(ranks), "--oversubscribe", *root, BINARY, *map(str, arguments)],
                              capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment})

    def test_two_to_four_ranks_have_the_bits_of_one_process(self):
        for ranks in (2, 3, 4):
            self.assertEqual(digest_of(run("run", "--launch", ranks, *TEXT, "--json")), self.alone, ranks)

    def test_mpirun_starts_ranks_as_well(self):
        done = self.mpirun(2, "run", *TEXT, "--json", "--set", "parallel.tensor=2")
        self.assertEqual(digest_of(done), self.alone)

    def test_messages_of_mpi_carry_the_same_bits(self):
        done = self.mpirun(2, "run", *TEXT, "--json", "--set", "parallel.tensor=2", TENON_RANKS_OVER_MPI="1")
        self.assertEqual(digest_of(done), self.alone)

    def test_the_output_is_that_of_rank_0_alone(self):
        self.assertEqual(run("run", "--launch", 2, *TEXT).stdout, run("run", *TEXT).stdout)

    def test_lines_of_input_reach_rank_0(self):
        arguments = ["run", "--model", MODEL, "--max-tokens", "4", "--threads", "1"]
        alone = run(*arguments, stdin="Once upon a time\n")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(run(*arguments, "--launch", 2, stdin="Once upon a time\n").stdout, alone.stdout)

    def test_another_number_of_processes_than_configured_is_one_sentence(self):
        done = self.mpirun(2, "run", *TEXT)
        self.assertNotEqual(done.returncode, 0)
        said = [line for line in done.stderr.splitlines() if line.startswith("tenon: ")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("parallel.tensor is 1, but 2 processes were started; set parallel.tensor = 2", said[0])

    def lose(self, random_numbers, number):
        """Does `number` to one of three ranks in the middle of a long answer; what was said."""
        process = subprocess.Popen([BINARY, "run", "--launch", "3", "--model", MODEL, "--threads", "1", "--max-tokens",
                                    "200000", "--ignore-eos", "--log-level", "info", "--set",
                                    "limits.context_tokens=250000", "--set", "limits.exceed_model_context=true",
                                    "--set", "kv_cache.memory=2GiB", "Once upon a time"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        places, said = {}, []
        for line in process.stderr:
            said.append(line)
            found = re.search(r"rank (\d) on \S+ \(process (\d+)\): weights", line)
            if found:
                places[int(found[1])] = int(found[2])
            if len(places) == 3:
                break
        self.assertEqual(len(places), 3, "".join(said))
        process.stdout.read(1)  # an answer is on its way
        rank = random_numbers.randrange(3)
        ends = [os.pidfd_open(place) for place in places.values()]
        os.kill(places[rank], number)
        out, error = process.communicate(timeout=120)
        self.assertNotEqual(process.returncode, 0)
        for end in ends:  # readable once its process has ended
            self.assertTrue(select.select([end], [], [], 60)[0], f"rank {rank}, signal {number}: a process is left")
            os.close(end)
        return rank, error

    def test_a_rank_that_is_killed_or_stopped_ends_all_and_is_named(self):
        random_numbers = random.Random(SEED)
        for number, words in ((signal.SIGKILL, "has ended: it was killed, or it crashed"),
                              (signal.SIGSTOP, "has not run for 5 s: it is stopped")):
            rank, error = self.lose(random_numbers, number)
            with self.subTest(seed=SEED, rank=rank, number=number):
                said = [line for line in error.splitlines() if "tenon: rank" in line]
                self.assertEqual(len(said), 1, error)
                self.assertRegex(said[0], rf"tenon: rank {rank} on \S+ \(process \d+\) {words}")


if __name__ == "__main__":
    unittest.main()
