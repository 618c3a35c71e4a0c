"""Products of matrices on tensor cores: of f16, of f32 in tf32, and of two kinds of fp8."""
import triton
import triton.language as tl


def configurations():
    return [
        triton.Config({'BLOCK_M': m, 'BLOCK_N': n, 'BLOCK_K': 32}, num_warps=warps, num_stages=3)
        for m, n, warps in [(32, 32, 4), (64, 32, 4), (16, 64, 2)]
    ]


# cuda-streams: matmul_f16 = matmul(*fp16, *fp16, *fp32, i32, i32, i32, i32, stride_ak: i32:1, i32, stride_bn: i32:1, i32, configs=all)
# cuda-streams: matmul_tf32 = matmul(*fp32, *fp32, *fp32, i32, i32, i32, i32, stride_ak: i32:1, i32, stride_bn: i32:1, i32)
# cuda-streams: matmul_e5m2 = matmul(*fp8e5, *fp8e5, *fp32, i32, i32, i32, i32, stride_ak: i32:1, i32, stride_bn: i32:1, i32)
# cuda-streams: matmul_e4m3 = matmul(*fp8e4nv, *fp8e4nv, *fp32, i32, i32, i32, i32, stride_ak: i32:1, i32, stride_bn: i32:1, i32, arch=89)
@triton.autotune(configs=configurations(), key=['m', 'n', 'k'])
@triton.jit
def matmul(
    a, b, c, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    a_at = a + rows[:, None] * stride_am + along[None, :] * stride_ak
    b_at = b + along[:, None] * stride_bk + columns[None, :] * stride_bn
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, k, BLOCK_K):
        left = k - begin
        a_tile = tl.load(a_at, mask=(rows[:, None] < m) & (along[None, :] < left), other=0.0)
        b_tile = tl.load(b_at, mask=(along[:, None] < left) & (columns[None, :] < n), other=0.0)
        sums = tl.dot(a_tile, b_tile, sums)
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * stride_cm + columns[None, :], sums, mask=inside)
