"""A loop that is bound by copies, timed: what watching the host costs. `python copies.py [KiB]`."""
import sys
import time

import torch

size = (int(sys.argv[1]) if len(sys.argv) > 1 else 4096) * 256
host = [torch.ones(size, pin_memory=True) for _ in range(4)]
x = [torch.empty(size, device='cuda') for _ in range(4)]


def step():
    for slot in range(4):
        x[slot].copy_(host[slot], non_blocking=True)
        host[slot].copy_(x[slot], non_blocking=True)
    torch.cuda.synchronize()


for _ in range(20):
    step()
began = time.perf_counter()
for _ in range(200):
    step()
print(f'{(time.perf_counter() - began) * 5000 / 8:.1f} us a copy of {size // 256} KiB')
