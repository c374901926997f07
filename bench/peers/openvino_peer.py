"""OpenVINO GenAI as a peer, where its Python package is installed. Run as a program: one piece.

It reads the GGUF files that the others read. Its time of a step is the difference between an answer
of many tokens and one of a single token.
"""

import argparse
import importlib.util
import json
import pathlib
import statistics
import sys
import time

from engines import Engine, Failure, number, parse_json


class OpenVino(Engine):
    def __init__(self, threads, timeout):
        super().__init__("OpenVINO GenAI", threads, timeout)
        if importlib.util.find_spec("openvino_genai") is None:
            raise Failure("the Python package openvino_genai is not installed here; install "
                          "openvino-genai, or leave --openvino out")

    def can(self, work):
        return work.batch == 1 and work.kind in ("decode", "prefill")

    def cost(self, work, file, setting=(), brief=False):
        prompt = work.tokens if work.kind == "prefill" else max(work.context, 16)
        done = self.run([sys.executable, pathlib.Path(__file__).resolve(), file,
                         "--threads", self.threads, "--prompt-tokens", prompt,
                         "--decode-tokens", work.steps, "--repeat", 1 if brief else work.repeat])
        answer = parse_json(done)
        return number(answer.get(work.kind), done, work.kind)


def piece(flags):
    """Median seconds of the prompt and of a step behind it."""
    import numpy
    import openvino
    import openvino_genai

    model = openvino_genai.LLMPipeline(str(flags.file), "CPU",
                                       INFERENCE_NUM_THREADS=flags.threads)
    config = openvino_genai.GenerationConfig(do_sample=False, ignore_eos=True)

    def seconds(new_tokens):
        ids = numpy.random.default_rng(0).integers(5, 1000, (1, flags.prompt_tokens))
        config.max_new_tokens = new_tokens
        start = time.monotonic()
        model.generate(openvino_genai.TokenizedInputs(
            openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids))), config)
        return time.monotonic() - start

    seconds(1)
    first, steps = [], []
    for _ in range(flags.repeat):
        first.append(seconds(1))
        steps.append((seconds(1 + flags.decode_tokens) - first[-1]) / flags.decode_tokens)
    print(json.dumps({"prefill": statistics.median(first), "decode": statistics.median(steps)}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    for name in ("threads", "prompt-tokens", "decode-tokens", "repeat"):
        parser.add_argument(f"--{name}", type=int, required=True)
    piece(parser.parse_args())
