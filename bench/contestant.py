"""One Python GPU library, timed through its public methods.

    python3 contestant.py cupy|torch|cuda.core|numba LIBCUDA PTX

Prints "ready VERSION KEY..." once (or "left-out WHY"), then answers each line "run KEY CALLS" with "ns PER_CALL" or
"fail WHY", and leaves when stdin closes. bench/contestants.ts is the other end of the line. A call that a library has
not is a row that it does not name: nothing is composed for it.
"""

import ctypes
import gc
import itertools
import os
import sys
import timeit
import warnings

NON_BLOCKING = 1
COPY_BYTES = 256 * 1024 * 1024


class Bench:
    """What one library brings: the names its statements use, the statements, and how to let queued work finish."""

    def __init__(self, version, names, whole_device, statements):
        self.version = version
        self.names = {**names, 'gc': gc}
        self.statements = statements
        self.whole_device = whole_device

    def add(self, key, statement, prepare):
        """Adds a row that not every version of the library can do: `prepare` gives its names, or raises."""
        try:
            names = {**self.names, **prepare()}
            exec(statement, names)
        except Exception as error:  # whatever the library raises, its other rows stand
            print(f'{key}: {describe(error)}', file=sys.stderr)
        else:
            self.names = names
            self.statements[key] = statement

    def drain(self):
        """Every contestant ends a row this way, untimed: a context with anything unacknowledged answers slowly."""
        exec(self.whole_device, self.names)

    def run(self, key, calls):
        # timeit switches the garbage collector off; a user's program runs with it, and so does Node's.
        setup = 'gc.enable(); hold()' if key.endswith('-busy') else 'gc.enable()'
        timer = timeit.Timer(self.statements[key], setup, globals=self.names)
        self.time(timer, key, calls // 4 + 1)
        return self.time(timer, key, calls) / calls * 1e9

    def time(self, timer, key, calls):
        try:
            seconds = timer.timeit(calls)
            if key.endswith('-busy') and eval(self.statements[key], self.names):
                raise RuntimeError('the stream was not held')
        finally:
            if key.endswith('-busy'):
                self.names['release']()
        self.drain()
        return seconds

    def add_busy(self, libcuda, open_held, statements):
        """Queries that are not done, behind a stream of the library's own that is held: it, its handle, an event, and
        how to record that."""

        def prepare():
            held, handle, held_event, record = open_held()
            gate = Gate(libcuda)

            def hold():
                gate.hold(handle)
                record()

            return dict(held=held, held_event=held_event, hold=hold, release=gate.release)

        for key, statement in statements.items():
            self.add(key, statement, prepare)


class Gate:
    """Holds a stream at a word of pinned memory."""

    def __init__(self, libcuda):
        pointer = ctypes.c_void_p()
        self.library = ctypes.CDLL(libcuda)
        if self.library.cuMemHostAlloc(ctypes.byref(pointer), ctypes.c_size_t(4), 3) != 0 or pointer.value is None:
            raise RuntimeError('no pinned memory')
        self.word = ctypes.c_uint32.from_address(pointer.value)
        self.word.value = self.turn = 0

    def hold(self, handle):
        self.turn += 1
        address = ctypes.c_uint64(ctypes.addressof(self.word))
        result = self.library.cuStreamWaitValue32_v2(ctypes.c_void_p(handle), address, ctypes.c_uint32(self.turn), 0)
        if result != 0:
            raise RuntimeError(f'cuStreamWaitValue32 gave {result}')

    def release(self):
        self.word.value = self.turn


def describe(error):
    return f'{type(error).__name__}: {error}'.splitlines()[0][:160]


def foreign_stream(libcuda):
    """A stream that the library under test knows nothing of. Needs its context to be current on this thread."""
    handle = ctypes.c_void_p()
    result = ctypes.CDLL(libcuda).cuStreamCreate(ctypes.byref(handle), NON_BLOCKING)
    if result != 0 or handle.value is None:
        raise RuntimeError(f'cuStreamCreate gave {result}')
    return handle.value


def ignore(*_arguments):
    """The host function of every library."""


def open_cupy(libcuda, ptx):
    import cupy
    from cupy.cuda import Event, ExternalStream, Stream

    cupy.cuda.Device(0).use()
    cupy.zeros(1)
    stream, other = Stream(non_blocking=True), Stream(non_blocking=True)
    event, elsewhere = Event(disable_timing=True), Event(disable_timing=True)
    stream.record(event)
    other.record(elsewhere)
    names = dict(Event=Event, ExternalStream=ExternalStream, Stream=Stream, stream=stream, other=other, event=event,
                 elsewhere=elsewhere, foreign=foreign_stream(libcuda), ignore=ignore)
    bench = Bench(cupy.__version__, {**names, 'cupy': cupy}, 'cupy.cuda.Device().synchronize()', {
        'record': 'stream.record(event)',
        'record-new': 'stream.record(Event(disable_timing=True))',
        'wait-event': 'stream.wait_event(elsewhere)',
        'stream-query': 'stream.done',
        'event-query': 'event.done',
        'synchronize-idle': 'stream.synchronize()',
        'wrap': 'ExternalStream(foreign)',
        'event-create': 'Event(disable_timing=True)',
        'stream-create': 'Stream(non_blocking=True)',
        'host-function': 'stream.launch_host_func(ignore, None); stream.synchronize()',
    })
    bench.add('priority', 'stream.priority', dict)

    def kernel():
        stream.use()
        return {'empty': cupy.RawModule(path=ptx).get_function('empty')}

    bench.add('launch-synchronize', 'empty((1,), (1,), ()); stream.synchronize()', kernel)

    def four():
        import numpy

        return {'four': cupy.RawModule(path=ptx).get_function('four'), 'array': cupy.zeros(16, dtype='float32'),
                'c': numpy.float32(1), 'd': numpy.uint32(1)}

    bench.add('launch-four', 'four((1,), (1,), (array, array, c, d))', four)

    def open_held():
        held, held_event = Stream(non_blocking=True), Event(disable_timing=True)
        return held, held.ptr, held_event, lambda: held.record(held_event)

    bench.add_busy(libcuda, open_held, {'stream-query-busy': 'held.done', 'event-query-busy': 'held_event.done'})
    return bench


def open_torch(libcuda, _ptx):
    import torch
    from torch.cuda import Event, ExternalStream, Stream

    torch.zeros(1, device='cuda:0')
    stream, other = Stream(), Stream()
    event, elsewhere = Event(), Event()
    stream.record_event(event)
    other.record_event(elsewhere)
    names = dict(ExternalStream=ExternalStream, stream=stream, other=other, event=event, elsewhere=elsewhere,
                 foreign=foreign_stream(libcuda))
    def large(**more):
        return torch.ones(COPY_BYTES, dtype=torch.uint8, **more)

    torch.cuda.set_stream(stream)
    names.update(large=large(device='cuda:0'), pinned=large(pin_memory=True), ordinary=large())
    # No create rows: Stream() comes from a pool, and Event() makes its CUDA event at the first record.
    bench = Bench(torch.__version__, {**names, 'torch': torch}, 'torch.cuda.synchronize()', {
        'record': 'stream.record_event(event)',
        'record-new': 'stream.record_event()',
        'wait-event': 'stream.wait_event(elsewhere)',
        'wait-stream': 'stream.wait_stream(other)',
        'stream-query': 'stream.query()',
        'event-query': 'event.query()',
        'synchronize-idle': 'stream.synchronize()',
        'priority': 'stream.priority',
        'wrap': 'ExternalStream(foreign)',
        'copy-in': 'large.copy_(pinned, non_blocking=True); stream.synchronize()',
        'copy-out': 'pinned.copy_(large, non_blocking=True); stream.synchronize()',
        'upload': 'large.copy_(ordinary); stream.synchronize()',
        'download': 'large.cpu()',
        'download-into': 'ordinary.copy_(large)',
    })

    def sixteen():
        return {'streams': itertools.cycle([Stream() for _ in range(16)])}

    allocate = 'with torch.cuda.stream(next(streams)): torch.empty(4096, device="cuda:0")'
    bench.add('allocate', allocate, sixteen)

    def open_held():
        held, held_event = Stream(), Event()
        return held, held.cuda_stream, held_event, lambda: held.record_event(held_event)

    bench.add_busy(libcuda, open_held, {'stream-query-busy': 'held.query()', 'event-query-busy': 'held_event.query()'})
    return bench


def open_cuda_core(libcuda, ptx):
    import cuda.core as core

    if not hasattr(core, 'Device'):
        import cuda.core.experimental as core

    device = core.Device(0)
    device.set_current()
    stream, other = device.create_stream(), device.create_stream()
    event, elsewhere = stream.record(), other.record()
    names = dict(Stream=core.Stream, device=device, stream=stream, other=other, event=event, elsewhere=elsewhere,
                 foreign=foreign_stream(libcuda))
    # Events are made without timing unless EventOptions ask for it.
    bench = Bench(getattr(core, '__version__', 'experimental'), names, 'device.sync()', {
        'record': 'stream.record(event)',
        'record-new': 'stream.record()',
        'wait-event': 'stream.wait(elsewhere)',
        'wait-stream': 'stream.wait(other)',
        'event-query': 'event.is_done',
        'synchronize-idle': 'stream.sync()',
        'priority': 'stream.priority',
        'wrap': 'Stream.from_handle(foreign)',
        'stream-create': 'device.create_stream()',
    })
    bench.add('event-create', 'device.create_event()', dict)

    def kernel():
        with open(ptx, 'rb') as file:
            code = core.ObjectCode.from_ptx(file.read())
        return dict(launch=core.launch, config=core.LaunchConfig(grid=1, block=1), empty=code.get_kernel('empty'))

    bench.add('launch-synchronize', 'launch(stream, config, empty); stream.sync()', kernel)

    def four():
        import ctypes

        with open(ptx, 'rb') as file:
            code = core.ObjectCode.from_ptx(file.read())
        return {'four': code.get_kernel('four'), 'c': ctypes.c_float(1), 'd': ctypes.c_uint32(1)}

    bench.add('launch-four', 'launch(stream, config, four, 0, 0, c, d)', four)

    def open_held():
        held = device.create_stream()
        held_event = held.record()
        return held, int(held.handle), held_event, lambda: held.record(held_event)

    bench.add_busy(libcuda, open_held, {'event-query-busy': 'held_event.is_done'})
    return bench


def open_numba(libcuda, _ptx):
    import numpy

    if not hasattr(numpy, 'row_stack'):  # gone from NumPy 2.5; some versions of numba-cuda still look for it
        numpy.row_stack = numpy.vstack
    import numba
    from numba import cuda

    cuda.select_device(0)
    stream, other = cuda.stream(), cuda.stream()
    event, elsewhere = cuda.event(timing=False), cuda.event(timing=False)
    event.record(stream)
    elsewhere.record(other)
    names = dict(cuda=cuda, stream=stream, other=other, event=event, elsewhere=elsewhere,
                 foreign=foreign_stream(libcuda), ignore=ignore)
    bench = Bench(numba.__version__, names, 'cuda.synchronize()', {
        'record': 'event.record(stream)',
        'record-new': 'cuda.event(timing=False).record(stream)',
        'wait-event': 'elsewhere.wait(stream)',
        'event-query': 'event.query()',
        'synchronize-idle': 'stream.synchronize()',
        'wrap': 'cuda.external_stream(foreign)',
        'event-create': 'cuda.event(timing=False)',
        'stream-create': 'cuda.stream()',
    })
    bench.add('host-function', 'stream.add_callback(ignore); stream.synchronize()', dict)

    def kernel():
        @cuda.jit
        def empty():
            pass

        return {'empty': empty[1, 1, stream]}

    bench.add('launch-synchronize', 'empty(); stream.synchronize()', kernel)

    def four():
        @cuda.jit
        def four(a, b, c, d):
            pass

        array = cuda.device_array(16, dtype='float32')
        return {'four': four[1, 1, stream], 'array': array, 'c': numpy.float32(1), 'd': numpy.uint32(1)}

    bench.add('launch-four', 'four(array, array, c, d)', four)

    def open_held():
        held, held_event = cuda.stream(), cuda.event(timing=False)
        handle = getattr(held.handle, 'value', held.handle)
        return held, int(handle), held_event, lambda: held_event.record(held)

    bench.add_busy(libcuda, open_held, {'event-query-busy': 'held_event.query()'})
    return bench


LIBRARIES = {'cupy': open_cupy, 'torch': open_torch, 'cuda.core': open_cuda_core, 'numba': open_numba}


def main(library, libcuda, ptx):
    # Libraries may print; the line protocol keeps the real stdout for itself.
    line = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter('ignore')
    try:
        bench = LIBRARIES[library](libcuda, ptx)
        bench.drain()
    except Exception as error:
        print('left-out', describe(error), file=line)
        return
    print('ready', str(bench.version).split()[0], *bench.statements, file=line)
    for request in sys.stdin:
        try:
            _run, key, calls = request.split()
            print(f'ns {bench.run(key, int(calls)):.2f}', file=line)
        except Exception as error:
            print('fail', describe(error), file=line)


if __name__ == '__main__':
    main(*sys.argv[1:])
