"""The tiny checkpoints of tests/golden/models with short convolutions, for make_model_goldens.py.
Sizes are odd on purpose: a stream of 36, convolutions of 2 to 7 tokens, a vocabulary of 99."""
import torch
from transformers import Lfm2Config, Lfm2MoeConfig, Lfm3Config

ENDS = dict(vocab_size=99, bos_token_id=1, eos_token_id=2, pad_token_id=0)
CONV, FULL, SLIDING = "conv", "full_attention", "sliding_attention"
SMALL = dict(**ENDS, hidden_size=36, num_attention_heads=6, num_key_value_heads=3,
             max_position_embeddings=128, norm_eps=1e-4)
LFM2 = dict(**SMALL, rope_parameters=dict(rope_type="default", rope_theta=1000.0))
EXPERTS = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=14,
               intermediate_size=50)
# Windows of 7 turn whole heads; of the others 2 of 4 pairs of each head turn.
ROPES = {SLIDING: dict(rope_type="default", rope_theta=100.0),
         FULL: dict(rope_type="proportional", rope_theta=1000.0, partial_rotary_factor=0.5)}
LFM3 = dict(**SMALL, head_dim=8, intermediate_size=50, sliding_window=7)

CASES = {
    # int(2/3 · 70) = 46, · 1.25 = 57, and up to 60.
    "lfm2": Lfm2Config(**LFM2, intermediate_size=70, block_multiple_of=12,
                       block_ffn_dim_multiplier=1.25, num_hidden_layers=4,
                       layer_types=[CONV, CONV, FULL, CONV]),
    "lfm2_biases": Lfm2Config(**LFM2, intermediate_size=45, block_auto_adjust_ff_dim=False,
                              conv_bias=True, conv_L_cache=2, num_hidden_layers=3,
                              tie_word_embeddings=False, full_attn_idxs=[0]),
    "lfm2_moe": Lfm2MoeConfig(**LFM2, **EXPERTS, num_hidden_layers=4, num_dense_layers=1,
                              routed_scaling_factor=1.7, conv_L_cache=4,
                              layer_types=[CONV, FULL, CONV, CONV]),
    "lfm2_moe_stacked": Lfm2MoeConfig(**LFM2, **EXPERTS, num_hidden_layers=2, num_dense_layers=0,
                                      use_expert_bias=False, norm_topk_prob=False,
                                      layer_types=[FULL, CONV]),
    # Which layers attend, and how, where nothing says so: conv, conv, full, conv, sliding.
    "lfm3": Lfm3Config(**LFM3, rope_parameters=ROPES, num_hidden_layers=5),
    "lfm3_plain": Lfm3Config(**LFM3, num_hidden_layers=3, use_sandwich_norm=False,
                             use_attention_gate=False, attention_bias=True, conv_bias=True,
                             conv_L_cache=3, tie_word_embeddings=False,
                             layer_types=[SLIDING, CONV, FULL]),
}


def randomise(model, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range."""
    tied = model.config.tie_word_embeddings
    for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith(("inv_freq",)):
            continue
        if name.endswith("expert_bias"):
            values *= 0.3
        elif name.endswith(".bias"):
            values *= 0.4
        elif "norm" in name:
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif "embed_tokens" in name:
            values *= 0.6 if tied else 1.0
        else:
            wide = "lm_head" in name or name.endswith("feed_forward.gate.weight")
            values *= (3.0 if wide else 1.3) / parameter.shape[-1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
