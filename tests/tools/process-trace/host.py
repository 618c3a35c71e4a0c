"""What the host does with page-locked memory while a copy is pending, of PyTorch, CuPy and numpy: `python host.py racy|right [names]`."""
import ctypes
import os
import socket
import sys
import tempfile
import threading

import cupy
import cupyx
import numpy as np
import torch

RIGHT = sys.argv[1] == 'right'
N = 1 << 20
device = torch.device('cuda')
side = torch.cuda.Stream()
runtime = ctypes.CDLL('libcudart.so.13' if torch.version.cuda.startswith('13') else 'libcudart.so.12')


def busy(stream=None):
    """Work that holds a stream up for milliseconds, so that what is queued behind it is pending."""
    with torch.cuda.stream(stream or torch.cuda.current_stream()):
        torch.cuda._sleep(20_000_000)


def wait(stream=None):
    if RIGHT:
        (stream or torch.cuda.current_stream()).synchronize()


def raw(to, source, size, kind, stream):
    assert runtime.cudaMemcpyAsync(ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), kind, ctypes.c_void_p(stream)) == 0


def kept_view():
    host = torch.ones(N, pin_memory=True)
    view = host.numpy()
    busy()
    x = host.to(device, non_blocking=True)
    wait()
    view[:] = 2
    return x


def ring():
    slots = [torch.ones(N, pin_memory=True) for _ in range(2)]
    outputs = []
    for step in range(4):
        slot = slots[step % 2]
        if step >= 2:
            wait()
        slot.numpy().fill(step)
        busy()
        outputs.append(slot.to(device, non_blocking=True))
    return outputs


def freed_tensor():
    x = torch.empty(N, device=device)
    host = torch.ones(N, pin_memory=True)
    busy(side)
    raw(x.data_ptr(), host.data_ptr(), 4 * N, 1, side.cuda_stream)
    wait(side)
    del host
    other = torch.empty(N, pin_memory=True)
    other.fill_(3)
    return x, other


def numpy_out():
    host = torch.ones(N, pin_memory=True)
    a = np.arange(N, dtype=np.float32)
    busy()
    x = host.to(device, non_blocking=True)
    wait()
    np.multiply(a, 2, out=host.numpy())
    return x


def early_sum():
    y = torch.ones(N, device=device)
    host = torch.empty(N, pin_memory=True)
    busy()
    host.copy_(y, non_blocking=True)
    wait()
    return host.numpy().sum()


def early_list():
    y = torch.ones(1024, device=device)
    busy()
    host = y.to('cpu', non_blocking=True) if RIGHT else torch.empty(1024, pin_memory=True).copy_(y, non_blocking=True)
    wait()
    return host[:8].tolist()


def asynchronous_save():
    y = torch.ones(N, device=device)
    host = torch.empty(N, pin_memory=True)
    busy()
    host.copy_(y, non_blocking=True)
    wait()
    with tempfile.TemporaryFile() as file:
        os.write(file.fileno(), memoryview(host.numpy()))


def read_file():
    host = torch.ones(N, pin_memory=True)
    with open('/dev/zero', 'rb', buffering=0) as file:
        busy()
        x = host.to(device, non_blocking=True)
        wait()
        file.readinto(memoryview(host.numpy()))
    return x


