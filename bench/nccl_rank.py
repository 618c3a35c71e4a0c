"""One of two PyTorch processes: python3 nccl_rank.py RANK PORT. Says 'ready VERSION', then answers 'round BYTES COUNT'
with the milliseconds that one all_reduce took, until its input ends."""
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


def round_of(size, count):
    if size not in buffers:
        buffers[size] = torch.full((size // 4,), 1e-30, dtype=torch.float32, device=f"cuda:{rank}")
    data = buffers[size]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / count


version = ".".join(str(part) for part in torch.cuda.nccl.version())
print(f"ready {torch.__version__}, NCCL {version}", flush=True)
for line in sys.stdin:
    _, size, count = line.split()
    print(round_of(int(size), int(count)), flush=True)
dist.destroy_process_group()
os._exit(0)
