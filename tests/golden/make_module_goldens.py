#!/usr/bin/env python3
"""Makes tests/golden/mtp of families whose layers for drafts have names or parts of their own.

Usage: make_module_goldens.py [--into FOLDER] [CASE ...]   (needs torch, transformers, safetensors)

As make_mtp_goldens.py, whose golden.safetensors these have with fewer rows and a smaller vocabulary: the
layers are those of transformers, which drops what stands before and after them. That is written out here
as the families' programs have it (vLLM, SGLang, llama.cpp and, of ERNIE, the ablation that vMLX reports).
The cases of KEPT lie in tests/golden/mtp; the others are for a look at a family in another folder.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, BailingHybridConfig, DeepseekV32Config, Ernie4_5_MoeConfig,
                          ExaoneMoeConfig, Glm4MoeLiteConfig, GlmMoeDsaConfig, HYV3Config,
                          LongcatFlashConfig, MellumConfig, MiMoV2FlashConfig, NemotronHConfig,
                          AutoModelForImageTextToText, Qwen3NextConfig, Step3p7Config)

import seeded_weights

STEPS, ROWS = 3, 4
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
SMALL = dict(vocab_size=19, hidden_size=16, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=12, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1,
             eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
HEADS = dict(num_key_value_heads=4, num_hidden_layers=3)
ROPE = dict(rope_type="default", rope_theta=1000.0)
LOCAL = dict(rope_type="default", rope_theta=100.0)
LATENT = dict(q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=6)
ROUTER = dict(n_routed_experts=2, num_experts_per_tok=1, moe_intermediate_size=6)
INDEX = dict(index_n_heads=2, index_head_dim=8, index_topk=4)


def step_config():
    text = dict(SMALL, num_hidden_layers=3, head_dim=4, sliding_window=3, num_sliding_attention_heads=6,
                share_expert_dim=6, **ROUTER, layer_types=[FULL, SLIDING, SLIDING],
                mlp_layer_types=["dense", "sparse", "dense"], rope_theta=[1000.0, 100.0, 100.0],
                partial_rotary_factors=[0.5, 1.0, 1.0])
    return Step3p7Config(text_config=text, vision_config=dict(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=28,
        patch_size=14, width=8, layers=1, heads=1))


def nextn(layer, norm, **more):
    """Layers that follow the model's own."""
    return dict(front={"eh_proj": layer + "eh_proj", "enorm": layer + "enorm", "hnorm": layer + "hnorm",
                       "norm": norm}, layers=[layer], **more)


QWEN = dict(front={"eh_proj": "mtp.fc", "enorm": "mtp.pre_fc_norm_embedding",
                   "hnorm": "mtp.pre_fc_norm_hidden", "norm": "mtp.norm"}, layers=["mtp.layers.0."])
DEEPSEEK = nextn("model.layers.2.", "model.layers.2.shared_head.norm")
LING = nextn("model.layers.2.", "model.layers.2.final_layernorm")

