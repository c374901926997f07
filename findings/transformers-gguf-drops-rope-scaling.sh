#!/usr/bin/env bash
# transformers 5.24.0 loads a GGUF file and leaves out how its rotary embedding is scaled. The keys rope.scaling.* (YaRN
# of Qwen's long-context files, linear) are not read, and the tensor rope_freqs.weight, in which Llama 3.1 and later
# files keep their factors, is passed over; both without a warning. The configuration says rope_type "default", and the
# logits are those of a file without scaling, bit for bit. The same scaling in a configuration changes them.
# Whoever takes transformers for the reference of a GGUF engine compares two models.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), one small
# Llama, largest difference from its logits without scaling:
#   file with YaRN, factor 4              0.0, rope_type "default"     YaRN in the configuration: more than 0.01
#   file with linear scaling, factor 4    0.0, rope_type "default"     linear in the configuration: more than 0.01
#   file with rope_freqs.weight           0.0, rope_type "default"
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 accelerate==1.15.0 gguf==0.19.0 numpy==2.4.6
cd "$folder"
cat > scaled.py <<'PYTHON'
import gguf
import numpy as np
import torch
import transformers

transformers.logging.set_verbosity_error()
WIDTH, VOCABULARY = 32, 32
Scaling = gguf.RopeScalingType


def write(path, scaling=None, factors=None):
    numbers = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(VOCABULARY)
    if scaling:
        writer.add_rope_scaling_type(scaling)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(1024)
    sizes = {"token_embd": (VOCABULARY, WIDTH), "output_norm": (WIDTH,), "output": (VOCABULARY, WIDTH),
             "blk.0.attn_norm": (WIDTH,), "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (16, WIDTH),
             "blk.0.attn_v": (16, WIDTH), "blk.0.attn_output": (WIDTH, WIDTH), "blk.0.ffn_norm": (WIDTH,),
             "blk.0.ffn_gate": (64, WIDTH), "blk.0.ffn_up": (64, WIDTH), "blk.0.ffn_down": (WIDTH, 64)}
    for name, size in sizes.items():
        writer.add_tensor(f"{name}.weight", numbers.standard_normal(size).astype(np.float32) * np.float32(0.3))
    if factors:
        writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def loaded(path):
    return transformers.AutoModelForCausalLM.from_pretrained(".", gguf_file=path)


def logits(model):
    with torch.no_grad():
        return model(torch.arange(3, 27)[None]).logits


write("plain.gguf")
plain = loaded("plain.gguf")
for name, scaling, factors, asked in (
        ("yarn", Scaling.YARN, None, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}),
        ("linear", Scaling.LINEAR, None, {"rope_type": "linear", "factor": 4.0}), ("freqs", None, [1, 2, 4, 8], None)):
    write(f"{name}.gguf", scaling, factors)
    fields = gguf.GGUFReader(f"{name}.gguf")
    assert factors or fields.get_field("llama.rope.scaling.factor").contents() == 4.0
    model = loaded(f"{name}.gguf")
    off = float((logits(model) - logits(plain)).abs().max())
    print(f"file with {name}: {off}, {model.config.rope_parameters}")
    assert off == 0 and model.config.rope_parameters["rope_type"] == "default"
    if asked:
        config = transformers.LlamaConfig(**{**plain.config.to_dict(), "quantization_config": None,
                                             "rope_parameters": {"rope_theta": 10000.0, **asked}})
        scaled = transformers.LlamaForCausalLM(config).eval()
        scaled.load_state_dict(plain.state_dict())
        off = float((logits(scaled) - logits(plain)).abs().max())
        print(f"{name} in the configuration: {off}")
        assert off > 0.01
print("as it was seen")
PYTHON
OMP_NUM_THREADS=1 venv/bin/python scaled.py 2>> log || { tail -n 30 log; exit 1; }
