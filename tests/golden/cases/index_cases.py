"""The tiny checkpoints of tests/golden/models whose tokens attend to positions that an index chooses,
for make_model_goldens.py. The choices are small, so that most rows leave something out. The index
has heads enough that no score at the limit is 0 twice: what the reference chooses among equal ones
depends on the length of the text."""
import torch
from transformers import DeepseekV32Config, GlmMoeDsaConfig

from cases import latent_cases

TOKENS = 19
SMALL = dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=3,
             num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=128,
             kv_lora_rank=20, q_lora_rank=14, qk_nope_head_dim=12, qk_rope_head_dim=8,
             v_head_dim=10, index_n_heads=9, index_head_dim=11, n_routed_experts=6,
             num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=10,
             bos_token_id=1, eos_token_id=2, pad_token_id=0)


def small(**changes):
    return {**SMALL, **changes}


CASES = {
    "deepseek_v32": DeepseekV32Config(
        **small(num_hidden_layers=2, first_k_dense_replace=1), index_topk=7, n_group=3, topk_group=2,
        attention_bias=True, rope_parameters=latent_cases.YARN),
    "glm_moe_dsa": GlmMoeDsaConfig(
        **small(num_hidden_layers=4, first_k_dense_replace=3, n_routed_experts=4, vocab_size=99),
        index_topk=6, indexer_types=["full", "shared", "full", "shared"],
        norm_topk_prob=False, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e6)),
}


def randomise(model, generator):
    """And scores of an index that differ clearly."""
    latent_cases.randomise(model, generator)
    for name, parameter in model.named_parameters():
        if "indexer.w" in name:
            with torch.no_grad():
                parameter.mul_(2.0)
