#!/usr/bin/env python3
"""The steps of roofline.txt by PyTorch, on the first GPU: what tenon_cuda_bench's whole steps stand beside.

    torch_step.py        lines of: torch WORKLOAD step MICROSECONDS

The first line has PyTorch's version. A step is a decoder of 8B (Llama 3.1) in bf16 with random weights,
written in PyTorch's own operations with q, k, v and gate, up joined, and replayed as one CUDA graph.
Exit status 77, with the reason, where there is no PyTorch or no GPU.
"""
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: PyTorch is not here")
    sys.exit(77)

HIDDEN, HEADS, KV_HEADS, DIM, MLP, VOCABULARY, LAYERS = 4096, 32, 8, 128, 14336, 128256, 32
SECONDS = 0.5


def weight(rows, columns):
    return torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16).normal_(0.0, 0.02)


class Layer:
    def __init__(self, sequences, entries):
        self.norms = [torch.ones(HIDDEN, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        self.qkv = weight((HEADS + 2 * KV_HEADS) * DIM, HIDDEN)
        self.output = weight(HIDDEN, HEADS * DIM)
        self.gate_up = weight(2 * MLP, HIDDEN)
        self.down = weight(HIDDEN, MLP)
        self.k, self.v = (torch.zeros(sequences, KV_HEADS, entries, DIM, device="cuda", dtype=torch.bfloat16)
                          for _ in range(2))


def turned(heads, cosine, sine):
    low, high = heads.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)


class Step:
    """The last `rows` tokens of each sequence, which has `entries` with them."""

    def __init__(self, rows, entries, sequences=1):
        self.sequences, self.rows, self.first = sequences, rows, entries - rows
        self.embedding, self.head = weight(VOCABULARY, HIDDEN), weight(VOCABULARY, HIDDEN)
        self.norm = torch.ones(HIDDEN, device="cuda", dtype=torch.bfloat16)
        self.layers = [Layer(sequences, entries) for _ in range(LAYERS)]
        self.tokens = torch.arange(sequences * rows, device="cuda")
        positions = torch.arange(self.first, entries, device="cuda", dtype=torch.float32)
        angles = positions[:, None] * 500000.0 ** (-torch.arange(0, DIM, 2, device="cuda") / DIM)
        self.cosine, self.sine = angles.cos().bfloat16(), angles.sin().bfloat16()

    def heads(self, x, count):
        return x.view(self.sequences, self.rows, count, DIM).transpose(1, 2)

    def __call__(self):
        x = F.embedding(self.tokens, self.embedding)
        for layer in self.layers:
            joined = F.linear(F.rms_norm(x, (HIDDEN,), layer.norms[0], 1e-5), layer.qkv)
            q, k, v = joined.split([HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], dim=-1)
            q = turned(self.heads(q, HEADS), self.cosine, self.sine)
            layer.k[:, :, self.first:] = turned(self.heads(k, KV_HEADS), self.cosine, self.sine)
            layer.v[:, :, self.first:] = self.heads(v, KV_HEADS)
            seen = F.scaled_dot_product_attention(q, layer.k, layer.v, is_causal=self.rows > 1,
                                                  enable_gqa=True)
            x = x + F.linear(seen.transpose(1, 2).reshape(-1, HEADS * DIM), layer.output)
            gate, up = F.linear(F.rms_norm(x, (HIDDEN,), layer.norms[1], 1e-5), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return F.linear(F.rms_norm(x[self.rows - 1::self.rows], (HIDDEN,), self.norm, 1e-5), self.head)


def microseconds(step):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    graph.replay()
    torch.cuda.synchronize()
    start = time.perf_counter()
    count = 0
    while count < 5 or time.perf_counter() - start < SECONDS:
        graph.replay()
        torch.cuda.synchronize()
        count += 1
    return (time.perf_counter() - start) / count * 1e6


def main():
    if not torch.cuda.is_available():
        print("skipped: there is no GPU here")
        return 77
    print(f"torch {torch.__version__}")
    with torch.inference_mode():
        for name, *shape in (("8b-decode", 1, 1024), ("8b-long", 1, 32768), ("8b-batch8", 1, 1024, 8),
                             ("8b-batch32", 1, 1024, 32), ("8b-prefill", 4096, 4096)):
            print(f"torch {name} step {microseconds(Step(*shape)):.3f}", flush=True)
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
