"""What programs of vLLM's call between two models."""

import gc

from .. import absent


def cleanup_dist_env_and_memory(shutdown_ray: bool = False) -> None:
    """Frees models that nothing refers to any more. There are no processes to end."""
    gc.collect()


__all__ = ["cleanup_dist_env_and_memory"]


def __getattr__(name: str):
    absent.refuse_name(name, __name__)
