"""Dropout whose random numbers are computed from a seed where they are needed."""
import triton
import triton.language as tl


# cuda-streams: dropout(x: *fp32, out: *fp32, n: i32, p: fp32, seed: i32, BLOCK=256)
@triton.jit(do_not_specialize=['seed'])
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside)
    stays = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(stays, value / (1 - p), 0.0), mask=inside)
