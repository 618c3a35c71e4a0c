"""Programs of PyTorch and CuPy, each with a missing wait, and the same with it: `python programs.py racy|right [names]`."""
import queue
import sys
import threading

import cupy
import torch

RIGHT = sys.argv[1] == 'right'
N = 1 << 20
device = torch.device('cuda')
side = torch.cuda.Stream()
main = torch.cuda.current_stream()


def loader():
    host = torch.ones(N).pin_memory()
    with torch.cuda.stream(side):
        batch = host.to(device, non_blocking=True)
    if RIGHT:
        main.wait_stream(side)
    batch.record_stream(main)
    return batch * 2


def download():
    y = torch.ones(N, device=device) * 3
    host = torch.empty(N, pin_memory=True)
    if RIGHT:
        side.wait_stream(main)
    with torch.cuda.stream(side):
        host.copy_(y, non_blocking=True)
    y.record_stream(side)
    return host


def kernels():
    x = torch.ones(N, device=device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        x.mul_(2)
    if RIGHT:
        main.wait_stream(side)
    return x + 1


def fill():
    x = torch.ones(N, device=device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        x.zero_()
    if RIGHT:
        main.wait_stream(side)
    return x.sum()


def staging():
    host = torch.ones(N).pin_memory()
    y = torch.full((N,), 5.0, device=device)
    with torch.cuda.stream(side):
        x = torch.empty(N, device=device)
        x.copy_(host, non_blocking=True)
    if RIGHT:
        main.wait_stream(side)
    host.copy_(y, non_blocking=True)
    return x


def early_event():
    x = torch.ones(N, device=device)
    side.wait_stream(main)
    event = torch.cuda.Event()
    if not RIGHT:
        event.record(side)
    with torch.cuda.stream(side):
        x.add_(1)
    if RIGHT:
        event.record(side)
    main.wait_event(event)
    return x * 2


def wrong_stream():
    other = torch.cuda.Stream()
    x = torch.ones(N, device=device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        x.add_(1)
        event = side.record_event()
    (main if RIGHT else other).wait_event(event)
    return x * 2


def no_record_stream():
    x = torch.full((N,), 2.0, device=device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        y = x * 3
    if RIGHT:
        x.record_stream(side)
    del x
    z = torch.full((N,), 7.0, device=device)
    return y, z


def graph():
    static = torch.zeros(N, device=device)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = static * 2
    torch.cuda.synchronize()
    fresh = torch.ones(N).pin_memory()
    with torch.cuda.stream(side):
        static.copy_(fresh, non_blocking=True)
    if RIGHT:
        main.wait_stream(side)
    g.replay()
    return out


def thread():
    ready = queue.Queue()

    def load():
        own = torch.cuda.Stream()
        with torch.cuda.stream(own):
            batch = torch.ones(N).pin_memory().to(device, non_blocking=True)
            ready.put((batch, own.record_event()))

    loading = threading.Thread(target=load)
    loading.start()
    batch, event = ready.get()
    if RIGHT:
        main.wait_event(event)
    result = batch + 1
    loading.join()
    return result


def matmul():
    w = torch.ones(512, 512, device=device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        w.copy_(torch.zeros(512, 512).pin_memory(), non_blocking=True)
    if RIGHT:
        main.wait_stream(side)
    return w @ w


def host_wait():
    x = torch.ones(N, device=device)
    host = torch.empty(N, pin_memory=True)
    host.copy_(x, non_blocking=True)
    if RIGHT:
        main.synchronize()
    with torch.cuda.stream(side):
        x.zero_()
    return host


def cupy_kernels():
    one, two = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with one:
        x = cupy.ones(N, dtype=cupy.float32)
        x *= 2
    if RIGHT:
        two.wait_event(one.record())
    with two:
        y = x + 1
    cupy.cuda.runtime.deviceSynchronize()
    return y


RAW = cupy.RawModule(code='''
template <typename T> __global__ void scale(const T *in, T *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
extern "C" __global__ void set(float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1;
}''', name_expressions=['scale<float>'])


def cupy_raw():
    one, two = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x, y, z = (cupy.zeros(N, dtype=cupy.float32) for _ in range(3))
    cupy.cuda.runtime.deviceSynchronize()
    scale = RAW.get_function('scale<float>')
    scale((N // 256,), (256,), (x, y, N), stream=one)
    if RIGHT:
        two.wait_event(one.record())
    scale((N // 256,), (256,), (y, z, N), stream=two)
    cupy.cuda.runtime.deviceSynchronize()


def cupy_set():
    one, two = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x, host = cupy.zeros(N, dtype=cupy.float32), cupyx_pinned()
    cupy.cuda.runtime.deviceSynchronize()
    RAW.get_function('set')((N // 256,), (256,), (x, N), stream=one)
    if RIGHT:
        two.wait_event(one.record())
    x.get(stream=two, out=host, blocking=False)
    cupy.cuda.runtime.deviceSynchronize()


def cupyx_pinned():
    import cupyx

    return cupyx.empty_pinned(N, dtype=cupy.float32)


def cupy_memset():
    one, two = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x = cupy.ones(N, dtype=cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    with one:
        y = x * 3
    if RIGHT:
        two.wait_event(one.record())
    x.data.memset_async(0, N * 4, two)
    cupy.cuda.runtime.deviceSynchronize()
    return y


def torch_to_cupy():
    own = cupy.cuda.Stream(non_blocking=True)
    x = torch.ones(N, device=device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        x.mul_(4)
    if RIGHT:
        torch.cuda.ExternalStream(own.ptr).wait_stream(side)
    with own:
        y = cupy.asarray(x) + 1
    cupy.cuda.runtime.deviceSynchronize()
    return y


def cupy_to_torch():
    own = cupy.cuda.Stream(non_blocking=True)
    x = torch.zeros(N, device=device)
    torch.cuda.synchronize()
    with own:
        view = cupy.asarray(x)
        view += 2
    if RIGHT:
        side.wait_stream(torch.cuda.ExternalStream(own.ptr))
    with torch.cuda.stream(side):
        y = x * 2
    cupy.cuda.runtime.deviceSynchronize()
    return y


def backward():
    w = torch.ones(N, device=device, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    if RIGHT:
        side.wait_stream(main)
    with torch.cuda.stream(side), torch.no_grad():
        step = w.grad * 0.1
    return step


def two_copies():
    # Made before: a query by which the allocator of pinned memory looks for free memory may order the two by chance.
    x, ones, zeros = torch.empty(N, device=device), torch.ones(N).pin_memory(), torch.zeros(N).pin_memory()
    torch.cuda.synchronize()
    x.copy_(ones, non_blocking=True)
    if RIGHT:
        side.wait_stream(main)
    with torch.cuda.stream(side):
        x.copy_(zeros, non_blocking=True)
    return x, ones, zeros


PROGRAMS = [
    loader, download, kernels, fill, staging, early_event, wrong_stream, no_record_stream, graph, thread, matmul, host_wait,
    cupy_kernels, cupy_raw, cupy_set, cupy_memset, torch_to_cupy, cupy_to_torch, backward, two_copies,
]
for program in PROGRAMS:
    if len(sys.argv) < 3 or program.__name__ in sys.argv[2:]:
        kept = program()
        torch.cuda.synchronize()
        del kept
