"""
What went wrong in inference servers, each in a few lines of its own, and the same with its remedy: `python patterns.py racy|right [names]`. Each
says in which public thread it was described.
"""
import ctypes
import sys

import numpy as np
import torch

RIGHT = sys.argv[1] == 'right'
N = 1 << 20
device = torch.device('cuda')
side = torch.cuda.Stream()
main = torch.cuda.current_stream()
runtime = ctypes.CDLL('libcudart.so.13' if torch.version.cuda.startswith('13') else 'libcudart.so.12')
driver = ctypes.CDLL('libcuda.so.1')


def model():
    """The step of a model, which takes longer than the host needs for the next one."""
    torch.cuda._sleep(20_000_000)


def inputs_of_steps():
    """vllm-project/vllm 25279: the tensors of the inputs are used again by the next step, which is scheduled early."""
    ids, done = torch.zeros(N, dtype=torch.int32, pin_memory=True), torch.cuda.Event()
    view, kept = ids.numpy(), []
    for step in range(3):
        if RIGHT and step > 0:
            done.synchronize()
        view[: N // 2] = step
        model()
        kept.append(ids.to(device, non_blocking=True))
        done.record()
    return kept


def inputs_before_the_wait():
    """vllm-project/vllm 28706: a stage before the step's wait writes to tensors that the step before still copies."""
    ids, images, done = torch.zeros(N, pin_memory=True), torch.zeros(N, pin_memory=True), torch.cuda.Event()
    kept = []
    for step in range(2):
        if RIGHT and step > 0:
            done.synchronize()
        images.fill_(step)
        if step > 0:
            done.synchronize()
        ids.fill_(step)
        model()
        kept += [images.to(device, non_blocking=True), ids.to(device, non_blocking=True)]
        done.record()
    return kept


def accepted_tokens():
    """vllm-project/vllm 36013: the next step reads through numpy what a copy to the host may not have brought yet."""
    accepted, host, copied = torch.ones(1024, dtype=torch.int32, device=device), torch.empty(1024, dtype=torch.int32, pin_memory=True), torch.cuda.Event()
    view = host.numpy()
    model()
    host.copy_(accepted, non_blocking=True)
    copied.record()
    if RIGHT:
        copied.synchronize()
    return int(view.max())


def pooled_outputs():
    """vllm-project/vllm 36942: the outputs are taken apart before the event of their copy is waited for."""
    pooled, host, copied = torch.ones(64, 1024, device=device), torch.empty(64, 1024, pin_memory=True), torch.cuda.Event()
    model()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        host.copy_(pooled, non_blocking=True)
        copied.record()
    pooled.record_stream(side)
    if RIGHT:
        copied.synchronize()
    outputs = [row.clone() for row in host.unbind(0)]
    copied.synchronize()
    return outputs


def draft_tokens():
    """vllm-project/vllm 29288: the buffer for the drafts of one step is filled by the copy of the next while the host is to read it."""
    drafts, host, copied = torch.ones(4096, device=device), torch.zeros(4096, pin_memory=True), torch.cuda.Event()
    found = []
    for _ in range(2):
        model()
        host.copy_(drafts, non_blocking=True)
        copied.record()
        if RIGHT:
            copied.synchronize()
        found.append(host.sum().item())
    return found


def pinned_scratch():
    """vllm-project/vllm 32799: a planner writes its tables to one pinned tensor, step after step, and nobody waits for their copies."""
    scratch, tables = torch.zeros(N, pin_memory=True), [torch.empty(N, device=device) for _ in range(2)]
    for step, table in enumerate(tables):
        own = torch.empty(N, pin_memory=True) if RIGHT else scratch
        own[:] = float(step)
        model()
        table.copy_(own, non_blocking=True)
    return scratch, tables


def starts_of_queries():
    """vllm-project/vllm-ascend 12071: the buffer of the starts is changed for the next batch; the remedy copies a snapshot of it."""
    starts, onGpu = torch.zeros(N, pin_memory=True), torch.empty(N, device=device)
    for batch in range(2):
        starts.numpy()[:] = np.arange(N) * batch
        model()
        onGpu.copy_(starts.clone().pin_memory() if RIGHT else starts, non_blocking=True)
    return starts, onGpu


def blocks_in_any_order():
    """vllm-project/vllm 39306: a batch that may read its sources in any order reads blocks before the model has written them."""
    blocks, host = torch.zeros(8, 4096, device=device), torch.empty(8, 4096, pin_memory=True)
    torch.cuda.synchronize()
    model()
    blocks.add_(1)
    side.wait_stream(main)
    to = (ctypes.c_void_p * 8)(*[host[at].data_ptr() for at in range(8)])
    source = (ctypes.c_void_p * 8)(*[blocks[at].data_ptr() for at in range(8)])
    sizes, first, attributes = (ctypes.c_size_t * 8)(*[16384] * 8), (ctypes.c_size_t * 1)(0), (ctypes.c_uint32 * 6)(1 if RIGHT else 3)
    assert driver.cuMemcpyBatchAsync_v2(to, source, sizes, ctypes.c_size_t(8), attributes, first, ctypes.c_size_t(1), ctypes.c_void_p(side.cuda_stream)) == 0
    return blocks, host


def blocks_to_host():
    """vllm-project/vllm 46278: blocks are copied to the host on a stream that does not wait for the model, which writes them."""
    blocks, host = torch.zeros(N, device=device), torch.empty(N, pin_memory=True)
    torch.cuda.synchronize()
    model()
    blocks.add_(1)
    if RIGHT:
        side.wait_stream(main)
    with torch.cuda.stream(side):
        host.copy_(blocks, non_blocking=True)
    blocks.record_stream(side)
    return host


def shared_staging():
    """LMCache/LMCache 2728: storing and loading share a buffer on the GPU, and each has a stream."""
    staging, cache = torch.zeros(N, device=device), torch.ones(N, device=device)
    store, load = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(store):
        model()
        staging.copy_(cache)
        stored = staging * 1
    if RIGHT:
        load.wait_stream(store)
    with torch.cuda.stream(load):
        staging.zero_()
    return stored, staging


def input_of_split():
    """ggml-org/llama.cpp 8897: the part that the CPU computes overwrites, for the next batch, what a copy to the GPU still reads."""
    x, host = torch.empty(N, device=device), torch.ones(N, pin_memory=True)
    model()
    assert runtime.cudaMemcpyAsync(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(host.data_ptr()), ctypes.c_size_t(4 * N), 1, ctypes.c_void_p(main.cuda_stream)) == 0
    if RIGHT:
        main.synchronize()
    torch.add(host, 1, out=host)
    return x, host


PROGRAMS = [
    inputs_of_steps, inputs_before_the_wait, accepted_tokens, pooled_outputs, draft_tokens, pinned_scratch, starts_of_queries,
    blocks_in_any_order, blocks_to_host, shared_staging, input_of_split,
]
for program in PROGRAMS:
    if len(sys.argv) < 3 or program.__name__ in sys.argv[2:]:
        kept = program()
        torch.cuda.synchronize()
        del kept
