"""Small programs that print what those print that bench/peers compares; `program` writes them."""
import sys
import textwrap

# Answers from answers.json next to it: {"states": [read GB/s …], "decode": seconds, …}.
TENON = """
    import json, os, pathlib, sys
    here = pathlib.Path(__file__).parent
    answers = json.loads((here / "answers.json").read_text())
    arguments = sys.argv[1:]
    if arguments[0] == "compare":  # nothing is measured there
        os.execv(<<binary>>, [<<binary>>, *arguments])
    with open(here / "calls.txt", "a") as calls:
        calls.write("tenon " + " ".join(arguments) + "\\n")
    if arguments[0] == "model":
        if arguments[1] == "synth":
            folder = pathlib.Path(arguments[arguments.index("--out") + 1])
            folder.mkdir()
            (folder / "config.json").write_text("{}")
        else:
            pathlib.Path(arguments[3]).write_bytes(b"GGUF" * 1000)
        sys.exit()
    if "--limits" in arguments:
        count = here / "count"
        seen = int(count.read_text()) if count.exists() else 0
        count.write_text(str(seen + 1))
        read = answers["states"][min(seen, len(answers["states"]) - 1)]
        print(json.dumps({"processor": "stand-in", "threads": 2, "read_gbps": read,
                          "fma_tflops": 0.001, "bf16_tflops": 0.0, "int8_tops": 0.002}))
        sys.exit()
    operations = {"int8": 0.0, "bf16": 2e6, "f32": 0.0}
    print(json.dumps({"work": {"weight_bytes": 1e9, "kv_bytes_per_token": 0.0,
                               "row_operations": operations, "head_operations": operations},
                      "prefill": {"seconds": answers.get("prefill", 1.0)},
                      "decode": {"seconds": 9.9, "mean_step_seconds": answers.get("decode", 0.2)},
                      "verify": {"times_decode": answers.get("verify", 1.1)}}))
"""

# What llama-bench prints; `seconds` is code over `arguments` for the whole of each repetition.
LLAMA_BENCH = """
    import json, pathlib, sys
    arguments = sys.argv[1:]
    if "--help" in arguments:
        print("usage: llama-bench [options]\\n  -p, --n-prompt <n>\\n  <<help>>")
        sys.exit(<<help_status>>)
    with open(pathlib.Path(__file__).parents[3] / "calls.txt", "a") as calls:
        calls.write("llama-bench " + " ".join(arguments) + "\\n")
    arguments = [argument for argument in arguments if argument != "--no-warmup"]
    flags = dict(zip(arguments[::2], arguments[1::2]))
    <<before>>
    seconds = <<seconds>>
    samples = [int(seconds * 1e9 * (1 + i / 100)) for i in range(int(flags["-r"]))]
    print("some line of a log")
    print(json.dumps([{"model_filename": <<model>>, "samples_ns": samples}]))
"""

# What llama-batched-bench prints: a table, a row a batch.
BATCHED_BENCH = """
    import pathlib, sys
    with open(pathlib.Path(__file__).parents[3] / "calls.txt", "a") as calls:
        calls.write("llama-batched-bench " + " ".join(sys.argv[1:]) + "\\n")
    flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    print("main: n_kv_max = 2048, n_batch = 2048\\n")
    names = ["PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s"]
    print("|" + "|".join(f" {name:>6} " for name in names) + "|")
    print("|" + "|".join("-------" for name in names) + "|")
    for batch in map(int, flags["-npl"].split(",")):
        step = <<step>>
        row = [flags["-npp"], flags["-ntg"], batch, 99, 0.5, 9.0, step * int(flags["-ntg"]), 9, 9, 9]
        print("|" + "|".join(f" {value:>6} " for value in row) + "|")
"""

# The C interface as llama-cpp-python's module has it; it notes what it is asked to compute.
LLAMA_WHEEL = """
    import ctypes
    class Params:
        flash_attn_type = -1
    class Batch:
        pass
    def llama_backend_init(): pass
    def llama_model_default_params(): return Params()
    def llama_context_default_params(): return Params()
    def llama_model_load_from_file(path, params): return 1
    def llama_init_from_model(model, params): return params.n_seq_max
    def llama_get_memory(context): return 2
    def llama_memory_clear(memory, data): assert memory == 2
    def llama_batch_init(tokens, width, sequences):
        batch = Batch()
        batch.token, batch.pos, batch.n_seq_id, batch.logits = ([0] * tokens for _ in range(4))
        batch.seq_id = [[0] for _ in range(tokens)]
        return batch
    def llama_decode(context, batch):
        rows = range(batch.n_tokens)
        sequences = " ".join(str(each) for each in sorted({batch.seq_id[row][0] for row in rows}))
        with open(<<calls>>, "a") as calls:
            calls.write(f"{batch.n_tokens} rows of sequences {sequences}, "
                        f"logits of {sum(batch.logits[row] for row in rows)}\\n")
        return 0
    def llama_get_logits_ith(context, row): return (ctypes.c_float * 1)(0.5)
"""

WORKS = """
    [[work]]
    name = "decode"
    kind = "decode"
    shape = "stories-260k"
    types = ["bf16"]
    steps = 10
    goal = { bf16 = <<goal>> }
    [[work]]
    name = "prefill"
    kind = "prefill"
    shape = "stories-260k"
    types = ["bf16"]
    tokens = 100
    [[work]]
    name = "batch 4"
    kind = "decode"
    shape = "stories-260k"
    types = ["bf16"]
    batch = 4
    steps = 10
    [[work]]
    name = "verify 3"
    kind = "verify"
    shape = "stories-260k"
    types = ["bf16"]
    tokens = 3
    steps = 10
    [[work]]
    name = "beside 2"
    kind = "decode"
    shape = "stories-260k"
    types = ["bf16"]
    steps = 10
    busy = 2
    [[work]]
    name = "memory"
    kind = "memory"
    shape = "stories-260k"
    types = ["bf16"]
    [[work]]
    name = "load"
    kind = "load"
    shape = "stories-260k"
    types = ["bf16"]
"""


def filled(text, values):
    for name, value in values.items():
        text = text.replace(f"<<{name}>>", str(value))
    return textwrap.dedent(text)


def program(path, body, **values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{filled(body, values)}")
    path.chmod(0o755)
