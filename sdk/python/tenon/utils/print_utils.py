"""`from tenon.utils.print_utils import print_embeddings`, where vLLM has it, too."""

from collections.abc import Sequence


def print_embeddings(embeds: Sequence[float], prefix: str = "Embeddings") -> None:
    """A line with the first numbers of a vector, and how many there are."""
    shown = ", ".join(str(float(one)) for one in embeds[:4])
    print(f"{prefix}: [{shown}{', ...' if len(embeds) > 4 else ''}] (size={len(embeds)})")


__all__ = ["print_embeddings"]
