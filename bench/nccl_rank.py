"""One of two PyTorch processes: python3 nccl_rank.py RANK PORT. Says 'ready VERSION', then answers
'run all-reduce-BYTES COUNT' with 'ns' and how long one all_reduce took, until its input ends."""
import os
import sys
import time

import torch
import torch.distributed as dist

rank, port = int(sys.argv[1]), sys.argv[2]
torch.cuda.set_device(rank)
dist.init_process_group(
    "nccl",
    init_method=f"tcp://127.0.0.1:{port}",
    rank=rank,
    world_size=2,
    device_id=torch.device("cuda", rank),
)
buffers = {}
# As bench/catalogue.ts has it.
IN_GROUP = 50


def buffer_of(size):
    if size not in buffers:
        buffers[size] = torch.full((size // 4,), 1e-30, dtype=torch.float32, device=f"cuda:{rank}")
    return buffers[size]


def once_of(size):
    if size != "group":
        data = buffer_of(int(size))
        return lambda: dist.all_reduce(data)
    every = [buffer_of(1024 + 4 * nth) for nth in range(IN_GROUP)]

    def group():
        with dist._coalescing_manager(device=torch.device("cuda", rank), async_ops=True) as manager:
            for data in every:
                dist.all_reduce(data)
        manager.wait()

    return group


def time_of(size, count):
    once = once_of(size)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        once()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e9 / count


version = ".".join(str(part) for part in torch.cuda.nccl.version())
print(f"ready {torch.__version__}, NCCL {version}", flush=True)
for line in sys.stdin:
    _, key, count = line.split()
    print("ns", time_of(key.removeprefix("all-reduce-"), int(count)), flush=True)
dist.destroy_process_group()
os._exit(0)
