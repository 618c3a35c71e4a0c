"""How often each byte is in an array: counted in each block, and added up by atomic operations."""
import triton
import triton.language as tl


# cuda-streams: histogram(x: *u8, counts: *i32, n: i32, BLOCK=1024, BINS=256)
@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0).to(tl.int32)
    own = tl.histogram(values, BINS, mask=at < n)
    tl.atomic_add(counts + tl.arange(0, BINS), own, sem='relaxed')
