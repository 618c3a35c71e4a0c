"""The forward pass of attention in one kernel, as flash attention computes it: no matrix of scores is stored."""
import triton
import triton.language as tl


@triton.jit
def scores_of(query, key, scale):
    return tl.dot(query, tl.trans(key)) * scale


# cuda-streams: attention(*fp16, *fp16, *fp16, *fp32, scale: fp32, length: i32, WIDTH=32, BLOCK_M=32, BLOCK_N=32, num_warps=4)
@triton.jit
def attention(q, k, v, out, scale, length, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head = tl.program_id(1) * length * WIDTH
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    width = tl.arange(0, WIDTH)
    query = tl.load(q + head + rows[:, None] * WIDTH + width[None, :], mask=rows[:, None] < length, other=0.0)
    most = tl.full([BLOCK_M], -float('inf'), dtype=tl.float32)
    weight = tl.zeros([BLOCK_M], dtype=tl.float32)
    sums = tl.zeros([BLOCK_M, WIDTH], dtype=tl.float32)
    for begin in range(0, length, BLOCK_N):
        columns = begin + tl.arange(0, BLOCK_N)
        at = head + columns[:, None] * WIDTH + width[None, :]
        key = tl.load(k + at, mask=columns[:, None] < length, other=0.0)
        value = tl.load(v + at, mask=columns[:, None] < length, other=0.0)
        scores = tl.where(columns[None, :] < length, scores_of(query, key, scale), -float('inf'))
        now = tl.maximum(most, tl.max(scores, 1))
        powers = tl.exp2((scores - now[:, None]) * 1.44269504)
        shrink = tl.exp2((most - now) * 1.44269504)
        weight = weight * shrink + tl.sum(powers, 1)
        sums = tl.dot(powers.to(tl.float16), value, sums * shrink[:, None])
        most = now
    tl.store(out + head + rows[:, None] * WIDTH + width[None, :], sums / weight[:, None], mask=rows[:, None] < length)
