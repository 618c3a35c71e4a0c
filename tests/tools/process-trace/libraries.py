"""Programs of more libraries and more kinds of work, each with a missing wait, and the same with it: `python libraries.py racy|right [names]`."""
import sys
import traceback

import cupy
import torch

RIGHT = sys.argv[1] == 'right'
N = 1 << 20
device = torch.device('cuda')
side = torch.cuda.Stream()
main = torch.cuda.current_stream()
one, two = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)


def order(before, after):
    if RIGHT:
        event = cupy.cuda.Event()
        event.record(before)
        after.wait_event(event)


def rows():
    x, y = cupy.zeros((1024, 1024), dtype=cupy.float32), cupy.ones((1024, 512), dtype=cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    with two:
        y *= 3
    order(two, one)
    cupy.cuda.runtime.memcpy2DAsync(x.data.ptr, 4096, y.data.ptr, 2048, 2048, 1024, 3, one.ptr)
    return x, y


def rows_apart():
    x, y = cupy.zeros((1024, 1024), dtype=cupy.float32), cupy.ones((1024, 512), dtype=cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    cupy.cuda.runtime.memcpy2DAsync(x.data.ptr, 4096, y.data.ptr, 2048, 2048, 1024, 3, one.ptr)
    if not RIGHT:
        cupy.cuda.runtime.memcpy2DAsync(x.data.ptr + 1024, 4096, y.data.ptr, 2048, 2048, 1024, 3, two.ptr)
    # Beside the columns of the first.
    cupy.cuda.runtime.memcpy2DAsync(x.data.ptr + 3072, 4096, y.data.ptr, 1024, 1024, 1024, 3, two.ptr)
    return x, y


def managed():
    pool = cupy.cuda.malloc_managed(N * 4)
    x = cupy.ndarray(N, cupy.float32, pool)
    with one:
        x.fill(1)
    order(one, two)
    with two:
        y = x + 1
    return x, y


def triton_kernel():
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

    x, y = torch.ones(N, device=device), torch.empty(N, device=device)
    double[(N // 1024,)](x, y, N, BLOCK=1024)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        double[(N // 1024,)](x, y, N, BLOCK=1024)
    if RIGHT:
        main.wait_stream(side)
    return y + 1


def numba_kernel():
    import numpy
    numpy.row_stack = numpy.vstack
    from numba import cuda

    @cuda.jit('void(float32[:], float32[:])')
    def triple(x, y):
        at = cuda.grid(1)
        if at < y.size:
            y[at] = x[at] * 3

    x, y = cuda.device_array(N, dtype='float32'), cuda.device_array(N, dtype='float32')
    first, second = cuda.stream(), cuda.stream()
    triple[N // 256, 256, first](x, y)
    if RIGHT:
        event = cuda.event()
        event.record(first)
        event.wait(second)
    triple[N // 256, 256, second](y, x)
    return x, y


def convolution():
    net = torch.nn.Conv2d(8, 8, 3).cuda()
    x = torch.ones(8, 8, 64, 64, device=device)
    with torch.no_grad():
        net(x)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            x.mul_(2)
        if RIGHT:
            main.wait_stream(side)
        return net(x), x


def attention():
    q, k, v = (torch.ones(2, 8, 128, 64, device=device, dtype=torch.float16) for _ in range(3))
    torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        v.mul_(0.5)
    if RIGHT:
        main.wait_stream(side)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v), q, k, v


def fft():
    x = torch.ones(64, 1024, device=device, dtype=torch.complex64)
    torch.fft.fft(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        y = torch.fft.fft(x)
    if RIGHT:
        main.wait_stream(side)
    y.record_stream(main)
    return y * 2


def sort():
    x = torch.rand(N, device=device)
    torch.sort(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.mul_(2)
    if RIGHT:
        main.wait_stream(side)
    return torch.sort(x), x


PROGRAMS = [rows, rows_apart, managed, triton_kernel, numba_kernel, convolution, attention, fft, sort]
for program in PROGRAMS:
    if len(sys.argv) < 3 or program.__name__ in sys.argv[2:]:
        try:
            kept = program()
            torch.cuda.synchronize()
            del kept
            print('played', program.__name__, flush=True)
        except Exception:
            traceback.print_exc()
