"""`tenon embed`: vectors of texts."""
import json
import math
import pathlib
import struct
import tempfile
import unittest

from program import MODEL, SOURCE, run, settings

GOLDEN = SOURCE / "tests/golden/embeddings"
TEXTS = (GOLDEN / "texts.txt").read_text().splitlines()


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    rows, columns = eval(data[10:10 + length].decode())["shape"]  # noqa: S307 - our own file
    values = struct.unpack(f"<{rows * columns}f", data[10 + length:])
    return [list(values[r * columns:(r + 1) * columns]) for r in range(rows)]


def embed(*arguments, **keywords):
    done = run("embed", *arguments, "--json", **keywords)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def vectors(report):
    return [entry["embedding"] for entry in report["embeddings"]]


def furthest(rows, others):
    return max(abs(a - b) for row, other in zip(rows, others) for a, b in zip(row, other))


class Embed(unittest.TestCase):
    def test_vectors_are_those_of_the_reference(self):
        for pooling in ("last", "mean", "first"):
            expected = read_npy(GOLDEN / f"{pooling}.npy")
            size = max(abs(value) for row in expected for value in row)
            # Products of bf16, where the processor has them, round activations to 8 bits.
            for executor, share in (({"executor__plugin": "ref"}, 1e-4),
                                    ({"executor__isa": "avx2"}, 1e-4), ({}, 1e-2)):
                made = vectors(embed("--file", GOLDEN / "texts.txt", "--pooling", pooling,
                                     "--no-normalise", *settings(**executor, kv_cache__dtype="f32")))
                self.assertLess(furthest(made, expected), share * size, (pooling, executor))

    def test_company_chunks_and_strategies_change_no_bit(self):
        alone = [vectors(embed(text, "--pooling", "mean"))[0] for text in TEXTS]
        for flags in (settings(scheduler__plugin="chunked", kv_cache__plugin="radix",
                               limits__max_batch_tokens=5, limits__max_sequences=3),
                      settings(scheduler__plugin="static", kv_cache__plugin="naive"),
                      settings(engine__plan_ahead=1)):
            together = vectors(embed("--file", GOLDEN / "texts.txt", "--pooling", "mean", *flags))
            self.assertEqual(together, alone, flags)

    def test_the_default_is_the_last_state_at_length_one(self):
        report = embed(TEXTS[0])
        self.assertEqual((report["pooling"], report["normalised"]), ("last", True))
        vector = vectors(report)[0]
        self.assertAlmostEqual(math.fsum(value * value for value in vector), 1.0, places=5)
        raw = vectors(embed(TEXTS[0], "--no-normalise"))[0]
        self.assertAlmostEqual(raw[0] / raw[1], vector[0] / vector[1], places=3)

    def test_a_model_folder_says_how(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder)
            for file in MODEL.iterdir():
                (model / file.name).symlink_to(file)
            (model / "1_Pooling").mkdir()
            pooling = model / "1_Pooling/config.json"
            pooling.write_text('{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}')
            modules = [{"type": f"sentence_transformers.models.{name}"}
                       for name in ("Transformer", "Pooling")]
            (model / "modules.json").write_text(json.dumps(modules))
            report = embed(TEXTS[1], "--model", model)
            self.assertEqual((report["pooling"], report["normalised"]), ("mean", False))
            pooling.write_text('{"pooling_mode_max_tokens": true}')
            done = run("embed", TEXTS[1], "--model", model)
            self.assertEqual(done.returncode, 1)
            self.assertIn("pooling_mode_max_tokens", done.stderr)
            self.assertIn("--pooling last, mean or first", done.stderr)
            self.assertEqual(run("embed", TEXTS[1], "--model", model, "--pooling", "first")
                             .returncode, 0)

    def test_a_file_of_vectors_and_how_alike_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "vectors.npy"
            done = run("embed", "--file", GOLDEN / "texts.txt", "--output", out, "--similarity")
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = read_npy(out)
        table = [[float(value) for value in line.split()] for line in done.stdout.splitlines()]
        for i, row in enumerate(rows):
            self.assertAlmostEqual(table[i][i], 1.0, places=3)
            for j, other in enumerate(rows):
                self.assertAlmostEqual(table[i][j], sum(a * b for a, b in zip(row, other)), places=3)

    def test_standard_input_is_a_text(self):
        self.assertEqual(run("embed", stdin=TEXTS[0] + "\n").stdout, run("embed", TEXTS[0]).stdout)

    def test_wrong_use_is_refused(self):
        for arguments, status, words in (
                (["x", "--pooling", "max"], 2, "max"),
                (["", ], 1, "text 1: the text is empty"),
                (["x " * 5000], 1, "the context has")):
            done = run("embed", *arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
