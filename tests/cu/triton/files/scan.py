"""Running sums and running maxima along the rows of a matrix."""
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


# cuda-streams: scan(x: *i32, sums: *i32, most: *i32, n: i32, BLOCK=512)
@triton.jit
def scan(x, sums, most, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < n
    row = tl.program_id(0) * n
    values = tl.load(x + row + at, mask=inside, other=0)
    tl.store(sums + row + at, tl.cumsum(values, 0), mask=inside)
    tl.store(most + row + at, tl.associative_scan(values, 0, larger), mask=inside)
