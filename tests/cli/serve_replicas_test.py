"""Several engines behind one server: the same tokens from each, and what tells them apart."""
import re
import time
import unittest

from program import MODEL, run, run_json, settings
from server import PATIENCE, Server

ASK = {"prompt": "Once upon a time", "max_tokens": 12, "seed": 3, "temperature": 0.7}
PIPELINE = ["--model", MODEL, "--threads", "1", *settings(kv_cache__plugin="prefix", kv_cache__memory="64MiB")]


class Replicas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(*PIPELINE, *settings(parallel__data=2)).__enter__()
        alone = run_json(*PIPELINE, "--max-tokens", "12", "--seed", "3", "--temperature", "0.7", "Once upon a time")
        cls.alone = alone["requests"][0]["text"]

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def text_at(self, **headers):
        status, _, answer = self.server.post("/v1/completions", ASK,
                                             headers={name.replace("_", "-"): value for name, value in headers.items()})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["text"]

    def test_its_line_says_how_many_there_are(self):
        self.assertRegex(self.server.line, r"^serving tale \(2 replicas\) at http://")

    def test_every_replica_gives_the_tokens_of_one_process(self):
        for headers in ({"X_data_parallel_rank": "0"}, {"X_data_parallel_rank": "1"}, {"X_Session_Id": "ann"}, {}):
            self.assertEqual(self.text_at(**headers), self.alone, headers)

    def test_ranks_that_are_not_there_are_refused(self):
        for rank in ("2", "x", ""):
            status, _, answer = self.server.post("/v1/completions", ASK, headers={"X-data-parallel-rank": rank})
            self.assertEqual(status, 400, answer)
            self.assertIn("2 engines run 'tale' here, whose ranks are 0 to 1", answer["error"]["message"])

    def test_a_field_of_the_body_names_the_rank_as_well(self):
        # As SGLang has it: the header before the body, and the newer name before the older one.
        def requests_of(rank):
            line = rf'^vllm:request_success_total{{model_name="tale",engine="{rank}",finished_reason="length"}} (\d+)'
            return int(re.search(line, self.server.get("/metrics")[2].decode(), re.M)[1])
        for rank, fields, headers in ((1, {"routed_dp_rank": 1}, {}), (1, {"data_parallel_rank": 1}, {}),
                                      (0, {"routed_dp_rank": 0, "data_parallel_rank": 1}, {}),
                                      (0, {"routed_dp_rank": 1}, {"X-data-parallel-rank": "0"}),
                                      (1, {"routed_dp_rank": None, "data_parallel_rank": 1}, {})):
            with self.subTest(fields=fields, headers=headers):
                before = requests_of(rank)
                status, _, answer = self.server.post("/v1/completions", ASK | fields, headers=headers)
                self.assertEqual((status, answer["choices"][0]["text"]), (200, self.alone))
                self.assertEqual(requests_of(rank), before + 1)
        for value, words in ((2, '"routed_dp_rank" is \'2\' – 2 engines run \'tale\' here, whose ranks are 0 to 1'),
                             (-1, "must be a whole number from 0"), ("1", "must be a whole number from 0")):
            status, _, answer = self.server.post("/v1/completions", ASK | {"routed_dp_rank": value})
            self.assertEqual(status, 400, answer)
            self.assertIn(words, answer["error"]["message"])

    def test_metrics_tell_engines_apart(self):
        self.text_at(X_data_parallel_rank="1")
        text = self.server.get("/metrics")[2].decode()
        for engine in (0, 1):
            self.assertIn(f'tenon:replica_up{{model_name="tale",engine="{engine}"}} 1\n', text)
            self.assertRegex(text, rf'vllm:num_requests_running\{{model_name="tale",engine="{engine}"\}} \d')
        self.assertRegex(text, r'tenon:weight_bytes\{model_name="tale",engine="1",held="own"\} 0\n')

    def test_loads_and_facts_are_told_by_rank(self):
        loads = self.server.get("/get_load")[2]
        self.assertEqual([(load["dp_rank"], load["model"]) for load in loads], [(0, "tale"), (1, "tale")])
        self.assertEqual(self.server.get("/server_info")[2]["dp_size"], 2)
        self.assertEqual([model["id"] for model in self.server.get("/v1/models")[2]["data"]], ["tale"])

    def test_each_engine_shows_its_steps(self):
        connection = self.server.connect()
        connection.request("GET", "/v1/engine/steps?rank=1")
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.text_at(X_data_parallel_rank="0")
        self.text_at(X_data_parallel_rank="1")
        line = b""
        while not line.startswith(b"event: step"):
            line = answer.readline()
        connection.close()
        status, _, answer = self.server.get("/v1/engine/steps?rank=2")
        self.assertEqual(status, 400)
        self.assertIn("the model 'tale' has the ranks 0 to 1", answer["error"]["message"])

    def test_a_prompt_goes_where_its_beginning_is(self):
        prompt = {"prompt": "The old king had three sons, and the youngest of them was called Simpleton. " * 8,
                  "max_tokens": 1}
        first = self.server.post("/v1/completions", prompt)[2]["usage"]
        again = self.server.post("/v1/completions", prompt)[2]["usage"]
        self.assertEqual(first["prompt_tokens"], again["prompt_tokens"])
        self.assertGreater(again["prompt_tokens_details"]["cached_tokens"], first["prompt_tokens"] * 0.8)

    def test_a_session_stays_and_vectors_are_the_same_everywhere(self):
        def computed():
            loads = self.server.get("/metrics")[2].decode()
            return [int(line.split()[1]) for line in loads.splitlines()
                    if line.startswith("vllm:generation_tokens_total")]
        before = computed()
        for _ in range(3):
            self.text_at(X_Session_Id="one and the same")
        limit = time.monotonic() + PATIENCE
        while sum(computed()) < sum(before) + 36:  # the figures are those of the last whole step
            self.assertLess(time.monotonic(), limit)
        grown = [after - earlier for earlier, after in zip(before, computed())]
        # A last step of an answer before these may be counted late; one of these three has 12 tokens.
        self.assertLess(min(grown), 12)
        self.assertGreaterEqual(max(grown), 36)
        vectors = [self.server.post("/v1/embeddings", {"input": "a king"}, headers={"X-data-parallel-rank": rank})[2]
                   for rank in ("0", "1")]
        self.assertEqual(vectors[0]["data"], vectors[1]["data"])


