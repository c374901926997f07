"""The experiments that a simulation is held against: pairs of strategies, on models that `tenon
calibrate` has not measured. Every one is run and none is left out.

Each gives a base and an arm that differs in one setting. Workloads have arrivals of their own or
keep so many requests in flight, so that the real run and the simulated one are the same requests.
"""
import dataclasses

# name: arguments of `tenon model synth` (None: the bundled model), and the format of its matrices.
MODELS = {
    "tale": None,
    "smollm-135m": ["--shape", "smollm-135m"],
    "qwen3-0.6b-of-8-layers": ["--shape", "qwen3-0.6b", "--layers", "8"],
    "llama-3.2-1b-of-3-layers": ["--shape", "llama-3.2-1b", "--layers", "3"],
}

# Requests are few and short, so that a real piece takes seconds on two cores.
WORKLOADS = {
    "uneven": """
[[request]]
count = 16
prompt_tokens = { mean = 60, spread = 0.8, min = 8, max = 300 }
max_tokens = { mean = 40, spread = 0.9, min = 4, max = 200 }
""",
    "long-prompts": """
[[request]]
count = 6
prompt_tokens = 16
max_tokens = 60

[[request]]
count = 3
prompt_tokens = 500
max_tokens = 8
arrival = "150ms"
every = "200ms"
""",
    "shared-prefix": """
[[request]]
prefix = "instruction"
prefix_tokens = 400
prompt_tokens = 30
max_tokens = 12

[[request]]
count = 9
prefix = "instruction"
prefix_tokens = 400
prompt_tokens = 30
max_tokens = 12
arrival = "900ms"
every = "60ms"
""",
    # More instructions than the cache holds: what was kept is evicted before it is asked for.
    "thrashing": """
[[request]]
count = 2
prefix = "a"
prefix_tokens = 320
prompt_tokens = 20
max_tokens = 10
every = "700ms"

[[request]]
count = 2
prefix = "b"
prefix_tokens = 320
prompt_tokens = 20
max_tokens = 10
arrival = "100ms"
every = "700ms"

[[request]]
count = 2
prefix = "c"
prefix_tokens = 320
prompt_tokens = 20
max_tokens = 10
arrival = "200ms"
every = "700ms"
""",
    "two-tenants": """
[[request]]
count = 12
tenant = 1
prompt_tokens = 40
max_tokens = 24

[[request]]
count = 3
tenant = 2
prompt_tokens = 40
max_tokens = 24
""",
    "poisson": """
[[request]]
count = 20
rate = 6.0
prompt_tokens = { mean = 80, spread = 0.7, min = 8, max = 400 }
max_tokens = { mean = 24, spread = 0.7, min = 4, max = 100 }
""",
}


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    workload: str
    base: tuple  # settings of both
    arm: str     # what the arm has instead
    in_flight: int = 0


SCENARIOS = [
    Scenario("continuous", "uneven", ("scheduler.plugin=static", "limits.max_sequences=6"),
             "scheduler.plugin=continuous", 12),
    Scenario("chunked", "long-prompts",
             ("scheduler.plugin=continuous", "limits.max_batch_tokens=64",
              "limits.max_sequences=12"),
             "scheduler.plugin=chunked"),
    Scenario("blocks", "uneven",
             ("scheduler.plugin=continuous", "kv_cache.plugin=naive", "limits.max_sequences=12",
              "kv_cache.memory=@4"),
             "kv_cache.plugin=paged", 12),
    Scenario("prefix", "shared-prefix", ("kv_cache.plugin=paged", "limits.max_sequences=12"),
             "kv_cache.plugin=prefix"),
    Scenario("thrashing", "thrashing",
             ("kv_cache.plugin=prefix", "kv_cache.memory=@1.2", "limits.max_sequences=4"),
             "kv_cache.plugin=radix"),
    Scenario("more-sequences", "uneven",
             ("scheduler.plugin=continuous", "limits.max_sequences=3"),
             "limits.max_sequences=8", 12),
    Scenario("preemption", "uneven",
             ("scheduler.plugin=continuous", "kv_cache.plugin=paged", "limits.max_sequences=12",
              "kv_cache.memory=@1.5"),
             "kv_cache.memory=@6", 12),
    Scenario("fair", "two-tenants",
             ("scheduler.plugin=continuous", "limits.max_sequences=4"), "scheduler.plugin=fair"),
    Scenario("poisson", "poisson",
             ("scheduler.plugin=static", "limits.max_sequences=8"), "scheduler.plugin=chunked"),
]

CONTEXT_TOKENS = 1024


@dataclasses.dataclass(frozen=True)
class Experiment:
    model: str
    scenario: Scenario

    @property
    def name(self):
        return f"{self.model} {self.scenario.name}"


ALL = [Experiment(model, scenario) for model in MODELS for scenario in SCENARIOS]
SHORT = [Experiment("tale", SCENARIOS[0]), Experiment("tale", SCENARIOS[6])]
