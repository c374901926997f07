#!/usr/bin/env python3
"""Compares `tenon model logits` with Hugging Face transformers for a model folder, by hand.

    tests/golden/compare_with_transformers.py MODEL_FOLDER TENON [--tokens 64] [--runs 3] [-- …]
    tests/golden/compare_with_transformers.py MODEL_FOLDER TENON --text FILE [--context 512] [-- …]

What follows `--` goes to tenon: pipeline options such as --set executor.plugin=ref. Token ids are
random. transformers computes in fp32 with eager attention. Differences are given as a fraction of
the range of the logits; the exit status is 1 where one is above --tolerance.

With --text, perplexity is compared instead, over windows of --context tokens: the exit status is 1
where it differs by more than --tolerance of itself.

Needs torch, transformers and numpy; for quantised folders the packages that transformers reads them with
(compressed-tensors, bitsandbytes, gptqmodel).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def transformers_logits(model, tokens):
    import torch
    with torch.no_grad():
        return model(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].float().numpy()


def tenon_logits(binary, folder, tokens, extra):
    with tempfile.TemporaryDirectory() as work:
        ids, out = pathlib.Path(work) / "tokens.npy", pathlib.Path(work) / "logits.npy"
        np.save(ids, tokens)
        subprocess.run([binary, "model", "logits", folder, "--tokens-file", ids, "--out", out,
                        *extra], check=True, stdout=subprocess.DEVNULL)
        return np.load(out)


def compare(expected, actual):
    """Largest difference over the range, share of rows whose best token agrees."""
    if expected.shape != actual.shape:
        sys.exit(f"shapes differ: transformers {expected.shape}, tenon {actual.shape}")
    worst = np.abs(expected - actual).max() / (expected.max() - expected.min())
    return worst, (expected.argmax(1) == actual.argmax(1)).mean()


def transformers_perplexity(model, folder, text, context):
    import torch
    import transformers
    ids = transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    nats, predicted = 0.0, 0
    with torch.no_grad():
        for begin in range(0, len(ids), context):
            window = torch.tensor(ids[begin:begin + context])
            if len(window) < 2:
                break
            logits = model(window[None]).logits[0, :-1].double()
            nats += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
            predicted += len(window) - 1
    return float(np.exp(nats / predicted)), predicted


def compare_perplexity(model, args, extra):
    text = pathlib.Path(args.text).read_text()
    expected, predicted = transformers_perplexity(model, args.folder, text, args.context)
    done = subprocess.run([args.tenon, "model", "perplexity", args.folder, "--file", args.text,
                           "--context", str(args.context), "--json", *extra], check=True,
                          stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    if report["predicted_tokens"] != predicted:
        sys.exit(f"transformers predicted {predicted} tokens, tenon {report['predicted_tokens']}")
    difference = report["perplexity"] / expected - 1
    print(f"{predicted} tokens: transformers {expected:.6f}, tenon {report['perplexity']:.6f}, "
          f"difference {difference:+.2e}; {report['numerics']}")
    return abs(difference)


def main():
    argv = sys.argv[1:]
    extra = argv[argv.index("--") + 1:] if "--" in argv else []
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder")
    parser.add_argument("tenon")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--text")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args(argv[:argv.index("--")] if "--" in argv else argv)

    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.folder, dtype=torch.float32, attn_implementation="eager").eval()
    if args.text:
        sys.exit(0 if compare_perplexity(model, args, extra) <= args.tolerance else 1)
    random = np.random.default_rng(args.seed)
    worst_of_all = 0.0
    for run in range(args.runs):
        tokens = random.integers(0, model.config.vocab_size, args.tokens, dtype=np.int32)
        worst, agree = compare(transformers_logits(model, tokens),
                               tenon_logits(args.tenon, args.folder, tokens, extra))
        print(f"run {run}: largest difference {worst:.2e} of the range, "
              f"best token equal in {agree:.1%} of {args.tokens} rows")
        worst_of_all = max(worst_of_all, worst)
    sys.exit(0 if worst_of_all <= args.tolerance else 1)


if __name__ == "__main__":
    main()
