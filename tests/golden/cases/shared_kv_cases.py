"""The tiny checkpoints of tests/golden/models whose layers share K and V (cross-layer attention,
arXiv:2405.12981), for make_model_goldens.py. transformers has no Llama with it: here its attention is
patched, so that the first of every `cla_share_factor` layers leaves its rotated K and its V to the
others, which have no projections for them."""
import types

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, eager_attention_forward

from cases import family_cases

PLAIN = dict(rope_type="default", rope_theta=10000.0)
CASES = {
    "llama_shared_kv": LlamaConfig(**family_cases.small(), use_cla=True,
                                   cla_share_factor=2, rope_parameters=PLAIN),
    "llama_shared_kv_biases": LlamaConfig(**family_cases.small(num_hidden_layers=4), use_cla=True,
                                          cla_share_factor=3, attention_bias=True, head_dim=10,
                                          rope_parameters=PLAIN),
}
randomise = family_cases.randomise


def strip(folder):
    """Takes K and V of the layers that read another's out of the file."""
    import json
    from safetensors.torch import load_file, save_file
    factor = json.loads((folder / "config.json").read_text())["cla_share_factor"]
    path = folder / "model.safetensors"

    def is_kept(name):
        shared = ".k_proj." in name or ".v_proj." in name
        return not (shared and int(name.split(".")[2]) % factor)
    tensors = {name: value for name, value in load_file(path).items() if is_kept(name)}
    save_file(tensors, path, metadata={"format": "pt"})


def share(model):
    factor, left = model.config.cla_share_factor, []

    def forward(self, hidden_states, position_embeddings, attention_mask, **_):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        cos, sin = position_embeddings
        if self.layer_idx % factor == 0:
            k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
            k = apply_rotary_pos_emb(k, k, cos, sin)[1]
            left[:] = k, self.v_proj(hidden_states).view(shape).transpose(1, 2)
        q = apply_rotary_pos_emb(q, q, cos, sin)[0]
        out, weights = eager_attention_forward(self, q, *left, attention_mask,
                                               scaling=self.scaling, dropout=0.0)
        return self.o_proj(out.flatten(2)), weights
    for layer in model.model.layers:
        layer.self_attn.forward = types.MethodType(forward, layer.self_attn)
    model.config.use_cache = False
