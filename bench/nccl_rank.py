"""PyTorch beside bench/nccl-rank.ts: one of two processes, python3 nccl_rank.py RANK PORT; or one with both GPUs, python3
nccl_rank.py both. Says 'ready VERSION', then answers 'run KEY COUNT' with 'ns' and how long one all_reduce took, until its
input ends. The key ends with the bytes, or with 'group'."""
import os
import sys
import time

import torch
import torch.distributed as dist

# As bench/catalogue.ts has it.
IN_GROUP = 50
which, port = sys.argv[1], sys.argv[2]
devices = [torch.device("cuda", rank) for rank in ([0, 1] if which == "both" else [int(which)])]
buffers = {}

if which != "both":
    torch.cuda.set_device(devices[0])
    dist.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=int(which), world_size=2, device_id=devices[0]
    )


def buffers_of(size):
    if size not in buffers:
        buffers[size] = [torch.full((size // 4,), 1e-30, dtype=torch.float32, device=device) for device in devices]
    return buffers[size]


def all_reduce(data):
    if which == "both":
        torch.cuda.nccl.all_reduce(data)
    else:
        dist.all_reduce(data[0])


def once_of(size):
    if size != "group":
        data = buffers_of(int(size))
        return lambda: all_reduce(data)
    every = [buffers_of(1024 + 4 * nth) for nth in range(IN_GROUP)]

    def group():
        if which == "both":
            raise RuntimeError("torch.cuda.nccl has no groups")
        with dist._coalescing_manager(device=devices[0], async_ops=True) as manager:
            for data in every:
                all_reduce(data)
        manager.wait()

    return group


def synchronize():
    for device in devices:
        torch.cuda.synchronize(device)


def time_of(size, count):
    once = once_of(size)
    once()
    synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        once()
    synchronize()
    return (time.perf_counter() - begin) * 1e9 / count


version = ".".join(str(part) for part in torch.cuda.nccl.version())
print(f"ready {torch.__version__}, NCCL {version}", flush=True)
for line in sys.stdin:
    _, key, count = line.split()
    try:
        print("ns", time_of(key.rsplit("-", 1)[1], int(count)), flush=True)
    except Exception as error:
        print("fail", str(error).split("\n")[0], flush=True)
if which != "both":
    dist.destroy_process_group()
os._exit(0)
