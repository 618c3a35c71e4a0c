"""A training loop, timed: what the trace costs."""
import time

import torch

torch.manual_seed(1)
net = torch.nn.Sequential(*[m for _ in range(6) for m in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())], torch.nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
x, y = torch.randn(256, 1024, device='cuda'), torch.randint(0, 10, (256,), device='cuda')


def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()


for _ in range(20):
    step()
torch.cuda.synchronize()
began = time.perf_counter()
for _ in range(200):
    step()
torch.cuda.synchronize()
print(f'{(time.perf_counter() - began) * 5:.3f} ms a step')
