"""`tenon workload trace`: published traces as workloads, and as the work of a comparison."""
import json
import pathlib
import tempfile
import tomllib
import unittest

from program import run

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 23:59:59.9000000,396,109
2023-11-17 00:00:00.4000000,0,12
2023-11-17 00:00:00.9000000,20,6
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.259930+00:00,2399,6
"""
BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,Conversation log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 3500, "input_length": 1030, "output_length": 9, "hash_ids": [0, 1, 2]}
"""


class Traces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trace(self, text, *arguments, name="trace.csv"):
        path = self.folder / name
        path.write_text(text)
        return run("workload", "trace", path, *arguments)

    def requests(self, text, *arguments, name="trace.csv"):
        done = self.trace(text, *arguments, name=name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return tomllib.loads(done.stdout)["request"]

    def lengths(self, requests):
        return [(each["prompt_tokens"], each["max_tokens"]) for each in requests]

    def test_azure_keeps_lengths_and_arrivals_and_leaves_empty_requests_out(self):
        requests = self.requests(AZURE_2023)
        self.assertEqual(self.lengths(requests), [(374, 44), (396, 109), (20, 6)])
        self.assertEqual([each["arrival"] for each in requests],
                         ["0ns", "20653219410us", "20654219410us"])
        requests = self.requests(AZURE_2024)
        self.assertEqual(requests[1]["arrival"], "250ms")

    def test_burstgpt_counts_seconds(self):
        requests = self.requests(BURST)
        self.assertEqual(self.lengths(requests), [(472, 18), (417, 276)])
        self.assertEqual(requests[1]["arrival"], "113s")

    def test_mooncake_keeps_what_prompts_share(self):
        requests = self.requests(MOONCAKE, name="trace.jsonl")
        self.assertEqual(requests[1]["blocks"], [0, 1, 2])
        self.assertEqual(requests[1]["block_tokens"], 512)
        self.assertEqual(requests[1]["last_block_tokens"], 1030 - 2 * 512)
        self.assertEqual(requests[1]["arrival"], "3500ms")

    def test_a_part_of_a_trace_is_taken_scaled(self):
        requests = self.requests(AZURE_2023, "--scale", 2, "--length-scale", 0.5, "--skip", 1)
        self.assertEqual(self.lengths(requests), [(198, 55), (10, 3)])
        self.assertEqual(requests[1]["arrival"], "500ms")
        done = self.trace(AZURE_2023, "--context", 420, "--limit", 1)
        self.assertIn("1 requests (left out: 0 without prompt or answer, 0 too long)", done.stderr)
        done = self.trace(AZURE_2023, "--context", 100)
        self.assertIn("1 requests (left out: 1 without prompt or answer, 2 too long)", done.stderr)
        # 1,030 tokens in blocks of 32, 32 and 0.375 – at least 1 – and an answer of 1.
        cut = ("--length-scale", 0.0625, "--context")
        self.assertEqual(len(self.requests(MOONCAKE, *cut, 66, name="trace.jsonl")), 2)
        self.assertEqual(len(self.requests(MOONCAKE, *cut, 65, name="trace.jsonl")), 1)

    def test_a_table_may_begin_with_empty_lines(self):
        self.assertEqual(len(self.requests("\n\n" + BURST)), 2)

    def test_what_is_no_trace_is_named_by_its_line(self):
        for text, name, expected in (
                ("a,b,c\n1,2,3\n", "t.csv", "t.csv:1: its columns are"),
                (AZURE_2023 + "yesterday,3,4\n", "t.csv", "t.csv:6: 'yesterday' is no time"),
                (BURST + "nan,GPT-4,5,6,11,x\n", "t.csv", "t.csv:5: 'nan' is no time"),
                (AZURE_2023 + "2023-11-17 00:00:01.0,x,4\n", "t.csv", "'x' is no number of tokens"),
                (MOONCAKE + '{"timestamp": 1}\n', "t.jsonl", "t.jsonl:3: not a line of such a trace"),
                (MOONCAKE.replace("[0, 1]", "[0]"), "t.jsonl", "1 hash_ids stand for 600 tokens"),
                ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "t.csv", "t.csv' has no request – ")):
            done = self.trace(text, name=name)
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(expected, done.stderr)

    def test_a_trace_may_be_run_as_it_is(self):
        soon = "Timestamp,Model,Request tokens,Response tokens\n0,GPT-4,9,4\n0.1,GPT-4,5,3\n"
        (self.folder / "trace.csv").write_text(soon)
        done = run("run", "--workload", self.folder / "trace.csv", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [each["tokens"] for each in json.loads(done.stdout)["requests"]]
        self.assertEqual([len(tokens) for tokens in answers], [4, 3])

    def test_a_trace_is_the_work_of_a_comparison(self):
        (self.folder / "trace.jsonl").write_text(MOONCAKE)
        out = self.folder / "out"
        (self.folder / "c.toml").write_text(
            'format = 1\nworkload = "trace.jsonl"\nscale = 100.0\nunlike = 100.0\n'
            'trace = { length_scale = 0.0625 }\nset = ["kv_cache.plugin=prefix"]\n'
            '[[arm]]\nname = "b"\n')
        done = run("compare", self.folder / "c.toml", "--pairs", 4, "--noise-pairs", 0, "--quiet",
                   "--out", out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("100.0 times as fast", json.loads(done.stdout)["plan"]["work"])
        rows = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
        self.assertEqual({row["prompt_tokens"] for row in rows}, {32 + 6, 64 + 1})
        # The first block of the second prompt is that of the first.
        self.assertTrue(any(row["reused_tokens"] >= 32 for row in rows if row["index"] == 1))
        self.assertEqual(json.loads((out / "arrivals.json").read_text()), [0, 35000000])


if __name__ == "__main__":
    unittest.main()
