"""The loop of bench/decode.ts with cuda.core (if it can update nodes) and PyTorch (which copies into static inputs)."""
import sys
import time

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
LAYERS, LENGTH = 40, 32
SOURCE = r'''extern "C" __global__ void layer(unsigned* to, const unsigned* from, float a, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i] + (unsigned)a;
}'''


def measure(name, way, wait, steps=STEPS):
    for warm in (False, True):
        count = steps if warm else max(1, steps // 10)
        wait()
        begun = time.perf_counter()
        for step in range(count):
            way(step)
        queued = time.perf_counter()
        wait()
        done = time.perf_counter()
    print(f'{name:36} {(queued - begun) / count * 1e6:8.2f} us a step queued, {(done - begun) / count * 1e6:8.2f} done', flush=True)


def cuda_core():
    import numpy as np
    import cuda.core as core
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    cc = ''.join(str(each) for each in device.compute_capability)
    kernel = Program(SOURCE, code_type='c++', options=ProgramOptions(arch=f'sm_{cc}')).compile('cubin').get_kernel('layer')
    to, source = device.allocate(4 * LENGTH, stream=stream), device.allocate(4 * LENGTH, stream=stream)
    config = LaunchConfig(grid=1, block=LENGTH)
    print(f'cuda.core {core.__version__}, {STEPS} steps', flush=True)

    def capture(a, n):
        builder = stream.create_graph_builder()
        builder.begin_building()
        for each in range(LAYERS):
            changed = each == LAYERS // 2
            launch(builder, config, kernel, to, source, np.float32(a if changed else 0), np.uint32(n if changed else LENGTH))
        return builder.end_building()

    first = capture(0, LENGTH)
    graph = first.complete()
    measure('launch, nothing changed', lambda step: graph.launch(stream), stream.sync)
    try:
        definition = first.graph_definition
        nodes = list(definition.nodes() if callable(definition.nodes) else definition.nodes)
        middle = graph[nodes[LAYERS // 2]]

        def update(step):
            middle.update(config=config, kernel=kernel, args=(to, source, np.float32(step), np.uint32(1 + step % LENGTH)))
            graph.launch(stream)
        measure('graph[node].update(...)', update, stream.sync)
    except Exception as error:
        print('graph[node].update(...) failed:', repr(error), flush=True)

    def again(step):
        graph.update(capture(step, 1 + step % LENGTH))
        graph.launch(stream)
    try:
        measure('capture, graph.update(builder)', again, stream.sync, STEPS // 10)
    except Exception as error:
        print('capture, graph.update(builder) failed:', repr(error), flush=True)


def pytorch():
    import torch
    print(f'PyTorch {torch.__version__}, {STEPS} steps', flush=True)
    x = torch.zeros(LENGTH, device='cuda')
    a = torch.zeros(1, device='cuda')
    n = torch.zeros(1, device='cuda')
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            x.add_(a)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for each in range(LAYERS):
                x.add_(a if each == LAYERS // 2 else 1)
        pinned = torch.zeros(2, pin_memory=True)
        wait = stream.synchronize
        measure('replay, nothing changed', lambda step: graph.replay(), wait)

        def statics(step):
            a.fill_(step)
            n.fill_(1 + step % LENGTH)
            graph.replay()
        measure('two fills of static inputs, replay', statics, wait)

        def copies(step):
            a.copy_(pinned[:1], non_blocking=True)
            n.copy_(pinned[1:], non_blocking=True)
            graph.replay()
        measure('two copies from pinned, replay', copies, wait)

        def again(step):
            other = torch.cuda.CUDAGraph()
            with torch.cuda.graph(other, stream=stream):
                for each in range(LAYERS):
                    x.add_(step if each == LAYERS // 2 else 1)
            other.replay()
        measure('capture again, replay', again, wait, max(20, STEPS // 200))


for contestant in (cuda_core, pytorch):
    try:
        contestant()
    except Exception as error:
        print(contestant.__name__, 'failed:', repr(error), flush=True)
