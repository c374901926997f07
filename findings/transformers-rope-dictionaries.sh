#!/usr/bin/env bash
# Configurations of transformers 5.24.0 do not copy the rope_parameters that they are given: some
# write their own defaults into the caller's dictionary, and the next configuration made from it
# takes those for what was asked. Which model is made first then decides how many elements of a head
# another model turns. Gemma 3 also keeps a theta given without the kind of layer next to its own
# two and turns by those, where OLMo 3 gives it to both kinds.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), rope_parameters {"rope_type": "default", "rope_theta": 500000.0}:
#   Qwen3NextConfig alone           partial_rotary_factor 0.25
#   ... after Glm4MoeConfig of the same dictionary        0.5   (and the other way round 0.25 for GLM 4)
#   Gemma3TextConfig   theta of full_attention 1000000.0, of sliding_attention 10000.0, and 500000.0 next to them
#   Olmo3Config        500000.0 for both
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.24.0
"$folder/venv/bin/python" - <<'PYTHON'
from transformers import Gemma3TextConfig, Glm4MoeConfig, Olmo3Config, Qwen3NextConfig


def asked():
    return {"rope_type": "default", "rope_theta": 500000.0}


def factor(config):
    return config.rope_parameters["partial_rotary_factor"]


alone = factor(Qwen3NextConfig(rope_parameters=asked())), factor(Glm4MoeConfig(rope_parameters=asked()))
shared = asked()
first = Glm4MoeConfig(rope_parameters=shared)
second = Qwen3NextConfig(rope_parameters=shared)
print("alone:", alone, "one after the other:", factor(first), factor(second), "the caller's:", shared)
assert alone == (0.25, 0.5) and (factor(first), factor(second)) == (0.5, 0.5)
assert shared != asked() and second.rope_parameters is first.rope_parameters
shared = asked()
second, first = Qwen3NextConfig(rope_parameters=shared), Glm4MoeConfig(rope_parameters=shared)
assert (factor(first), factor(second)) == (0.25, 0.25)

thetas = {}
for config in (Gemma3TextConfig(rope_parameters=asked()), Olmo3Config(rope_parameters=asked())):
    thetas[config.model_type] = [config.rope_parameters[kind]["rope_theta"]
                                 for kind in ("full_attention", "sliding_attention")]
print(thetas)
assert thetas == {"gemma3_text": [1000000.0, 10000.0], "olmo3": [500000.0, 500000.0]}
print("as it was seen")
PYTHON
