/** The sanitizer and the code of kernels: on the simulator it knows which bytes a launch has touched, and what a GPU leaves undefined. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type DeviceBuffer, type Kernel, Module, Program, Stream, struct } from 'cuda-streams'
import { Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { lacksNvrtc } from '../../helpers/nvrtc.js'
import { everySecond } from './every-second.js'

const SOURCE = `
extern "C" __global__ void every_second(int* x, int first, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i + first < n) x[2 * i + first] = i;
}
extern "C" __global__ void copy(int* to, const int* from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}
extern "C" __global__ void shift(int* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] = x[i + 1];
}
extern "C" __global__ void unguarded(int* out) {
  __shared__ int all[64];
  all[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = all[63 - threadIdx.x];
}
extern "C" __global__ void half_waits(int* out) {
  if (threadIdx.x < 32) __syncthreads(); else asm volatile("bar.sync 1, 64;");
  out[threadIdx.x] = 1;
}
extern "C" __global__ void add(int* sum) { atomicAdd(sum, 1); }
extern "C" __global__ void unwritten(int* out) {
  __shared__ int all[64];
  all[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = all[threadIdx.x + 32];
}
`

/** A buffer whose tail a launch has left unwritten, and what reads it. */
interface Tail {
  readonly device: Device
  readonly one: Stream
  readonly copy: Kernel<readonly ['out i32*', 'in i32*', 'i32']>
  readonly to: DeviceBuffer
  readonly other: DeviceBuffer
}

const N = 256
const ONE = { grid: 1, block: N }

it('a kernel does not race with a fill that came before it, of elements that it does not touch', async () => {
  for (const element of [1, 2]) {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device })
    using one = new Stream({ device })
    using other = new Stream({ device })
    const x = device.alloc(4 * N, { stream: one })
    other.wait(one).fill(x.subarray(4 * element, 4 * (element + 1)), 1)
    one.launch(everySecond(device), { grid: 1, block: N / 2 }, x, 0).wait(other)
    await device.finished()
    assert.deepEqual(
      sanitizer.reports.map(({ kind }) => kind),
      element === 1 ? [] : ['race'],
    )
  }
})

it('says once that races were looked for in a part of a launch only, where it has more releases than are kept', async () => {
  const ptx = `.version 8.0
.target sm_75
.address_size 64
.visible .entry releases(.param .u64 memory, .param .u32 turns)
{
  .reg .u32 %turn, %turns;
  .reg .u64 %memory;
  .reg .pred %more;
  ld.param.u64 %memory, [memory];
  ld.param.u32 %turns, [turns];
  mov.u32 %turn, 0;
again:
  st.global.u32 [%memory], %turn;
  membar.gl;
  add.u32 %turn, %turn, 1;
  setp.lt.u32 %more, %turn, %turns;
  @%more bra again;
  ret;
}`
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using module = Module.load(ptx, { device })
  const kernel = module.kernel('releases', ['out u32*', 'u32'])
  using sanitizer = Sanitizer.start({ device })
  using stream = new Stream({ device })
  const memory = device.alloc(4, { stream })
  const warnings: string[] = []
  const note = ({ message }: Error): void => void warnings.push(message)
  process.on('warning', note)
  try {
    for (const turns of [2 ** 20, 2 ** 22 + 8, 2 ** 22 + 8]) {
      stream.launch(kernel, { grid: 1, block: 1 }, memory, turns)
      await stream.finished()
      if (turns === 2 ** 20) assert.deepEqual(warnings, [])
    }
  } finally {
    process.off('warning', note)
  }
  assert.equal(warnings.length, 1, warnings.join('\n'))
  assert.match(warnings[0] ?? '', /at a part of a launch of kernel 'releases' only: .* four million .*Check a smaller/)
  assert.deepEqual(sanitizer.reports, [])
})

