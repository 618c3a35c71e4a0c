"""The sum of two arrays."""
import triton
import triton.language as tl


@triton.jit
def add(x: '*fp32', y: '*fp32', out: '*fp32', n: 'i32', BLOCK: tl.constexpr = 1024):
    """Adds y to x."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)
