"""OpenVINO GenAI as a peer, where its Python package is installed. Run as a program: one piece.

It reads no GGUF file that is written here, so it compares on a checkpoint of the same shape and
type that the user exported (optimum-cli export openvino), named by --openvino SHAPE:TYPE=FOLDER.
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
    rounding = "its own export of the shape, not the same file"

    def __init__(self, exports, threads, timeout):
        super().__init__("OpenVINO GenAI", threads, timeout)
        if importlib.util.find_spec("openvino_genai") is None:
            raise Failure("the Python package openvino_genai is not installed here; install "
                          "openvino-genai, or leave --openvino out")
        self.folders = {}
        for export in exports:
            key, _, folder = export.partition("=")
            if not folder or ":" not in key:
                raise Failure(f"--openvino '{export}': expected SHAPE:TYPE=FOLDER, for example "
                              "llama-3.2-1b:q8_0=exports/int8")
            if not (pathlib.Path(folder) / "openvino_model.xml").is_file():
                raise Failure(f"'{folder}' holds no openvino_model.xml; export a checkpoint with "
                              "optimum-cli export openvino first")
            self.folders[tuple(key.split(":"))] = pathlib.Path(folder).absolute()

    def can(self, work, file):
        return ((work.shape, work.type) in self.folders and work.batch == 1
                and work.kind in ("decode", "prefill"))

    def cost(self, work, file, setting=(), brief=False):
        prompt = work.tokens if work.kind == "prefill" else max(work.context, 16)
        done = self.run([sys.executable, __file__, self.folders[work.shape, work.type],
                         "--threads", self.threads, "--prompt-tokens", prompt,
                         "--decode-tokens", work.steps, "--repeat", 1 if brief else work.repeat])
        answer = parse_json(done)
        return number(answer.get(work.kind), done, work.kind)


def piece(flags):
    """Median seconds of the prompt and of a step behind it."""
    import numpy
    import openvino
    import openvino_genai

    model = openvino_genai.LLMPipeline(str(flags.folder), "CPU",
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
    parser.add_argument("folder", type=pathlib.Path)
    for name in ("threads", "prompt-tokens", "decode-tokens", "repeat"):
        parser.add_argument(f"--{name}", type=int, required=True)
    piece(parser.parse_args())