# The config, with the module's layers behind the model's own; how it is stored; and keys that its
# config.json has besides. `raw`: the state before the last norm. `norm` empty: the model's own norm.
CASES = {
    "ernie4_5_moe": (Ernie4_5_MoeConfig(
        **{**SMALL, "tie_word_embeddings": True}, num_hidden_layers=3, moe_intermediate_size=6,
        moe_num_experts=2, moe_k=1, moe_num_shared_experts=1, moe_layer_end_index=1,
        rope_parameters=ROPE), dict(front={
            "eh_proj": "model.mtp_linear_proj.0", "enorm": "model.mtp_emb_norm.0",
            "hnorm": "model.mtp_hidden_norm.0", "norm": ""}, layers=["model.mtp_block.0."]), {}),
    "mimo_v2": (MiMoV2FlashConfig(
        **{**SMALL, "num_attention_heads": 4, "num_key_value_heads": 1}, num_hidden_layers=3, head_dim=6,
        v_head_dim=4, sliding_window=3, **ROUTER, layer_types=[SLIDING, FULL, SLIDING],
        mlp_layer_types=["dense", "sparse", "dense"],
        rope_parameters={FULL: {**ROPE, "partial_rotary_factor": 0.67},
                         SLIDING: {**LOCAL, "partial_rotary_factor": 0.67}}),
                nextn("model.mtp.layers.0.", "model.mtp.layers.0.final_layernorm", raw=True,
                      renamed={"post_attention_layernorm": "pre_mlp_layernorm"}), {}),
    "nemotron_h": (NemotronHConfig(
        **SMALL, head_dim=4, ssm_state_size=5, mamba_num_heads=4, mamba_head_dim=4, n_groups=2, **ROUTER,
        moe_shared_expert_intermediate_size=6, routed_scaling_factor=2.5,
        layers_block_type=[LINEAR, FULL, "moe", FULL, "moe"]),
                   dict(front={"eh_proj": "mtp.layers.0.eh_proj", "enorm": "mtp.layers.0.enorm",
                               "hnorm": "mtp.layers.0.hnorm", "norm": "mtp.layers.1.final_layernorm"},
                        layers=["mtp.layers.0.", "mtp.layers.1."]), {"num_nextn_predict_layers": 1}),
    "step3p5": (step_config(), nextn(
        "model.layers.2.", "model.layers.2.transformer.shared_head.norm", raw=True, plus_one=True,
        head="model.layers.2.transformer.shared_head.output"), {"mtp_layer_types": [SLIDING]}),
    "longcat": (LongcatFlashConfig(
        **{**SMALL, "num_key_value_heads": 4}, **LATENT, head_dim=4, num_layers=2, ffn_hidden_size=12,
        moe_topk=2, n_routed_experts=2, zero_expert_num=1, expert_ffn_hidden_size=6,
        rope_parameters=ROPE), dict(front={
            "eh_proj": "model.mtp.layers.0.eh_proj", "enorm": "model.mtp.layers.0.enorm.m",
            "hnorm": "model.mtp.layers.0.hnorm.m", "norm": "model.mtp.norm"},
            layers=["model.mtp.layers.0."], half=True), {}),
    "hy_v3": (HYV3Config(**SMALL, num_hidden_layers=3, head_dim=4, num_experts=3, num_experts_per_tok=2,
                         moe_intermediate_size=6, num_shared_experts=1,
                         mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters=ROPE), LING, {}),
    "bailing_hybrid": (BailingHybridConfig(
        **{**SMALL, **HEADS}, **LATENT, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=6,
        first_k_dense_replace=1, head_dim=4, layer_types=[LINEAR, FULL, FULL], n_group=1, topk_group=1,
        rope_parameters=ROPE), LING, {"layer_types": [LINEAR, FULL]}),
    "exaone_moe": (ExaoneMoeConfig(
        **SMALL, num_hidden_layers=3, head_dim=4, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=6, num_shared_experts=1, sliding_window=3, layer_types=[SLIDING, FULL, SLIDING],
        mlp_layer_types=["dense", "sparse", "dense"], rope_parameters=ROPE), QWEN,
                   {"mtp_layer_types": [SLIDING]}),
    "mellum": (MellumConfig(
        **SMALL, num_hidden_layers=3, head_dim=4, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=6, sliding_window=3, layer_types=[SLIDING, FULL, SLIDING],
        mlp_layer_types=["dense", "sparse", "sparse"],
        rope_parameters={FULL: dict(ROPE), SLIDING: dict(LOCAL)}), QWEN,
               {"mtp_layer_types": [SLIDING]}),
    "glm4_moe_lite": (Glm4MoeLiteConfig(**{**SMALL, **HEADS}, **LATENT, **ROUTER, n_shared_experts=1,
                                        rope_parameters=ROPE,
                                        mlp_layer_types=["dense", "sparse", "sparse"]), DEEPSEEK, {}),
    "glm_moe_dsa": (GlmMoeDsaConfig(**{**SMALL, **HEADS}, **LATENT, **ROUTER, **INDEX, n_shared_experts=1,
                                    rope_parameters=ROPE, mlp_layer_types=["dense", "sparse", "sparse"]),
                    DEEPSEEK, {}),
    "deepseek_v32": (DeepseekV32Config(**{**SMALL, **HEADS}, **LATENT, **ROUTER, **INDEX, n_shared_experts=1,
                                       n_group=1, topk_group=1, rope_parameters=ROPE,
                                       first_k_dense_replace=1), DEEPSEEK, {}),
    "qwen3_next": (Qwen3NextConfig(
        **SMALL, num_hidden_layers=3, head_dim=4, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=6, shared_expert_intermediate_size=6, linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=4, linear_value_head_dim=4,
        layer_types=[LINEAR, FULL, FULL], rope_parameters={**ROPE, "partial_rotary_factor": 0.5}),
                   {**QWEN, "plus_one": True}, {}),
}
VISION = ("model.vision", "model.multi")
KEPT = ["ernie4_5_moe", "mimo_v2", "nemotron_h", "step3p5", "longcat"]
# What says nothing that a reader asks for.
NOISE = {"transformers_version", "attention_dropout", "initializer_range", "use_cache", "dtype",
         "output_router_logits", "router_aux_loss_coef", "pad_token_id", "mtp_mlp_layer_types",
         "hidden_dropout", "mamba_ssm_cache_dtype", "num_logits_to_keep", "rescale_prenorm_residual",
         "residual_in_fp32", "use_mamba_kernels", "time_step_floor", "time_step_limit", "time_step_max",
         "moe_shared_expert_overlap", "chunk_size", "expand", "pretraining_tp", "mtp_layers_block_type",
         "mtp_loss_scaling_factor", "eos_token_id", "bos_token_id"}


