"""A product of matrices by as many programs as are wanted, each of which computes tile after tile."""
import triton
import triton.language as tl


# cuda-streams: persistent(*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, BLOCK_M=64, BLOCK_N=32, BLOCK_K=32, num_warps=4, num_stages=4)
@triton.jit
def persistent(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    across = tl.cdiv(n, BLOCK_N)
    for tile in range(tl.program_id(0), tl.cdiv(m, BLOCK_M) * across, tl.num_programs(0)):
        rows = tile // across * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile % across * BLOCK_N + tl.arange(0, BLOCK_N)
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for begin in range(0, k, BLOCK_K):
            along = begin + tl.arange(0, BLOCK_K)
            a_mask = (rows[:, None] < m) & (along[None, :] < k)
            b_mask = (along[:, None] < k) & (columns[None, :] < n)
            a_tile = tl.load(a + rows[:, None] * k + along[None, :], mask=a_mask, other=0.0)
            b_tile = tl.load(b + along[:, None] * n + columns[None, :], mask=b_mask, other=0.0)
            sums = tl.dot(a_tile, b_tile, sums)
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        tl.store(c + rows[:, None] * n + columns[None, :], sums.to(tl.float16), mask=inside)
