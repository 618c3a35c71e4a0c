/** A launch on several cores makes what it makes on one: the same bytes, statistics and faults, whoever runs its blocks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Module, Stream } from '../../src/entry-points/index.js'
import { simulate } from '../../src/entry-points/sim.js'
import { BlockMachine } from '../../src/ptx/block-machine.js'
import type { BlockResult, BlockRun, BlockTask, BlockWorkers, WorkerKernel } from '../../src/ptx/block-workers.js'
import { KernelWorkers } from '../../src/simulator/launch-workers.js'
import { Machine, type NumericArray, ptxOf, type TestLaunch } from './machine.js'

/** data[i] becomes what so many rounds make of data[(i + shift) % count]; `table` is a variable of the module. */
const ROUNDS = `.version 7.0
.target sm_75
.address_size 64
.global .align 4 .u32 table[2] = {1664525, 1013904223};
.visible .entry rounds(.param .u64 data, .param .u32 rounds, .param .u32 shift, .param .u32 count) {
  .reg .b64 %rd<8>;
  .reg .b32 %r<16>;
  .reg .pred %p<3>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [rounds];
  ld.param.u32 %r2, [shift];
  ld.param.u32 %r3, [count];
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ntid.x;
  mov.u32 %r6, %tid.x;
  mad.lo.u32 %r7, %r4, %r5, %r6;
  add.u32 %r8, %r7, %r2;
  rem.u32 %r8, %r8, %r3;
  mul.wide.u32 %rd2, %r8, 4;
  add.u64 %rd3, %rd1, %rd2;
  mul.wide.u32 %rd4, %r7, 4;
  add.u64 %rd5, %rd1, %rd4;
  ld.global.u32 %r9, [table];
  ld.global.u32 %r10, [table+4];
  ld.global.u32 %r11, [%rd3];
again:
  mad.lo.u32 %r11, %r11, %r9, %r10;
  xor.b32 %r11, %r11, %r1;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra again;
  st.global.u32 [%rd5], %r11;
  ret;
}
.visible .entry leftovers(.param .u64 out) {
  .local .align 4 .b8 depot[16];
  .reg .b64 %rd<4>;
  .reg .b32 %r<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.local.u32 %r5, [depot];
  add.u32 %r6, %r4, 1;
  st.local.u32 [depot], %r6;
  mul.wide.u32 %rd2, %r4, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r5;
  ret;
}
`
const BLOCKS = 512
const COUNT = 256 * BLOCKS
const SHAPE = { grid: BLOCKS, block: 256 }
/** So many that it takes some 100 ms on one core. */
const MANY = 1000
const data = (): Uint32Array => Uint32Array.from({ length: COUNT }, (_, index) => Math.imul(index, 2654435761))

/** Workers in this thread: each runs its part of the blocks when the one before is done. */
class Parts implements BlockWorkers {
  runs = 0
  readonly #machines

  constructor(
    readonly count: number,
    kernel: WorkerKernel,
  ) {
    this.#machines = Array.from({ length: count }, () => new BlockMachine())
    for (const machine of this.#machines) machine.load(1, kernel)
  }

  isWorth(): boolean {
    return true
  }

  isReady(): boolean {
    return true
  }

  memory(byteLength: number): ArrayBufferLike {
    return new SharedArrayBuffer(byteLength)
  }

  run(task: BlockTask): BlockRun {
    this.runs += 1
    return { results: () => this.#results(task) }
  }

  #results(task: BlockTask): readonly BlockResult[] | undefined {
    const next = new Int32Array(task.shared, 0, 1)
    const begin = next[0] ?? 0
    try {
      return this.#machines.map((machine, part) => {
        const end = begin + Math.ceil(((task.end - begin) * (part + 1)) / this.count)
        next[0] = begin + Math.ceil(((task.end - begin) * part) / this.count)
        return machine.run(1, { ...task, end, step: 5 })
      })
    } catch {
      return undefined
    }
  }
}

interface Outcome {
  readonly memory: NumericArray
  readonly statistics: unknown
  readonly error: string
  readonly runs: number
  readonly runsAlone: boolean
}

type Parameters = (put: (array: NumericArray) => number) => readonly (number | NumericArray)[]

/** What a launch makes of the first memory that it gets; on one core, or as `count` parts. */
function launch(
  text: string,
  kernel: string,
  options: TestLaunch,
  parameters: Parameters,
  workersOf: (kernel: WorkerKernel) => (BlockWorkers & { readonly runs: number }) | undefined,
): Outcome {
  const machine = new Machine()
  const module = machine.load(text)
  const code = module.code(kernel)
  const workers = workersOf({ text, kernel, addresses: code.variables })
  let first: { readonly address: number; readonly array: NumericArray } | undefined
  const values = parameters((array) => {
    const address = machine.put(array)
    first ??= { address, array }
    return address
  })
  const run = machine.prepare(module, kernel, { ...options, workers }, values)
  let error = ''
  try {
    while (run.run() === 'more') {}
  } catch (thrown) {
    error = String(thrown)
  }
  const { statistics } = run
  const memory = first === undefined ? new Int32Array(0) : machine.get(first.address, first.array)
  return { memory, statistics, error, runs: workers?.runs ?? 0, runsAlone: code.runsAlone }
}