def randomise(model, config, layout, generator):
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if "inv_freq" in name or "original" in name or not value.is_floating_point():
            continue
        values = torch.randn(value.shape, generator=generator)
        if "norm" in name and value.ndim == 1:
            values = (0.0 if layout.get("plus_one") and "linear_attn" not in name else 1.0) + 0.2 * values
        elif name.endswith((".A_log", ".dt_bias", ".D")):
            values = 0.3 * values
        elif value.ndim == 1:
            values *= 0.3
        elif "embed" not in name:
            values *= 1.3 / value.shape[-1] ** 0.5
        with torch.no_grad():
            value.copy_(values)


def layers_of(model):
    base = model.get_decoder()
    return base.layers, next(getattr(base, n) for n in ("norm", "norm_f") if hasattr(base, n))


def stored_name(name, own, layout):
    """Of a tensor of the model with all layers; `own`: the model's number of layers. Nothing: it is no part
    of the text's, or of the half of a layer that the module lacks."""
    if not name.startswith(("model.", "backbone.", "lm_head.")) or name.startswith(VISION):
        return None
    name = name.replace("model.language_model.", "model.")
    parts = name.split(".")
    if "layers" not in parts[:2]:
        return name
    number = int(parts[2]) - own
    if number < 0:
        return name
    rest = ".".join(parts[3:])
    if layout.get("half"):  # the first half alone
        if not any(rest.startswith(p) for p in ("input_layernorm.0", "post_attention_layernorm.0",
                                                "self_attn.0", "mlps.0")):
            return None
        rest = rest.replace("mlps.0", "transformer_layer.mlp").replace(".0.", ".", 1)
    for before, after in layout.get("renamed", {}).items():
        rest = rest.replace(before, after)
    return layout["layers"][number] + rest


def own_config(said, own, more):
    """config.json of the model without the module's layers."""
    for key in NOISE:
        said.pop(key, None)
    count = said.pop("num_hidden_layers", None)
    lists = ("layer_types", "mlp_layer_types", "layers_block_type", "swiglu_limits",
             "swiglu_limits_shared", "indexer_types")
    for key in lists:
        if isinstance(said.get(key), list):
            said[key] = said[key][:own]
    if "layers_block_type" not in said and "num_layers" not in said:
        said["num_hidden_layers"] = own
    if "num_layers" in said:
        said["num_layers"] = own
    if isinstance(said.get("per_layer_config"), dict):
        said["per_layer_config"] = {k: v for k, v in said["per_layer_config"].items() if int(k) < own}
    return {**{k: v for k, v in said.items() if v is not None}, **more}


