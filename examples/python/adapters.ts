/**
 * The Python half of the exchanges: for each library a class with the same methods, which are those of library.ts. Each
 * is what a user of that library would write; importing it is the first thing its constructor does.
 */

export const ADAPTERS = `
import os, struct, sys, traceback, warnings

class Offered:
    """Memory of another owner, as the CUDA Array Interface (version 3) hands it over."""
    def __init__(self, pointer, count, stream):
        self.pointer, self.count, self.stream = pointer, count, stream
    @property
    def __cuda_array_interface__(self):
        # 'stream' is None where there is nothing to wait for; 0 is not allowed, 1 is the legacy null stream.
        return {'version': 3, 'shape': (self.count,), 'typestr': '<i4', 'data': (self.pointer, False),
                'strides': None, 'stream': self.stream}

# Wrappers that must never be collected while the stream lives that they wrap.
_kept = []

def described(array):
    told = array.__cuda_array_interface__
    return {'pointer': told['data'][0], 'stream': told.get('stream')}

class Torch:
    abilities = ['computes']
    def __init__(self, count, ordinal):
        import torch
        if not torch.cuda.is_available():
            raise ImportError('torch ' + torch.__version__ + ' sees no GPU')
        self.torch, self.count, self.device = torch, count, torch.device('cuda', ordinal)
        torch.cuda.set_device(self.device)
        self.name = 'PyTorch ' + torch.__version__
        self.stream = torch.cuda.Stream(self.device)
        self.mine = torch.zeros(count, dtype=torch.int32, device=self.device)
        self.result = torch.zeros_like(self.mine)
        torch.cuda.synchronize(self.device)
    def handle(self):
        return self.stream.cuda_stream
    def pointers(self):
        return [self.mine.data_ptr(), self.result.data_ptr()]
    def fill(self, value):
        with self.torch.cuda.stream(self.stream):
            self.mine.fill_(value)
    def read_mine(self):
        with self.torch.cuda.stream(self.stream):
            self.result.copy_(self.mine)
    def record(self):
        self.event = self.stream.record_event()
        return self.event.cuda_event
    def array_interface(self):
        return described(self.mine)
    def wrap_stream(self, handle):
        self.wrapped = self.torch.cuda.ExternalStream(handle, device=self.device)
    def wait_for_wrapped(self):
        self.stream.wait_stream(self.wrapped)
    def wrap_memory(self, pointer, stream):
        self.theirs = self.torch.as_tensor(Offered(pointer, self.count, stream), device=self.device)
        assert self.theirs.data_ptr() == pointer, 'torch.as_tensor made a copy'
    def read_theirs(self):
        with self.torch.cuda.stream(self.stream):
            self.result.copy_(self.theirs)
    def fill_theirs_on_wrapped(self, value):
        with self.torch.cuda.stream(self.wrapped):
            self.theirs.fill_(value)
    def transform(self, value, length):
        with self.torch.cuda.stream(self.stream):
            self.theirs[:length].mul_(3).add_(value)

class Cupy:
    abilities = ['computes', 'wraps by protocol', 'waits for events', 'names its stream', 'heeds our stream']
    def __init__(self, count, ordinal):
        import cupy
        self.cupy, self.count, self.device = cupy, count, cupy.cuda.Device(ordinal)
        self.device.use()
        self.name = 'CuPy ' + cupy.__version__
        self.abilities = list(Cupy.abilities)
        if not hasattr(cupy.cuda.Stream, 'from_external'):
            self.abilities.remove('wraps by protocol')
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.mine = cupy.zeros(count, dtype=cupy.int32)
        self.result = cupy.zeros(count, dtype=cupy.int32)
        self.device.synchronize()
    def handle(self):
        return self.stream.ptr
    def pointers(self):
        return [self.mine.data.ptr, self.result.data.ptr]
    def fill(self, value):
        with self.stream:
            self.mine.fill(value)
    def read_mine(self):
        with self.stream:
            self.cupy.copyto(self.result, self.mine)
    def record(self):
        self.event = self.stream.record()
        return self.event.ptr
    def wait_for_event(self, handle):
        self.cupy.cuda.runtime.streamWaitEvent(self.stream.ptr, handle)
    def array_interface(self):
        # CuPy names the stream that is current.
        with self.stream:
            return described(self.mine)
    def wrap_stream(self, handle):
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', DeprecationWarning)
            self.wrapped = self.cupy.cuda.ExternalStream(handle, self.device.id)
    def wrap_stream_object(self, stream):
        self.wrapped = self.cupy.cuda.Stream.from_external(stream)
        _kept.append(self.wrapped)
    def wait_for_wrapped(self):
        self.stream.wait_event(self.wrapped.record())
    def wrap_memory(self, pointer, stream):
        self.theirs = self.cupy.asarray(Offered(pointer, self.count, stream))
        assert self.theirs.data.ptr == pointer, 'cupy.asarray made a copy'
    def read_theirs(self):
        with self.stream:
            self.cupy.copyto(self.result, self.theirs)
    def fill_theirs_on_wrapped(self, value):
        with self.wrapped:
            self.theirs.fill(value)
    def transform(self, value, length):
        with self.stream:
            part = self.theirs[:length]
            part *= 3
            part += value

class CudaCore:
    abilities = ['wraps by protocol', 'heeds our stream']
    def __init__(self, count, ordinal):
        import cuda.core
        core = cuda.core
        if not hasattr(core, 'Device'):  # before 1.0
            import cuda.core.experimental as core
        self.core, self.count = core, count
        self.name = 'cuda.core ' + cuda.core.__version__
        self.device = core.Device(ordinal)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.mine = self.device.allocate(4 * count, stream=self.stream)
        self.result = self.device.allocate(4 * count, stream=self.stream)
        self.stream.sync()
    def handle(self):
        return int(self.stream.handle)
    def pointers(self):
        return [int(self.mine.handle), int(self.result.handle)]
    def fill(self, value):
        self.mine.fill(struct.pack('<i', value), stream=self.stream)
    def read_mine(self):
        self.result.copy_from(self.mine, stream=self.stream)
    def record(self):
        self.event = self.stream.record()
        return int(self.event.handle)
    def array_interface(self):
        return {'pointer': int(self.mine.handle), 'stream': None}
    def wrap_stream(self, handle):
        self.wrapped = self.core.Stream.from_handle(handle)
    def wrap_stream_object(self, stream):
        self.wrapped = self.device.create_stream(stream)
    def wait_for_wrapped(self):
        self.stream.wait(self.wrapped)
    def wrap_memory(self, pointer, stream):
        try:
            from cuda.core.utils import StridedMemoryView
        except ImportError:
            from cuda.core.experimental.utils import StridedMemoryView
        view = getattr(StridedMemoryView, 'from_cuda_array_interface', StridedMemoryView)
        # Its own stream is made to wait for the one that the memory names; the host does not wait.
        self.view = view(Offered(pointer, self.count, stream), stream_ptr=self.handle())
        assert self.view.ptr == pointer, 'StridedMemoryView has another address'
        self.theirs = self.core.Buffer.from_handle(self.view.ptr, 4 * self.count, owner=self.view)
    def read_theirs(self):
        self.result.copy_from(self.theirs, stream=self.stream)
    def fill_theirs_on_wrapped(self, value):
        self.theirs.fill(struct.pack('<i', value), stream=self.wrapped)
    def copy_part(self, part, length):
        source, target = (self.core.Buffer.from_handle(self.view.ptr + 4 * length * at, 4 * length, owner=self.view)
                          for at in (part, part + 1))
        target.copy_from(source, stream=self.stream)

class Numba:
    abilities = ['names its stream', 'heeds our stream']
    def __init__(self, count, ordinal):
        import numpy
        if not hasattr(numpy, 'row_stack'):
            numpy.row_stack = numpy.vstack  # gone from NumPy, and still looked for by Numba
        os.environ.setdefault('NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS', '0')
        try:
            import numba
            from numba import cuda
            cuda.select_device(ordinal)
        except Exception as error:
            raise ImportError('Numba does not start CUDA here') from error
        self.cuda, self.count, self.name = cuda, count, 'Numba ' + numba.__version__
        self.abilities = list(Numba.abilities)
        self.stream = cuda.stream()
        self.mine = cuda.device_array(count, numpy.int32, stream=self.stream)
        self.result = cuda.device_array(count, numpy.int32, stream=self.stream)
        self.source = cuda.pinned_array(count, numpy.int32)
        try:
            self.compile()
            self.abilities.append('computes')
        except Exception:
            print(self.name + ' compiles no kernels here:')
            traceback.print_exc(file=sys.stdout)
    def compile(self):
        cuda = self.cuda
        @cuda.jit
        def kernel(array, value, length):
            at = cuda.grid(1)
            if at < length:
                array[at] = array[at] * 3 + value
        kernel[1, 256, self.stream](self.mine, 1, 256)
        self.stream.synchronize()
        self.kernel = kernel
    def address(self, handle):
        # A ctypes pointer or an object of cuda.bindings, by version.
        return int(getattr(handle, 'value', handle) or 0)
    def handle(self):
        return self.address(self.stream.handle)
    def pointers(self):
        return [array.__cuda_array_interface__['data'][0] for array in (self.mine, self.result)]
    def fill(self, value):
        # From pinned memory, so that the host does not wait; it must not be filled again before the copy is done.
        self.source[:] = value
        self.mine.copy_to_device(self.source, stream=self.stream)
    def read_mine(self):
        self.result.copy_to_device(self.mine, stream=self.stream)
    def record(self):
        self.event = self.cuda.event(timing=False)
        self.event.record(self.stream)
        return self.address(self.event.handle)
    def array_interface(self):
        return described(self.mine)
    def wrap_stream(self, handle):
        self.wrapped = self.cuda.external_stream(handle)
    def wait_for_wrapped(self):
        event = self.cuda.event(timing=False)
        event.record(self.wrapped)
        event.wait(self.stream)
        self.event = event
    def wrap_memory(self, pointer, stream):
        self.theirs = self.cuda.as_cuda_array(Offered(pointer, self.count, stream))
    def read_theirs(self):
        self.result.copy_to_device(self.theirs, stream=self.stream)
    def fill_theirs_on_wrapped(self, value):
        self.source[:] = value
        self.theirs.copy_to_device(self.source, stream=self.wrapped)
    def transform(self, value, length):
        self.kernel[(length + 255) // 256, 256, self.stream](self.theirs, value, length)
    def copy_part(self, part, length):
        source, target = (self.theirs[length * at:length * (at + 1)] for at in (part, part + 1))
        target.copy_to_device(source, stream=self.stream)

class Warp:
    abilities = ['waits for events', 'captures']
    def __init__(self, count, ordinal):
        import warp
        warp.init()
        self.warp, self.count, self.device = warp, count, warp.get_device('cuda:%d' % ordinal)
        self.name = 'Warp ' + warp.__version__
        self.stream = warp.Stream(self.device)
        self.mine = warp.zeros(count, dtype=warp.int32, device=self.device)
        self.result = warp.zeros(count, dtype=warp.int32, device=self.device)
        warp.synchronize_device(self.device)
    def on(self, stream):
        # Without sync_enter=False the stream would be made to wait for the one that is current.
        return self.warp.ScopedStream(stream, sync_enter=False)
    def handle(self):
        return self.stream.cuda_stream
    def pointers(self):
        return [self.mine.ptr, self.result.ptr]
    def fill(self, value):
        with self.on(self.stream):
            self.mine.fill_(value)
    def read_mine(self):
        self.warp.copy(self.result, self.mine, stream=self.stream)
    def record(self):
        self.event = self.stream.record_event()
        return self.event.cuda_event
    def wait_for_event(self, handle):
        self.stream.wait_event(self.warp.Event(self.device, cuda_event=handle))
    def array_interface(self):
        return described(self.mine)
    def wrap_stream(self, handle):
        self.wrapped = self.warp.Stream(self.device, cuda_stream=handle)
    def wait_for_wrapped(self):
        self.stream.wait_stream(self.wrapped)
    def wrap_memory(self, pointer, stream):
        self.theirs = self.warp.array(ptr=pointer, shape=(self.count,), dtype=self.warp.int32, device=self.device)
    def read_theirs(self):
        self.warp.copy(self.result, self.theirs, stream=self.stream)
    def fill_theirs_on_wrapped(self, value):
        with self.on(self.wrapped):
            self.theirs.fill_(value)
    def capture_fill(self, value, ours):
        with self.warp.ScopedCapture(stream=self.stream) as capture:
            with self.on(self.stream):
                (self.theirs if ours else self.mine).fill_(value)
        self.graph = capture.graph
        self.launch_captured(False)
    def launch_captured(self, on_wrapped):
        self.warp.capture_launch(self.graph, stream=self.wrapped if on_wrapped else self.stream)
    def copy_part(self, part, length):
        self.warp.copy(self.theirs, self.theirs, dest_offset=length * (part + 1), src_offset=length * part,
                       count=length, stream=self.stream)
`
