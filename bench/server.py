"""The server of bench/server.ts in Python, with PyTorch, over asyncio: `python3 server.py WAY`. The HTTP is the least that does, and uvloop
is used where it is installed, so that no web framework slows it down."""
import asyncio
import json
import os
import platform
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

# As bench/server-node.ts.
STREAMS = 16


def echo():
    async def answer(body):
        return body
    return {'version': platform.python_version()}, answer


def pytorch(way):
    import torch
    torch.set_grad_enabled(False)
    facts = {'version': torch.__version__, 'python': platform.python_version(), 'gpu': torch.cuda.get_device_name()}
    streams = cycle([torch.cuda.Stream() for _ in range(STREAMS)])
    threads = ThreadPoolExecutor(STREAMS)

    def work(body):
        x = torch.frombuffer(body, dtype=torch.float32).to('cuda', non_blocking=True)
        return x.mul_(3).mul_(3)

    def wait(body):
        with torch.cuda.stream(next(streams)):
            return work(body).cpu().numpy().tobytes()

    async def blocks(body):
        return wait(body)

    async def in_threads(body):
        return await asyncio.get_running_loop().run_in_executor(threads, wait, body)

    async def polls(body):
        stream = next(streams)
        with torch.cuda.stream(stream):
            x = work(body)
            result = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
            result.copy_(x, non_blocking=True)
            done = stream.record_event()
        while not done.query():
            await asyncio.sleep(0)
        return result.numpy().tobytes()

    return facts, {'blocks': blocks, 'threads': in_threads, 'polls': polls}[way]


async def serve(answer, reader, writer):
    try:
        while True:
            head = await reader.readuntil(b'\r\n\r\n')
            length = int(re.search(rb'content-length: *(\d+)', head, re.IGNORECASE)[1])
            result = await answer(bytearray(await reader.readexactly(length)))
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n' % len(result) + result)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(way):
    facts, answer = echo() if way == 'echo' else pytorch(way)
    server = await asyncio.start_server(lambda reader, writer: serve(answer, reader, writer), '127.0.0.1', 0)
    print('ready', server.sockets[0].getsockname()[1], json.dumps(facts), flush=True)
    await server.serve_forever()


def leave():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=leave, daemon=True).start()
try:
    import uvloop
    run = uvloop.run
except ImportError:
    run = asyncio.run
run(main(sys.argv[1]))
