#!/usr/bin/env python3
"""Makes tests/golden/beams.json: beam searches of Hugging Face transformers over one of the tiny
models (fp32, eager attention), for tests/cli/generation_test.py.

    pip install torch transformers
    tests/golden/make_beam_goldens.py

Each case has the request as a line of a prompt file, and the answers, best first, as transformers
returns them, up to and with the token that ends them.
"""
import itertools
import json
import pathlib
import random

import torch
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MODEL = "llama_gqa"
EOS = [2]


def searches():
    draw = random.Random(5)
    kinds = itertools.product([1, 2, 4, 5], [False, True, "never"], [0.0, 1.0, 2.0])
    for beams, early_stopping, length_penalty in kinds:
        length = draw.choice([1, 8, 14])
        yield {"prompt": [draw.randrange(3, 99) for _ in range(draw.randrange(1, 30))],
               "max_tokens": length,
               "min_tokens": min(length, draw.choice([0, 0, 3])),
               "samples": draw.randrange(1, beams + 1),
               "beams": beams, "early_stopping": early_stopping,
               "length_penalty": length_penalty,
               "stop_tokens": sorted(draw.sample(range(3, 99), 9))}


def answers(model, request):
    eos = EOS + request["stop_tokens"]
    prompt = torch.tensor([request["prompt"]])
    with torch.no_grad():
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt),
                             num_beams=request["beams"], do_sample=False,
                             num_return_sequences=request["samples"],
                             max_new_tokens=request["max_tokens"],
                             min_new_tokens=request["min_tokens"] or None,
                             early_stopping=request["early_stopping"],
                             length_penalty=request["length_penalty"],
                             eos_token_id=eos, pad_token_id=0)
    found = []
    for row in out.tolist():
        tokens = row[len(request["prompt"]):]
        ends = [i for i, token in enumerate(tokens) if token in eos]
        found.append(tokens[:ends[0] + 1] if ends else tokens)
    return found


def main():
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(HERE / "models" / MODEL, dtype=torch.float32,
                                                 attn_implementation="eager")
    # The folder's own advice about sampling is no part of a beam search.
    model.generation_config.temperature = model.generation_config.top_p = 1.0
    model.generation_config.top_k = 50
    cases = [{"request": request, "answers": answers(model, request)} for request in searches()]
    text = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "beams.json").write_text(f'{{"model": "{MODEL}", "cases": [\n{text}\n]}}\n')
    print(len(cases), "cases,", sum(len(a) < c["request"]["max_tokens"]
                                    for c in cases for a in c["answers"]), "answers end early")


if __name__ == "__main__":
    main()
