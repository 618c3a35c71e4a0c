"""Layer normalization of rows that are longer than a block, with what its derivative needs."""
import triton
import triton.language as tl


# cuda-streams: layer_norm(*fp32, *fp32, *fp32, *fp32, *fp32, *fp32, stride: i32, n: i32, eps: fp32, BLOCK=256)
@triton.jit
def layer_norm(out, x, weight, bias, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0.0)
    average = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        difference = tl.where(at < n, tl.load(x + at, mask=at < n, other=0.0) - average, 0.0)
        squares += difference * difference
    inverse = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, inverse)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        inside = at < n
        normal = (tl.load(x + at, mask=inside) - average) * inverse
        tl.store(out + at, normal * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside), mask=inside)
