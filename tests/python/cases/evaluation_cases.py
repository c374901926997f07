"""lm-evaluation-harness with Tenon: the scores that it gives with transformers, where both are installed."""

import importlib.util
import json
import math
import os
import pathlib
import tempfile
import unittest
import unittest.mock

from tenon.opening import PREFIX

NEEDED = ("lm_eval", "torch", "transformers", "accelerate", "peft")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
MODELS = PREFIX / "share/tenon/configs/models"


def texts(count):
    """Pieces of the model's own held-out text."""
    words = (MODELS / "valid.txt").read_text().split()
    return [" ".join(words[i * 90:i * 90 + 90]) for i in range(count)]


def write_tasks(folder):
    """A task of each kind: which of four ends is likeliest, how likely texts are, and what follows."""
    pieces = texts(12)
    ends = [" ".join(piece.rsplit(" ", 4)[1:]) for piece in pieces]
    rows = []
    for i, (piece, end) in enumerate(zip(pieces, ends, strict=True)):
        begin = piece.rsplit(" ", 4)[0]
        # Those of others, so that all have four words: accuracy compares sums, and the shortest text would be the likeliest.
        choices = [ends[(i + step) % len(ends)] for step in (1, 4, 7)]
        choices.insert(i % 4, end)
        rows.append({"text": begin, "choices": choices, "answer": i % 4, "whole": piece, "end": end})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shared = f"dataset_path: json\ndataset_kwargs:\n  data_files: {{test: {folder}/rows.jsonl}}\ntest_split: test\n"
    (folder / "ends.yaml").write_text(
        "task: tale_ends\noutput_type: multiple_choice\n" + shared
        + 'doc_to_text: "{{text}}"\ndoc_to_choice: "{{choices}}"\ndoc_to_target: "{{answer}}"\n'
        + "metric_list: [{metric: acc}, {metric: acc_norm}]\n")
    (folder / "texts.yaml").write_text(
        "task: tale_texts\noutput_type: loglikelihood_rolling\n" + shared + 'doc_to_text: ""\ndoc_to_target: "{{whole}}"\n'
        + "metric_list: [{metric: word_perplexity}, {metric: bits_per_byte}]\n")
    (folder / "follows.yaml").write_text(
        "task: tale_follows\noutput_type: generate_until\n" + shared + 'doc_to_text: "{{text}}"\ndoc_to_target: "{{end}}"\n'
        + 'generation_kwargs: {until: ["."], max_gen_toks: 12, do_sample: false}\nmetric_list: [{metric: exact_match}]\n')


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed")
class Evaluation(unittest.TestCase):
    def test_scores_are_those_of_transformers(self):
        import lm_eval
        import torch
        import tenon.lm_eval  # noqa: F401  registers the class
        from lm_eval.tasks import TaskManager
        torch.set_num_threads(1)  # the models are small, and its threads wait by spinning
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch.dict(os.environ, HF_HUB_OFFLINE="1",
                                                                             HF_DATASETS_OFFLINE="1",
                                                                             HF_DATASETS_CACHE=f"{name}/cache"):
            write_tasks(pathlib.Path(name))
            found = {}
            # As transformers is told to, the first computes in float32; the second in bfloat16, where the processor can.
            for arm, model, settings in (("theirs", "hf", {"dtype": "float32", "device": "cpu", "batch_size": 1}),
                                         ("f32", "tenon", {"executor": {"isa": "portable"}, "kv_cache": {"dtype": "f32"}}),
                                         ("own", "tenon", {})):
                found[arm] = lm_eval.simple_evaluate(
                    model=model, model_args={"pretrained": str(MODELS / "tale"), "max_length": 512, **settings},
                    tasks=["tale_ends", "tale_texts", "tale_follows"], task_manager=TaskManager(include_path=name),
                    bootstrap_iters=0, log_samples=True)
        theirs = found["theirs"]
        self.assertGreater(theirs["results"]["tale_ends"]["acc,none"], 0.25)  # a guess
        for arm, tolerance in (("f32", 1e-5), ("own", 1e-3)):
            ours = found[arm]
            for metric in ("acc,none", "acc_norm,none"):
                self.assertEqual(ours["results"]["tale_ends"][metric], theirs["results"]["tale_ends"][metric], arm)
            for metric in ("word_perplexity,none", "bits_per_byte,none"):
                one, other = (results["results"]["tale_texts"][metric] for results in (ours, theirs))
                self.assertTrue(math.isclose(one, other, rel_tol=tolerance), (arm, metric, one, other))
        # The likeliest token can be another one where two are within a thousandth, as of one of these texts.
        answers = [[sample["resps"] for sample in results["samples"]["tale_follows"]] for results in (found["f32"], theirs)]
        self.assertEqual(*answers)
        self.assertEqual(found["f32"]["results"]["tale_follows"]["exact_match,none"],
                         theirs["results"]["tale_follows"]["exact_match,none"])
        print({arm: {task: {metric: value for metric, value in scores.items() if ",none" in metric and "stderr" not in metric}
                     for task, scores in results["results"].items()} for arm, results in found.items()})


if __name__ == "__main__":
    unittest.main()