class Refusals(unittest.TestCase):
    def refused(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_programs_with_one_engine(self):
        for command in (["run", "--max-tokens", "1"], ["bench", "--repeat", "1"]):
            said = self.refused(*command, "--model", MODEL, *settings(parallel__data=2), *(["x"] * (command[0] == "run")))
            self.assertIn("parallel.data is 2, but one engine runs here; `tenon serve` has several; set "
                          "parallel.data = 1", said)

    def test_kv_events_of_several_engines(self):
        said = self.refused("serve", *PIPELINE, *settings(parallel__data=2), "--port", "0", "--kv-events",
                            "tcp://127.0.0.1:*")
        self.assertIn("--kv-events tells of one engine, and parallel.data is 2", said)

    def test_memory_is_shared_out(self):
        """K and V of one engine are a half of what one alone would take."""
        def blocks(*more):
            text = run("config", "explain", "--model", MODEL, *settings(limits__max_sequences=4096), *more).stdout
            return int(text.split("# KV memory: ")[1].split()[0]), text
        alone, _ = blocks()
        shared, text = blocks(*settings(parallel__data=2))
        self.assertLessEqual(shared, alone)
        self.assertIn("# a server has 2 engines, with the weights once and K/V of their own", text)


if __name__ == "__main__":
    unittest.main()