function compare(
  text: string,
  kernel: string,
  options: TestLaunch,
  parameters: Parameters,
  runsAlone: boolean,
  error = /^$/,
): void {
  const alone = launch(text, kernel, options, parameters, () => undefined)
  const spread = launch(text, kernel, options, parameters, (each) => new Parts(3, each))
  assert.equal(spread.runs, 1, 'workers were asked')
  assert.match(alone.error, error)
  assert.deepEqual({ ...spread, runs: 0 }, { ...alone, runs: 0, runsAlone })
}

const rounds =
  (shift: number, count = COUNT): Parameters =>
  (put) => [put(data()), MANY, shift, count]

test('blocks that touch bytes of their own give the same bytes and statistics on several cores', () => {
  compare(ROUNDS, 'rounds', SHAPE, rounds(0), false)
  const size = 400
  const matrix = (): Float32Array => Float32Array.from({ length: size * size }, (_, index) => Math.sin(index))
  const square = { grid: [size / 16, size / 16, 1], block: [16, 16, 1] } as const
  const product: Parameters = (put) => {
    const result = put(new Float32Array(size * size))
    return [put(matrix()), put(matrix()), result, size]
  }
  const text = ptxOf('matrices.sm_75')
  compare(text, 'matmul_tiled', square, product, false)
  const tile: Parameters = (put) => [put(new Int32Array(512 * 512)), 512, 512, 700]
  compare(ptxOf('images.sm_75'), 'mandelbrot', { grid: [32, 64, 1], block: [16, 8, 1] }, tile, false)
})

test('blocks that read what others write run on one core, in its order', () => {
  compare(ROUNDS, 'rounds', SHAPE, rounds(COUNT / 2), true)
  compare(ROUNDS, 'rounds', SHAPE, rounds(COUNT - 256), true)
})

test('blocks that write the same bytes run on one core, in its order', () => {
  const text = ROUNDS.replace('mul.wide.u32 %rd4, %r7, 4;', 'rem.u32 %r12, %r7, %r3;\n  mul.wide.u32 %rd4, %r12, 4;')
  compare(text, 'rounds', SHAPE, rounds(0, COUNT / 2), true)
})

test('a fault in a worker is the fault of the launch, with the memory that one core leaves', () => {
  const beyond: Parameters = (put) => [put(data().subarray(0, COUNT - 300)), MANY, 0, COUNT]
  compare(ROUNDS, 'rounds', SHAPE, beyond, true, /reads 4 bytes at .* behind the end of the block/)
})

test('a launch with a schedule, and one whose kernel may wait for other blocks, run on one core', () => {
  const none = launch(ROUNDS, 'rounds', { ...SHAPE, choose: () => 0 }, rounds(0), (each) => new Parts(2, each))
  assert.equal(none.runs, 0)
  const text = ROUNDS.replace('ld.global.u32 %r11', 'ld.volatile.global.u32 %r11')
  assert.equal(launch(text, 'rounds', SHAPE, rounds(0), (each) => new Parts(2, each)).runs, 0)
})

test('workers that are at work when a part of the launch is over are asked again in the next one', () => {
  let pending = 0
  class Slow extends Parts {
    override run(task: BlockTask): BlockRun {
      const { results } = super.run(task)
      let asked = 0
      return {
        results: (milliseconds) => {
          asked += 1
          pending = asked
          return asked <= 3 ? 'pending' : results(milliseconds)
        },
      }
    }
  }
  const alone = launch(ROUNDS, 'rounds', SHAPE, rounds(0), () => undefined)
  const spread = launch(ROUNDS, 'rounds', SHAPE, rounds(0), (each) => new Slow(2, each))
  assert.deepEqual({ ...spread, runs: 1 }, { ...alone, runs: 1 })
  assert.deepEqual([spread.runs, pending], [1, 4])
})

test('a kernel with atomics or fences of global memory runs on one core, and one that allocates', () => {
  const alone = (line: string): boolean => {
    const malloc = '.extern .func (.param .b64 result) malloc (.param .b64 size);\n.visible .entry rounds'
    const text = ROUNDS.replace('.visible .entry rounds', malloc).replace('ret;', `${line}\n  ret;`)
    return new Machine().load(text).code('rounds').runsAlone
  }
  assert.ok(alone('atom.global.xor.b32 %r12, [%rd5], %r11;'))
  assert.ok(alone('red.add.u32 [%rd5], %r11;'))
  assert.ok(alone('membar.gl;'))
  assert.ok(alone('fence.acq_rel.gpu;'))
  assert.ok(!alone('membar.cta;'))
  assert.ok(!alone('fence.acq_rel.cta;'))
  const call = 'st.param.b64 [size], %rd5;\n  call.uni (result), malloc, (size);'
  assert.ok(alone(`{ .param .b64 size; .param .b64 result; ${call} }`), 'later launches have what it allocated')
})