def from_socket():
    host = torch.ones(N, pin_memory=True)
    one, two = socket.socketpair()
    one.send(b'x' * 1000)
    busy()
    x = host.to(device, non_blocking=True)
    wait()
    two.recv_into(memoryview(host.numpy()), 1000)
    return x


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((N // 4,), float(index))


def data_loader():
    outputs = []
    for batch in torch.utils.data.DataLoader(Numbers(), batch_size=4, pin_memory=True):
        busy()
        outputs.append(batch.to(device, non_blocking=True))
        wait()
        batch.mul_(0.5)
    return outputs


def copy_of_tensor():
    host, other = torch.ones(N, pin_memory=True), torch.zeros(N)
    busy()
    x = host.to(device, non_blocking=True)
    wait()
    host.copy_(other)
    return x


def other_thread():
    host = torch.ones(N, pin_memory=True)
    busy()
    x = host.to(device, non_blocking=True)
    wait()
    worker = threading.Thread(target=lambda: host.zero_())
    worker.start()
    worker.join()
    return x


def last_row():
    host = torch.ones(1024, 1024, pin_memory=True)
    busy()
    x = host[1000:].to(device, non_blocking=True)
    host[:999] = 5
    wait()
    host[1023] = 5
    return x


def offload():
    gradient = torch.ones(N, device=device)
    host, master = torch.empty(N, pin_memory=True), torch.zeros(N)
    busy(side)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        host.copy_(gradient, non_blocking=True)
    gradient.record_stream(side)
    wait(side)
    master.add_(host)
    return master


def pinned_array(shape, dtype=np.float32):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(size), dtype, int(np.prod(shape))).reshape(shape)


def cupy_set():
    host, stream = pinned_array((N,)), cupy.cuda.Stream(non_blocking=True)
    host[:] = 1
    x = cupy.empty(N, np.float32)
    busy(torch.cuda.ExternalStream(stream.ptr))
    x.set(host, stream)
    if RIGHT:
        stream.synchronize()
    host += 1
    return x, stream


def cupy_get():
    stream = cupy.cuda.Stream(non_blocking=True)
    x, host = cupy.ones(N, np.float32), pinned_array((N,))
    cupy.cuda.Device().synchronize()
    busy(torch.cuda.ExternalStream(stream.ptr))
    x.get(stream, out=host, blocking=False)
    if RIGHT:
        stream.synchronize()
    return float(host[5]), stream


def cupy_raw():
    host, stream = pinned_array((N,)), cupy.cuda.Stream(non_blocking=True)
    host[:] = 1
    x = cupy.empty(N, np.float32)
    busy(torch.cuda.ExternalStream(stream.ptr))
    cupy.cuda.runtime.memcpyAsync(x.data.ptr, host.ctypes.data, x.nbytes, 1, stream.ptr)
    if RIGHT:
        stream.record().synchronize()
    host[N - 1] = 7
    return x, stream


def registered():
    host, x = np.ones(N, np.float32), cupy.empty(N, np.float32)
    cupy.cuda.runtime.hostRegister(host.ctypes.data, host.nbytes, 0)
    stream = cupy.cuda.Stream(non_blocking=True)
    busy(torch.cuda.ExternalStream(stream.ptr))
    cupy.cuda.runtime.memcpyAsync(x.data.ptr, host.ctypes.data, x.nbytes, 1, stream.ptr)
    if RIGHT:
        stream.synchronize()
    host.sort()
    host[::2] = 3
    stream.synchronize()
    cupy.cuda.runtime.hostUnregister(host.ctypes.data)
    return x


def cupyx_zeros():
    host, stream = cupyx.zeros_pinned((N,), np.float32), cupy.cuda.Stream(non_blocking=True)
    x = cupy.empty(N, np.float32)
    busy(torch.cuda.ExternalStream(stream.ptr))
    x.set(host, stream)
    if RIGHT:
        while not stream.done:
            pass
    host.fill(2)
    return x, stream


def rows():
    host, stream = pinned_array((64, 1024)), cupy.cuda.Stream(non_blocking=True)
    host[:] = 1
    x = cupy.empty((64, 512), np.float32)
    busy(torch.cuda.ExternalStream(stream.ptr))
    cupy.cuda.runtime.memcpy2DAsync(x.data.ptr, 2048, host.ctypes.data, 4096, 2048, 64, 1, stream.ptr)
    host[:, 512:] = 4
    if RIGHT:
        stream.synchronize()
    host[63, 511] = 4
    return x, stream


def batch():
    stream = cupy.cuda.Stream(non_blocking=True)
    blocks, x = [pinned_array((4096,)) for _ in range(8)], cupy.empty(8 * 4096, np.float32)
    for block in blocks:
        block[:] = 1
    busy(torch.cuda.ExternalStream(stream.ptr))
    count = len(blocks)
    to = (ctypes.c_void_p * count)(*[x.data.ptr + 16384 * at for at in range(count)])
    source = (ctypes.c_void_p * count)(*[block.ctypes.data for block in blocks])
    sizes, firsts = (ctypes.c_size_t * count)(*[16384] * count), (ctypes.c_size_t * 1)(0)
    attributes = (ctypes.c_uint32 * 6)(3 if not RIGHT else 1)
    driver = ctypes.CDLL('libcuda.so.1')
    assert driver.cuMemcpyBatchAsync_v2(to, source, sizes, ctypes.c_size_t(count), attributes, firsts, ctypes.c_size_t(1), ctypes.c_void_p(stream.ptr)) == 0
    if RIGHT:
        stream.synchronize()
    blocks[7][4095] = 2
    return x, stream


PROGRAMS = [
    kept_view, ring, freed_tensor, numpy_out, early_sum, early_list, asynchronous_save, read_file, from_socket, data_loader,
    copy_of_tensor, other_thread, last_row, offload, cupy_set, cupy_get, cupy_raw, registered, cupyx_zeros, rows, batch,
]
for program in PROGRAMS:
    if len(sys.argv) < 3 or program.__name__ in sys.argv[2:]:
        kept = program()
        torch.cuda.synchronize()
        del kept