/** Adds 1 to the words at an address that is no argument of memory: a number, or a member of a struct, as libraries of templates pass it. */
const BY_ADDRESS = `.version 8.0
.target sm_75
.address_size 64
.visible .entry add_at(.param .u64 memory)
{
  .reg .u64 %at; .reg .u32 %i;
  ld.param.u64 %at, [memory];
  mov.u32 %i, %tid.x; mad.wide.u32 %at, %i, 4, %at;
  ld.global.u32 %i, [%at]; add.u32 %i, %i, 1; st.global.u32 [%at], %i;
  ret;
}
.visible .entry add_within(.param .align 8 .b8 all[16])
{
  .reg .u64 %at; .reg .u32 %i;
  ld.param.u64 %at, [all+8];
  mov.u32 %i, %tid.x; mad.wide.u32 %at, %i, 4, %at;
  ld.global.u32 %i, [%at]; add.u32 %i, %i, 1; st.global.u32 [%at], %i;
  ret;
}`

describe('a kernel that finds its memory by an address is work of its stream', () => {
  const All = struct({ n: 'u32', memory: 'u64' })
  type Launch = (stream: Stream, pointer: bigint) => void
  const reported = async (
    play: (streams: readonly [Stream, Stream], launch: Launch) => Promise<void> | void,
    isWithin = false,
  ): Promise<readonly SanitizerReport[]> => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using module = Module.load(BY_ADDRESS, { device })
    const [at, within] = [module.kernel('add_at', ['u64']), module.kernel('add_within', [All])]
    using sanitizer = Sanitizer.start({ device })
    using one = new Stream({ device, name: 'one' })
    using other = new Stream({ device, name: 'other' })
    await play([one, other], (stream, pointer) => {
      if (isWithin) stream.launch(within, { grid: 1, block: 32 }, { n: 32, memory: pointer })
      else stream.launch(at, { grid: 1, block: 32 }, pointer)
    })
    await device.finished()
    return sanitizer.reports
  }

  for (const isWithin of [false, true]) {
    it(`between an upload and a download there, ${isWithin ? 'in a struct' : 'as a number'}`, async () => {
      const reports = await reported(async ([one], launch) => {
        const x = one.bufferFrom(new Uint32Array(32))
        launch(one, x.pointer)
        assert.deepEqual(await one.download(x, Uint32Array), new Uint32Array(32).fill(1))
        launch(one, x.pointer)
        one.fill(x, 7)
        await one.finished()
      }, isWithin)
      assert.deepEqual(
        reports.map(({ message }) => message),
        [],
      )
    })
  }

  it('so that one of another stream races with it, unless it waits', async () => {
    for (const waits of [true, false]) {
      const reports = await reported(([one, other], launch) => {
        const x = one.bufferFrom(new Uint32Array(32))
        if (waits) other.wait(one)
        launch(other, x.pointer)
        one.wait(other)
      })
      // What it reads before the upload is found besides.
      const races = reports.filter(({ kind }) => kind === 'race')
      assert.deepEqual(
        races.map(({ first, second }) => [first?.stream, second.stream]),
        waits ? [] : [['one', 'other']],
      )
    }
  })

  it('and as a node of a graph is not compared', async () => {
    const reports = await reported(async ([one], launch) => {
      const x = one.bufferFrom(new Uint32Array(32))
      using graph = one.capture(() => launch(one, x.pointer))
      using exec = graph.instantiate()
      one.launch(exec)
      assert.deepEqual(await one.download(x, Uint32Array), new Uint32Array(32).fill(1))
    })
    assert.deepEqual(
      reports.map(({ message }) => message),
      [],
    )
  })
})

