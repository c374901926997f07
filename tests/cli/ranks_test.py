"""Several processes that run one model: equal answers, refusals, and what happens when one of them is lost."""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

from comparing import Case
from program import BINARY, GOLDEN_MODELS, MODEL, SANITIZED, SOURCE, run, run_json, settings
from server import Server

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

    def check_refused(self, sentence, model=MODEL, **values):
        done = run("config", "check", "--model", model, *settings(**values))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(sentence, done.stderr)

    def test_ways_that_do_not_stand_together(self):
        self.check_refused("parallel.pipeline is 2 and parallel.tensor is 3, but processes have layers of their own or "
                           "parts of all layers, not both; set one of them to 1",
                           parallel__pipeline=2, parallel__tensor=3)
        self.check_refused("parallel.expert is 2 and parallel.tensor is 3, but the same processes share out experts",
                           parallel__expert=2, parallel__tensor=3)
        self.check_refused("parallel.reduce has no effect without parallel.tensor, which is 1; leave it out",
                           parallel__reduce="true")

    def test_replicas_of_a_cut_model_are_shown(self):
        text = self.explained(MODEL, parallel__data=2, parallel__tensor=2)
        self.assertIn("# parallel: 2 ranks; matrices are cut by columns", text)
        self.assertIn("# a server has 2 engines, with the weights once and K/V of their own at every rank", text)

    def test_models_that_cannot_be_shared_out_so(self):
        self.check_refused("parallel.expert is 2, but no layer of this", parallel__expert=2)
        self.check_refused("parallel.pipeline is 64: the 6 layers of this", parallel__pipeline=64)
        self.check_refused("layers of this gemma3n", GOLDEN_MODELS / "gemma3n_text", parallel__pipeline=2)
        self.check_refused('parallel.pipeline is 2, but kv_cache "heavy_hitters" evicts by the weight',
                           parallel__pipeline=2, kv_cache__plugin="heavy_hitters",
                           kv_cache__options__heavy_tokens=32, kv_cache__options__window_tokens=64)

    def test_tiers_and_roles_of_which_each_process_would_have_a_part(self):
        for key in ("parallel__tensor", "parallel__pipeline"):
            self.check_refused("there are [[kv_cache.tiers]], but [parallel] cuts the model over 2 processes",
                               kv_cache__plugin="prefix", kv_cache__tiers__1__kind="host",
                               kv_cache__tiers__1__memory="1MiB", **{key: 2})
            self.check_refused("prefill and decode are to be apart, but [parallel] cuts the model over 2 processes",
                               kv_cache__plugin="prefix", disaggregation__role="both", **{key: 2})

    def test_one_process_where_several_stages_are_configured(self):
        said = self.refused("--set", "parallel.pipeline=2")
        self.assertIn("parallel.pipeline is 2, but this is one process; start it with --launch 2", said)

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

    def test_tasks_of_slurm_that_do_not_know_each_other(self):
        said = self.refused("--set", "parallel.tensor=2", SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="0")
        self.assertIn("parallel.tensor is 2, but Slurm's tasks know nothing of each other here; start them by "
                      "srun --mpi=pmix -n 2, or by mpirun -n 2", said)
        said = self.refused("--set", "parallel.tensor=2", status=2, SLURM_STEP_NUM_TASKS="2", PMI_SIZE="2", PMI_RANK="0")
        self.assertIn("Slurm started this process with PMI-2", said)
        # One of many runs that have nothing to do with each other.
        alone = subprocess.run([BINARY, "run", *map(str, TEXT)], capture_output=True, text=True, check=False, timeout=300,
                               env={**os.environ, "SLURM_STEP_NUM_TASKS": "2"}, stdin=subprocess.DEVNULL)
        self.assertEqual(alone.returncode, 0, alone.stderr)

    def test_the_plan_is_shown_without_starting_anybody(self):
        done = run("config", "explain", "--model", MODEL, "--set", "parallel.tensor=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# parallel: 3 ranks; matrices are cut by columns, and what they make is gathered", done.stdout)
        for rank in range(3):
            self.assertRegex(done.stdout, rf"#   rank {rank}: \d+ heads?, \d+ of K and V; weights \S+ \w+, K/V \S+ \w+")
        self.assertRegex(done.stdout, r"#   gathered for each row: \S+ \w+ a layer at most, ")
        self.assertNotIn("parallel", run("config", "explain", "--model", MODEL).stdout)

    def explained(self, model, **values):
        done = run("config", "explain", "--model", model, *settings(**values))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_stages_sums_and_experts_are_shown_as_well(self):
        text = self.explained(MODEL, parallel__pipeline=2)
        self.assertIn("# parallel: 2 ranks; each runs some layers, one after the other", text)
        first = int(re.search(r"#   rank 0: layers 0 to (\d); weights \S+ \w+, K/V \S+ \w+\n", text)[1])
        self.assertIn(f"#   rank 1: layers {first + 1} to 5 and the head; weights ", text)
        self.assertIn("#   handed on for each row: 1.0 KiB from stage to stage, and 16.0 KiB to rank 0", text)
        self.assertIn("# a server has 2 engines, with the weights once and K/V of their own at every rank", text)
        text = self.explained(MODEL, parallel__tensor=2, parallel__reduce="true")
        self.assertIn("# parallel: 2 ranks; 12 products are cut along K, and their parts are added up in the order of "
                      "ranks", text)
        text = self.explained(GOLDEN_MODELS / "deepseek_v2_experts", parallel__expert=2)
        self.assertRegex(text, r"#   rank 1: \d+ heads?, one latent row, experts \d+ to \d+; weights ")

    def test_a_shape_without_files_is_planned(self):
        text = self.explained("llama-3.1-70b", parallel__tensor=8, limits__context_tokens=8192,
                              kv_cache__memory="20GiB")
        self.assertIn("# the model is a shape without weights: memory of this machine is not looked at", text)
        weights = re.findall(r"#   rank \d: 8 heads, 1 of K and V; weights (\S+) GiB, K/V (\S+) GiB", text)
        self.assertEqual(len(weights), 8, text)
        # 70.6 billion in bf16 without the embedding, over 8.
        for own, kv in weights:
            self.assertAlmostEqual(float(own), (70.55e9 - 128256 * 8192) * 2 / 8 / 2**30, delta=0.1)
            self.assertAlmostEqual(float(kv), 20, delta=0.1)
        text = self.explained("llama-3.1-70b", parallel__pipeline=8, limits__context_tokens=8192,
                              kv_cache__memory="20GiB", executor__weights="q8_0")
        self.assertRegex(text, r"#   rank 7: layers \d+ to 79 and the head")
        done = run("config", "explain", "--model", "no-such-shape", *settings(parallel__tensor=2))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such-shape", done.stderr)


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

    def test_stages_have_the_bits_of_one_process(self):
        for ranks in (2, 3):
            done = run("run", "--launch", ranks, "--set", f"parallel.pipeline={ranks}", *TEXT, "--json")
            self.assertEqual(digest_of(done), self.alone, ranks)
        over_mpi = self.mpirun(2, "run", *TEXT, "--json", "--set", "parallel.pipeline=2", TENON_RANKS_OVER_MPI="1")
        self.assertEqual(digest_of(over_mpi), self.alone)

    def test_sums_have_a_numerics_id_and_tokens_that_stay(self):
        def report(*more):
            done = run("run", *TEXT, "--json", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)
        alone = report()
        two = report("--launch", "2", "--set", "parallel.reduce=true")
        self.assertIn("+reduce2", two["pipeline"]["numerics"])
        self.assertNotIn("reduce", alone["pipeline"]["numerics"])
        self.assertEqual(two["requests"][0]["tokens"], alone["requests"][0]["tokens"])
        again = self.mpirun(2, "run", *TEXT, "--json", "--set", "parallel.tensor=2", "--set", "parallel.reduce=true",
                            TENON_RANKS_OVER_MPI="1")
        self.assertEqual(digest_of(again), two["requests"][0]["digest"])

    def test_experts_at_ranks_of_their_own_have_the_bits_of_one_process(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
            prompts.write(json.dumps({"prompt": [3, 5, 7, 11, 13]}) + "\n")
            prompts.flush()
            self.experts_have_the_bits(["--model", GOLDEN_MODELS / "deepseek_v2_experts", "--threads", "1",
                                        "--max-tokens", "8", "--file", prompts.name])

    def experts_have_the_bits(self, model):
        alone = digest_of(run("run", *model, "--json"))
        for environment in ({}, {"TENON_RANKS_OVER_MPI": "1"}):
            done = self.mpirun(2, "run", *model, "--json", "--set", "parallel.expert=2", **environment)
            self.assertEqual(digest_of(done), alone)

    def test_a_server_has_an_engine_for_each_stage(self):
        ask = {"prompt": "Once upon a time", "max_tokens": 12}
        alone = run_json(*TEXT)["requests"][0]["text"]
        with Server("--launch", "2", "--model", MODEL, "--threads", "1",
                    *settings(parallel__pipeline=2, kv_cache__memory="64MiB")) as server:
            self.assertIn("serving tale (2 replicas) at ", server.line)
            answers = []
            def answer(rank):
                answers.append(server.post("/v1/completions", ask, headers={"X-data-parallel-rank": str(rank)}))
            threads = [threading.Thread(target=answer, args=(number % 2,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for status, _, body in answers:
                self.assertEqual(status, 200, body)
                self.assertEqual(body["choices"][0]["text"], alone)
            self.assertEqual(server.get("/server_info")[2]["pp_size"], 2)
            server.end()

    def test_replicas_of_a_cut_model_take_turns_at_its_ranks(self):
        ask = {"prompt": "Once upon a time", "max_tokens": 12, "logprobs": 2}
        with Server("--model", MODEL, "--threads", "1", "--set", "kv_cache.plugin=prefix") as server:
            alone = server.post("/v1/completions", ask)[2]["choices"]
        for more in ({}, {"parallel__data": 3}):
            with self.subTest(more), Server("--launch", "2", "--model", MODEL, "--threads", "1", *settings(
                    **{"parallel__tensor": 2, "parallel__data": 2, "kv_cache__plugin": "prefix",
                       "kv_cache__memory": "32MiB"} | more)) as server:
                engines = more.get("parallel__data", 2)
                self.assertIn(f"serving tale ({engines} replicas) at ", server.line)
                with concurrent.futures.ThreadPoolExecutor(6) as pool:
                    answers = list(pool.map(lambda number: server.post(
                        "/v1/completions", ask, headers={"X-data-parallel-rank": str(number % engines)}), range(12)))
                for status, _, body in answers:
                    self.assertEqual(status, 200, body)
                    self.assertEqual(body["choices"], alone)
                told = server.get("/server_info")[2]
                self.assertEqual((told["tp_size"], told["dp_size"]), (2, engines))
                server.end()

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

    def test_a_launch_by_a_rank_is_refused(self):
        done = self.mpirun(2, "run", "--launch", "2", *TEXT)
        self.assertNotEqual(done.returncode, 0)
        said = [line for line in done.stderr.splitlines() if line.startswith("tenon: ")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("--launch starts processes by mpirun, but a launcher has started this one as a rank already", said[0])

    @unittest.skipUnless(subprocess.run(["unshare", "-p", "-f", "--mount-proc", "true"], check=False,
                                        capture_output=True).returncode == 0, "there are no name spaces of processes")
    def test_ranks_that_do_not_see_each_others_processes(self):
        done = subprocess.run([MPIRUN, "-n", "2", "--oversubscribe", "--allow-run-as-root", "unshare", "-p", "-f",
                               "--mount-proc", BINARY, "run", *map(str, TEXT), "--json", "--set", "parallel.tensor=2"],
                              capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(digest_of(done), self.alone)

    def lose(self, rank, number, key="parallel.tensor", **environment):
        """Does `number` to one of three ranks in the middle of a long answer; what was said."""
        process = subprocess.Popen([BINARY, "run", "--launch", "3", "--model", MODEL, "--threads", "1", "--max-tokens",
                                    "200000", "--ignore-eos", "--log-level", "info", "--set", f"{key}=3", "--set",
                                    "limits.context_tokens=250000", "--set", "limits.exceed_model_context=true",
                                    "--set", "kv_cache.memory=2GiB", "Once upon a time"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **environment})
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
        ends = [os.pidfd_open(place) for place in places.values()]
        os.kill(places[rank], number)
        out, error = process.communicate(timeout=120)
        self.assertNotEqual(process.returncode, 0)
        for end in ends:  # readable once its process has ended
            self.assertTrue(select.select([end], [], [], 60)[0], f"rank {rank}, signal {number}: a process is left")
            os.close(end)
        return error

    def named(self, rank, error):
        said = [line for line in error.splitlines() if f"tenon: rank {rank}" in line]
        self.assertEqual(len(said), 1, error)
        return said[0]

    def test_a_rank_that_is_killed_or_stopped_ends_all_and_is_named(self):
        random_numbers = random.Random(SEED)
        for number, words in ((signal.SIGKILL, "has ended: it was killed"),
                              (signal.SIGSTOP, "has not run for 5 s: it is stopped")):
            key = random_numbers.choice(("parallel.tensor", "parallel.pipeline"))
            rank = random_numbers.randrange(3)
            with self.subTest(seed=SEED, rank=rank, number=number, key=key):
                said = self.named(rank, self.lose(rank, number, key))
                self.assertRegex(said, rf"tenon: rank {rank} on \S+ \(process \d+\) {words}")

    def test_a_rank_that_is_told_to_end_alone_ends_all_and_is_named(self):
        self.assertRegex(self.named(1, self.lose(1, signal.SIGTERM)),
                         r"tenon: rank 1 on \S+ \(process \d+\) was told to end by SIGTERM; the run ends")

    def test_a_stage_that_is_stopped_is_named_where_messages_of_mpi_carry_rows(self):
        error = self.lose(2, signal.SIGSTOP, "parallel.pipeline", TENON_RANKS_OVER_MPI="1")
        self.assertRegex(self.named(2, error), r"for 5 s: it is stopped")

    def test_a_rank_that_is_killed_as_it_begins_is_named(self):
        for rank in (0, 2):
            mark = f"{os.getpid()}-{rank}"
            process = subprocess.Popen([BINARY, "run", "--launch", "3", *map(str, TEXT)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                                       env={**os.environ, "TENON_TEST_MARK": mark})
            wanted = {f"OMPI_COMM_WORLD_RANK={rank}", f"TENON_TEST_MARK={mark}"}
            killed = False
            while not killed and process.poll() is None:
                for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
                    try:
                        if wanted <= set(place.read_text(errors="replace").split("\0")):
                            os.kill(int(place.parent.name), signal.SIGKILL)
                            killed = True
                    except OSError:
                        pass
            _, error = process.communicate(timeout=120)
            with self.subTest(rank):
                self.assertTrue(killed, error)
                self.assertNotEqual(process.returncode, 0)
                self.assertIn("killed", self.named(rank, error))


@unittest.skipUnless(MPIRUN, "Open MPI's mpirun is not installed (package openmpi-bin)")
@unittest.skipIf(SANITIZED, "MPI's own memory is not for sanitizers")
class Comparisons(Case):
    def test_an_arm_runs_over_ranks(self):
        done = self.compare("--model", MODEL, "--set", "executor.threads=1", "--arm", "stages:parallel.pipeline=2",
                            "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        arm = json.loads(done.stdout)["arms"][0]
        self.assertEqual(arm["name"], "stages")
        self.assertTrue(arm["answers"].startswith("equal"), arm["answers"])

    def test_replicas_are_refused(self):
        done = self.compare("--model", MODEL, "--arm", "b:parallel.data=2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("parallel.data is 2, but one engine runs here", done.stderr)


if __name__ == "__main__":
    unittest.main()