class Module:
    def __init__(self, model, config, layout, front, own):
        layers, norm = layers_of(model)
        self.layers, self.own, self.layout, self.config = layers[own:], own, layout, config
        self.rotary = getattr(model.get_decoder(), "rotary_emb", None)
        self.eps = getattr(config, "rms_norm_eps", 1e-5)
        self.one = 1.0 if layout.get("plus_one") else 0.0
        self.front = {key: front[name + ".weight"].double() for key, name in layout["front"].items() if name}
        self.norm = self.front.get("norm", norm.weight)
        self.embedding = model.get_input_embeddings().weight
        self.head = front[layout["head"] + ".weight"].double() if "head" in layout else model.lm_head.weight

    def rms(self, x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (weight + self.one)

    def enter(self, tokens, states):
        halves = [self.rms(self.embedding[tokens], self.front["enorm"]),
                  self.rms(states, self.front["hnorm"])]
        return torch.cat(halves, -1) @ self.front["eh_proj"].T

    def layer(self, i, x):
        rows, types = x.shape[1], getattr(self.config, "layer_types", None)
        kind = types[self.own + i] if types else FULL
        at = torch.arange(rows)
        seen = at[None] <= at[:, None]
        if kind == SLIDING:
            seen &= at[None] > at[:, None] - self.config.sliding_window
        mask = torch.where(seen, 0.0, -1e30).to(x.dtype)[None, None]
        positions = at[None]
        more = {}
        if self.rotary is not None:
            by_kind = isinstance(self.rotary.rope_type, dict)
            more["position_embeddings"] = (self.rotary(x, positions, kind) if by_kind else
                                           self.rotary(x, positions))
        layer = self.layers[i]
        if self.layout.get("half"):
            x = x + layer.self_attn[0](hidden_states=layer.input_layernorm[0](x), attention_mask=mask,
                                       position_ids=positions, **more)[0]
            return x + layer.mlps[0](layer.post_attention_layernorm[0](x))
        if "index_topk" in self.config.to_dict():
            more["position_ids"] = positions
        out = layer(x, attention_mask=mask, position_ids=positions,
                    **{k: v for k, v in more.items() if k != "position_ids"})
        return out[0] if isinstance(out, tuple) else out

    def run(self, x):
        x = x[None]
        for i in range(len(self.layers)):
            x = self.layer(i, x)
        raw = x[0, -1]
        state = self.rms(raw, self.norm)
        return raw if self.layout.get("raw") else state, self.head @ state


def chains(module, tokens, hidden, vocabulary):
    logits = torch.zeros(STEPS, ROWS, vocabulary, dtype=hidden.dtype)
    for column in range(ROWS):
        x = module.enter(tokens[1:column + 2], hidden[:column + 1])
        state, logits[0, column] = module.run(x)
        for step in range(1, STEPS):
            if column + 1 + step >= len(tokens):
                break
            x = torch.cat([x, module.enter(tokens[column + 1 + step][None], state[None])])
            state, logits[step, column] = module.run(x)
    return logits


@torch.no_grad()
def make(name, folder):
    whole_config, layout, more = CASES[name]
    config = whole_config.get_text_config()
    config._attn_implementation = whole_config._attn_implementation = "eager"
    auto = AutoModelForCausalLM if config is whole_config else AutoModelForImageTextToText
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    folder.mkdir(parents=True, exist_ok=True)
    model = auto.from_config(whole_config)
    own = len(layers_of(model)[0]) - len(layout["layers"])
    randomise(model, config, layout, generator)
    model.save_pretrained(folder)
    path = folder / seeded_weights.WEIGHTS
    names, tensors, unused = {}, {}, {}
    for whole, value in load_file(path).items():
        stored = stored_name(whole, own, layout)
        if stored is None:
            unused[whole] = value.contiguous()
            continue
        names[stored], tensors[stored] = whole, value.contiguous()
    hidden, base = config.hidden_size, 0.0 if layout.get("plus_one") else 1.0
    for key, own_name in layout["front"].items():
        if own_name:
            drawn = (torch.randn(hidden, 2 * hidden, generator=generator) / hidden**0.5
                     if key == "eh_proj" else base + 0.2 * torch.randn(hidden, generator=generator))
            tensors[own_name + ".weight"] = drawn
    if "head" in layout:
        tensors[layout["head"] + ".weight"] = 0.3 * torch.randn(config.vocab_size, hidden,
                                                                generator=generator)
    save_file(tensors, path, metadata={"format": "pt"})
    said = json.loads((folder / "config.json").read_text())
    said = own_config(said.get("text_config", said), own, more)
    (folder / "config.json").write_text(json.dumps(said, separators=(",", ":")) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    seeded_weights.seed(folder)
    recipe = folder / seeded_weights.RECIPE
    recipe.write_text(recipe.read_text().replace('": ', '":').replace(', ', ','))
    stored = load_file(path)
    state_dict = {names[n]: v for n, v in stored.items() if n in names}
    with tempfile.TemporaryDirectory() as whole:
        whole = pathlib.Path(whole)
        whole_config.save_pretrained(whole)
        # What is stored for no module, but transformers wants: the other half of a layer.
        state_dict = {**unused, **state_dict}
        save_file(state_dict, whole / seeded_weights.WEIGHTS, metadata={"format": "pt"})
        model, info = auto.from_pretrained(
            whole, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager",
            output_loading_info=True)
    assert not info["missing_keys"], info["missing_keys"]
    model.double().eval()
    tokens = torch.randint(3, config.vocab_size, (ROWS + 1,), generator=generator)
    streams = model(tokens[None, :ROWS], output_hidden_states=True).hidden_states
    state = streams[own] if layout.get("raw") else layers_of(model)[1](streams[own])
    state = state[0].float()
    module = Module(model, config, layout, stored, own)
    logits = chains(module, tokens, state.double(), config.vocab_size)
    save_file({"tokens": tokens, "hidden": state.contiguous(), "logits": logits.float()},
              folder / "golden.safetensors")
    path.unlink()


def main():
    arguments = sys.argv[1:]
    into = pathlib.Path(__file__).parent / "mtp"
    if arguments[:1] == ["--into"]:
        into, arguments = pathlib.Path(arguments[1]), arguments[2:]
    for name in arguments or KEPT:
        shutil.rmtree(into / name, ignore_errors=True)
        make(name, into / name)
        print(name)


if __name__ == "__main__":
    main()
