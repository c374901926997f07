"""`tenon model fit`, and what `run` and `serve` say of memory before they load anything."""
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import tempfile
import unittest

from program import BINARY, MODEL, run, settings
from server import Server

TOKEN_BYTES = 6 * 2 * 2 * 64 * 2  # layers, K and V, heads, elements, bf16
CONTEXT = 2048


def fit(*arguments, status=0):
    done = run("model", "fit", *arguments, "--json")
    assert done.returncode == status, done.stderr + done.stdout
    return json.loads(done.stdout)


def write_large_model(folder):
    """Llama 3.1 70B's shapes, three times as many layers, and no bytes: 400 GB of a hole."""
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192,
              "intermediate_size": 28672, "num_hidden_layers": 240, "num_attention_heads": 64,
              "num_key_value_heads": 8, "vocab_size": 4096, "max_position_embeddings": 8192,
              "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "torch_dtype": "bfloat16",
              "tie_word_embeddings": True, "hidden_act": "silu"}
    shapes = {"model.embed_tokens.weight": [4096, 8192], "model.norm.weight": [8192]}
    for layer in range(240):
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in {
            "input_layernorm": [8192], "post_attention_layernorm": [8192],
            "self_attn.q_proj": [8192, 8192], "self_attn.k_proj": [1024, 8192],
            "self_attn.v_proj": [1024, 8192], "self_attn.o_proj": [8192, 8192],
            "mlp.gate_proj": [28672, 8192], "mlp.up_proj": [28672, 8192],
            "mlp.down_proj": [8192, 28672]}.items()}
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


class Fits(unittest.TestCase):
    def test_the_bundled_model_fits_with_all_sequences(self):
        found = fit(MODEL)
        self.assertTrue(found["fits"])
        self.assertEqual(found["kv_bytes_per_token"], TOKEN_BYTES)
        self.assertEqual(found["kv_bytes"], 32 * CONTEXT * TOKEN_BYTES)
        self.assertEqual(found["sequences"], [{"tokens": CONTEXT, "fit": 32}])
        self.assertEqual(found["changes"], [])
        self.assertEqual(found["weight_bytes"],
                         json.loads(run("model", "info", MODEL, "--json").stdout)["weight_bytes"])

    def test_it_counts_as_run_does(self):
        for mebibytes, sequences in ((6, 1), (13, 2), (192, 32), (300, 32)):
            memory = settings(kv_cache__memory=f"{mebibytes}MiB")
            self.assertEqual(fit(MODEL, *memory)["sequences"][0]["fit"], sequences)
            self.assertEqual(run("run", "x", "--max-tokens", "1", *memory).returncode, 0)
        memory = settings(kv_cache__memory="5MiB")
        found = fit(MODEL, *memory, status=1)
        self.assertFalse(found["fits"])
        self.assertEqual(found["sequences"], [{"tokens": CONTEXT, "fit": 0}])
        self.assertEqual(run("run", "x", *memory).returncode, 1)

    def test_its_changes_work(self):
        memory = settings(kv_cache__memory="5MiB")
        changes = fit(MODEL, *memory, status=1)["changes"]
        flags = [re.match(r"--set [^\s:]+", change)[0].split() for change in changes]
        self.assertEqual([flag[1].split("=")[0] for flag in flags],
                         ["kv_cache.memory", "kv_cache.dtype", "limits.context_tokens"])
        for flag in flags:
            self.assertTrue(fit(MODEL, *memory, *flag)["fits"], flag)
            done = run("run", "x", "--max-tokens", "1", *memory, *flag)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_shorter_sequences_have_lines_of_their_own(self):
        found = fit(MODEL, *settings(limits__exceed_model_context="true", limits__context_tokens=16384,
                                     kv_cache__memory="50MiB"))
        self.assertEqual(found["sequences"], [{"tokens": 16384, "fit": 1}, {"tokens": 8192, "fit": 2},
                                              {"tokens": 4096, "fit": 4}, {"tokens": 2048, "fit": 8}])

    def test_a_model_larger_than_the_machine_is_known_from_its_files_heads(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            size = write_large_model(folder)
            found = fit(folder, status=1)
            self.assertEqual(found["weight_bytes"], size)
            self.assertFalse(found["fits"])
            self.assertIn("fewer bits", found["changes"][-1])
            text = run("model", "fit", folder).stdout
        self.assertRegex(text, r"model      llama, 205 billion parameters\n")
        self.assertRegex(text, r"fits       no\nchange     end other programs")

    def test_the_cause_of_a_refusal_is_a_sentence(self):
        done = run("model", "fit", "/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot open '/nowhere/config.json'", done.stderr)


class Starts(unittest.TestCase):
    LINE = "memory: weights 11.0 MiB, K/V 13.0 MiB for 32 sequences, or 2 of 2048 tokens each"

    def test_a_server_says_what_it_takes_before_it_serves(self):
        with Server(*settings(kv_cache__memory="13MiB")) as server:
            status, errors = server.end()
        self.assertEqual(status, 0)
        self.assertEqual(errors.splitlines()[0], self.LINE)

    def test_a_server_with_replicas_says_it_once(self):
        with Server(*settings(kv_cache__memory="13MiB", parallel__data=2)) as server:
            status, errors = server.end()
        self.assertEqual(status, 0)
        self.assertEqual([line for line in errors.splitlines() if "memory:" in line],
                         [self.LINE + "; 2 replicas have the weights once and such K/V each"])

    def test_run_says_it_on_a_terminal_alone(self):
        command = [BINARY, "run", "Once", "--max-tokens", "1", *settings(kv_cache__memory="13MiB")]
        self.assertNotIn("memory:", subprocess.run(command, capture_output=True, text=True, check=True,
                                                   stdin=subprocess.DEVNULL).stderr)
        main, terminal = pty.openpty()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=terminal, stdin=subprocess.DEVNULL,
                       check=True)
        os.close(terminal)
        shown = os.read(main, 1 << 16).decode()
        os.close(main)
        self.assertEqual(shown.splitlines()[0], self.LINE)


if __name__ == "__main__":
    unittest.main()
