"""How many threads of a kernel a multiprocessor holds, by the limits that NVIDIA publishes for its
compute capability (CUDA C++ Programming Guide, "Compute Capabilities")."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    threads: int
    blocks: int
    shared: int  # bytes of a multiprocessor
    registers: int = 65536


LIMITS = {
    "sm_80": Limits(threads=2048, blocks=32, shared=164 * 1024),
    "sm_89": Limits(threads=1536, blocks=24, shared=100 * 1024),
    "sm_90": Limits(threads=2048, blocks=32, shared=228 * 1024),
}
WARP = 32
WARP_REGISTERS = 256   # registers are given to warps in pieces of so many,
WARP_PARTS = 4         # each quarter of a multiprocessor has its own,
SHARED_PIECE = 128     # and shared memory is given in pieces of so many bytes,
SHARED_RESERVED = 1024  # after those that the system keeps for each block


def up_to(number, multiple):
    return -(-number // multiple) * multiple


def resident_blocks(architecture, threads, registers, shared):
    limits = LIMITS[architecture]
    warps = -(-threads // WARP)
    warp_registers = up_to(max(registers, 1) * WARP, WARP_REGISTERS)
    by_registers = limits.registers // WARP_PARTS // warp_registers * WARP_PARTS // warps
    by_shared = limits.shared // (up_to(shared, SHARED_PIECE) + SHARED_RESERVED)
    return min(limits.blocks, limits.threads // (warps * WARP), by_registers, by_shared)


def occupancy(architecture, threads, registers, shared):
    """Percent of the threads that the multiprocessor can hold."""
    held = resident_blocks(architecture, threads, registers, shared) * up_to(threads, WARP)
    return round(100 * held / LIMITS[architecture].threads)