test('a worker has no variables of a kernel that does not run: its memory may lie there in another simulation', () => {
  const machine = new Machine()
  const { variables } = machine.load(ROUNDS).code('rounds')
  const worker = new BlockMachine()
  worker.load(1, { text: ROUNDS, kernel: 'rounds', addresses: variables })
  const [table = 0] = variables.values()
  const elsewhere = new Map([['table', table - 4096]])
  worker.load(2, { text: ROUNDS, kernel: 'rounds', addresses: elsewhere })
  const shared = new SharedArrayBuffer(8192)
  new Uint32Array(shared, 64, 2).set([1, 1])
  const at = table - 64
  const parameters = new Uint8Array(20)
  const view = new DataView(parameters.buffer)
  view.setBigUint64(0, BigInt(table), true)
  for (const [index, value] of [1, 0, 2].entries()) view.setUint32(8 + 4 * index, value, true)
  const { accesses } = worker.run(2, {
    configuration: { grid: [1, 1, 1], block: [2, 1, 1], parameters },
    gridId: 1n,
    instructionLimit: 1e9,
    shared,
    memory: [
      { begin: table - 4096, byteLength: 8, at: 64 },
      { begin: at, byteLength: 128, at: 128 },
    ],
    end: 1,
    step: 1,
  })
  assert.deepEqual(
    accesses.map(({ begin, writes }) => [begin, ...writes]),
    [[table - 4096], [at, table, table + 8]],
  )
})

test('local memory that a thread has not written is zero, whatever blocks ran before', () => {
  const machine = new Machine()
  const module = machine.load(ROUNDS)
  const out = machine.put(new Uint32Array(4 * 256).fill(7))
  machine.run(module, 'leftovers', { grid: 4, block: 256 }, [out])
  assert.deepEqual(machine.get(out, new Uint32Array(4 * 256)), new Uint32Array(4 * 256))
})

test('threads of the system run blocks, from one launch to the next', async () => {
  const module = { text: ROUNDS, kernel: 'rounds' }
  const real = new (class extends KernelWorkers {
    runs = 0
    milliseconds = Number.POSITIVE_INFINITY
    override isWorth(): boolean {
      super.isWorth({ computed: 1000, rest: 1000, byteLength: 0 })
      return true
    }
    decides(computed: number): boolean {
      return super.isWorth({ computed, rest: 1000, byteLength: 0 })
    }
    override run(task: BlockTask): BlockRun {
      this.runs += 1
      return super.run(task, this.milliseconds)
    }
  })(2, () => ({ ...module, addresses: new Machine().load(ROUNDS).code('rounds').variables }))
  while (!real.isReady()) await turn()
  const alone = launch(ROUNDS, 'rounds', SHAPE, rounds(0), () => undefined)
  for (const [index, expected] of [1, 2].entries()) {
    const spread = launch(ROUNDS, 'rounds', SHAPE, rounds(0), () => real)
    assert.deepEqual({ ...spread, runs: real.runs }, { ...alone, runs: expected }, `launch ${index}`)
  }
  real.milliseconds = 0
  assert.equal(launch(ROUNDS, 'rounds', SHAPE, rounds(0), () => real).runs, 3)
  assert.equal(real.decides(1000), false, 'workers that take longer than one core are not asked again')
  assert.equal(real.decides(Number.POSITIVE_INFINITY), true, 'until the code has run for a while')
  real.close()
})

test('a simulation on two cores has the memory and the virtual time of one', async () => {
  const run = async (cores: string): Promise<readonly unknown[]> => {
    process.env['CUDA_STREAMS_SIM_CORES'] = cores
    using simulation = simulate()
    delete process.env['CUDA_STREAMS_SIM_CORES']
    const [device] = simulation.devices
    using stream = new Stream({ device })
    using module = Module.load(new TextEncoder().encode(ROUNDS), { device })
    const kernel = module.kernel('rounds', ['inout u32*', 'u32', 'u32', 'u32'])
    using memory = stream.bufferFrom(data())
    for (let launches = 0; launches < 4; launches++) {
      stream.launch(kernel, SHAPE, memory, MANY, 0, COUNT)
      await stream.finished()
    }
    return [await stream.download(memory, Uint32Array), simulation.now]
  }
  assert.deepEqual(await run('2'), await run('1'))
})