describe('kernels of which the code runs', { skip: lacksNvrtc() }, () => {
  const found = async (
    run: (device: Device, module: Module, streams: readonly [Stream, Stream]) => Promise<void> | void,
  ): Promise<readonly SanitizerReport[]> => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using module = await Program.compile(SOURCE, { device, options: ['-lineinfo'] })
    using sanitizer = Sanitizer.start({ device })
    using one = new Stream({ device })
    using other = new Stream({ device })
    await run(device, module, [one, other])
    await device.finished()
    return sanitizer.reports
  }
  const kinds = (reports: readonly SanitizerReport[]): readonly string[] => reports.map(({ kind }) => kind)

  it('that touch every second element, each the others, do not race', async () => {
    const reports = await found((device, module, [one, other]) => {
      const kernel = module.kernel('every_second', ['inout i32*', 'i32', 'i32'])
      const x = device.alloc(4 * N, { stream: one })
      other.wait(one)
      one.launch(kernel, ONE, x, 0, N)
      other.launch(kernel, ONE, x, 1, N)
      one.wait(other)
      x.close()
    })
    assert.deepEqual(kinds(reports), [])
  })

  it('that touch the same elements race, and it is said which bytes', async () => {
    const reports = await found((device, module, [one, other]) => {
      const kernel = module.kernel('every_second', ['inout i32*', 'i32', 'i32'])
      const x = device.alloc(4 * N, { stream: one })
      other.wait(one)
      one.launch(kernel, ONE, x, 0, N)
      other.launch(kernel, ONE, x, 2, N)
      one.wait(other)
      x.close()
    })
    assert.deepEqual(kinds(reports), ['race'])
    assert.match(reports[0]?.message ?? '', /kernel 'every_second'[\s\S]*kernel 'every_second'[\s\S]*\.wait\(/)
  })

  it('that add atomically do not race with each other, whatever the signature says', async () => {
    const reports = await found((device, module, [one, other]) => {
      const kernel = module.kernel('add', ['inout i32*'])
      const x = device.alloc(4, { stream: one })
      one.fill(x, 0)
      other.wait(one)
      one.launch(kernel, ONE, x)
      other.launch(kernel, ONE, x)
      one.wait(other)
      x.close()
    })
    assert.deepEqual(kinds(reports), [])
  })

  it('a race that nobody waits for is reported by what the launch says', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using module = await Program.compile(SOURCE, { device })
    using sanitizer = Sanitizer.start({ device })
    using one = new Stream({ device })
    using other = new Stream({ device })
    const x = device.alloc(4, { stream: one })
    one.fill(x, 0)
    other.wait(one)
    one.launch(module.kernel('add', ['inout i32*']), ONE, x)
    other.fill(x, 1)
    assert.deepEqual(kinds(sanitizer.reports), ['race'])
  })

  it('a signature that lies is found', async () => {
    const reports = await found((device, module, [one]) => {
      const kernel = module.kernel('copy', ['in i32*', 'in i32*', 'i32'])
      const [to, from] = [device.alloc(4 * N, { stream: one }), device.alloc(4 * N, { stream: one })]
      one.fill(from, 1).launch(kernel, ONE, to, from, N)
    })
    assert.deepEqual(kinds(reports), ['wrong-signature'])
    assert.match(reports[0]?.message ?? '', /argument 0 is written.*'out' or 'inout'/)
  })

  it('bytes beside the part of a buffer that a kernel was given are found', async () => {
    const reports = await found((device, module, [one]) => {
      const kernel = module.kernel('shift', ['inout i32*', 'i32'])
      const x = device.alloc(4 * N, { stream: one })
      one.fill(x, 1).launch(kernel, { grid: 1, block: 32 }, x.subarray(0, 4 * 32), 32)
    })
    assert.deepEqual(kinds(reports), ['outside-argument'])
    assert.match(reports[0]?.message ?? '', /has 128 bytes, and it reads byte 128/)
  })

  it('a read of memory that nothing has written is found, once', async () => {
    const reports = await found((device, module, [one]) => {
      const kernel = module.kernel('copy', ['out i32*', 'in i32*', 'i32'])
      const [to, from] = [device.alloc(4 * N, { stream: one }), device.alloc(4 * N, { stream: one })]
      one.fill(from.subarray(0, 4 * 100), 1).launch(kernel, ONE, to, from, 100)
      one.launch(kernel, ONE, to, from, 101)
    })
    assert.deepEqual(kinds(reports), ['uninitialised-read'])
  })

  describe('the tail that a grid with too few threads has left is found', () => {
    const READERS: Readonly<Record<string, (memory: Tail) => void>> = {
      'by the kernel that reads it': ({ one, copy, other, to }) => void one.launch(copy, ONE, other, to, N),
      'by the download that gets it': ({ one, to }) => void one.download(to),
      'by the copy that takes it to pinned memory': ({ device, one, to }) =>
        void one.copy(device.allocPinned(4 * N), to),
    }
    for (const [name, reads] of Object.entries(READERS)) {
      it(`${name}, with the launch and how many threads it had`, async () => {
        const reports = await found((device, module, [one]) => {
          const copy = module.kernel('copy', ['out i32*', 'in i32*', 'i32'])
          const [from, to, other] = [1, 2, 3].map(() => device.alloc(4 * N, { stream: one }))
          assert.ok(from && to && other)
          one.fill(from, 1).launch(copy, { grid: 2, block: 64 }, to, from, N)
          reads({ device, one, copy, to, other })
        })
        assert.deepEqual(kinds(reports), ['uninitialised-read'])
        const [{ message = '', first, second, severity, buffer, memory } = {}] = reports
        assert.equal(severity, 'warning')
        assert.equal(first?.what, "kernel 'copy'")
        assert.equal(first?.argument, 0)
        assert.match(first?.stack[0] ?? '', /kernel-code\.test/)
        assert.match(second?.stack[0] ?? '', /kernel-code\.test/)
        assert.equal(Number((memory?.pointer ?? 0n) - (buffer?.pointer ?? 0n)) >= 4 * 128, true)
        assert.match(
          message,
          /Kernel 'copy' wrote only bytes 0 to 512 of the buffer's 1024: grid 2 × block 64 = 128 threads, each of which wrote 4 bytes\. If there is to be a thread for each element, launch a grid of 4 such blocks\./,
        )
      })
    }

    it('and a download of what a whole grid, a fill or another launch wrote is not', async () => {
      const reports = await found((device, module, [one]) => {
        const copy = module.kernel('copy', ['out i32*', 'in i32*', 'i32'])
        const from = device.alloc(4 * N, { stream: one })
        const make = (): DeviceBuffer => device.alloc(4 * N, { stream: one })
        const half = { grid: 2, block: 64 }
        one.fill(from, 1)
        const [whole, filled, twice, inPart, fewer] = [make(), make(), make(), make(), make()]
        one.launch(copy, ONE, whole, from, N)
        one.fill(filled, 0).launch(copy, half, filled, from, N)
        one.launch(copy, half, twice, from, N).launch(copy, half, twice.subarray(4 * 128), from, 128)
        one.launch(copy, half, inPart, from, N)
        // A kernel that compacts writes fewer elements than it has threads, and the program reads those.
        one.launch(copy, ONE, fewer, from, 100)
        one.download(whole)
        one.download(filled)
        one.download(twice)
        one.download(inPart.subarray(0, 4 * 128))
        one.download(fewer)
      })
      assert.deepEqual(
        reports.map(({ message }) => message),
        [],
      )
    })
  })

  it('bytes that a race leaves unwritten are not found besides the race', async () => {
    for (const reads of [4 * N, 4 * 100]) {
      const reports = await found((device, module, [one, other]) => {
        const kernel = module.kernel('copy', ['out i32*', 'in i32*', 'i32'])
        const [to, from] = [device.alloc(4 * N, { stream: one }), device.alloc(4 * N, { stream: one })]
        other.wait(one)
        one.fill(to, 1)
        one.launch(kernel, ONE, from, to, N)
        other.launch(kernel, ONE, device.alloc(4 * N, { stream: other }), from, reads / 4)
      })
      assert.deepEqual(kinds(reports), ['race'], String(reads))
    }
  })

  it('bytes that are unwritten though nothing races for them are found, also where a race was possible until the kernels ran', async () => {
    const reports = await found((device, module, [one, other]) => {
      const kernel = module.kernel('copy', ['out i32*', 'in i32*', 'i32'])
      const [to, from] = [device.alloc(4 * N, { stream: one }), device.alloc(4 * N, { stream: one })]
      other.wait(one)
      one.fill(to, 1).launch(kernel, ONE, from, to, 100)
      other.launch(kernel, ONE, device.alloc(4 * N, { stream: other }), from.subarray(4 * 100), 28)
    })
    assert.deepEqual(kinds(reports), ['uninitialised-read'])
  })

  it('races within shared memory and barriers that do not meet are found, with the line of the source', async () => {
    const reports = await found((device, module, [one]) => {
      const out = device.alloc(4 * 64, { stream: one })
      one.launch(module.kernel('unguarded', ['out i32*']), { grid: 1, block: 64 }, out)
    })
    assert.deepEqual(kinds(reports), ['shared-memory-race'])
    assert.match(
      reports[0]?.message ?? '',
      /access byte \d+ of shared memory.* first by '(ld|st)\.shared.*program\.cu:1[67]\)\. In block \(0,0,0\), by '(ld|st)\.shared.*program\.cu:1[67]\)/,
    )
  })

  it('races within global memory are found, beside other mistakes of the same launch, with the line of the source', async () => {
    const reports = await found((device, module, [one]) => {
      const kernel = module.kernel('shift', ['inout i32*', 'i32'])
      const x = device.alloc(4 * N, { stream: one })
      one.fill(x, 1).launch(kernel, { grid: 1, block: 64 }, x.subarray(0, 4 * 64), 64)
    })
    assert.deepEqual(kinds(reports), ['global-memory-race', 'outside-argument'])
    assert.match(
      reports[0]?.message ?? '',
      /Warps 0 and 1 of one block access 4 bytes of global memory.*program\.cu:12/,
    )
  })

  it('memory that a launch only reads is no race, nor are atomics', async () => {
    const reports = await found((device, module, [one]) => {
      const [to, from] = [device.alloc(4 * N, { stream: one }), device.alloc(4 * N, { stream: one })]
      one.fill(from, 1).fill(to, 0)
      one.launch(module.kernel('copy', ['out i32*', 'in i32*', 'i32']), { grid: 2, block: 128 }, to, from, N)
      one.launch(module.kernel('add', ['inout i32*']), { grid: 2, block: 128 }, to)
    })
    assert.deepEqual(kinds(reports), [])
  })

  it('shared memory that nothing wrote is found', async () => {
    const reports = await found((device, module, [one]) => {
      const out = device.alloc(4 * 64, { stream: one })
      one.launch(module.kernel('unwritten', ['out i32*']), { grid: 1, block: 32 }, out)
    })
    assert.deepEqual(kinds(reports), ['uninitialised-read'])
    assert.match(reports[0]?.message ?? '', /shared memory are read, and nothing wrote them.*program\.cu:28/)
  })

  it('a node of a graph is looked at in each launch', async () => {
    const reports = await found(async (device, module, [one]) => {
      const kernel = module.kernel('copy', ['in i32*', 'in i32*', 'i32'])
      const [to, from] = [device.alloc(4 * N, { stream: one }), device.alloc(4 * N, { stream: one })]
      one.fill(from, 1)
      using graph = one.capture(() => void one.launch(kernel, ONE, to, from, N))
      using exec = graph.instantiate()
      one.launch(exec).launch(exec)
      await one.finished()
    })
    assert.deepEqual(kinds(reports), ['wrong-signature'])
  })
})
