/** What the simulator counts of kernels, line by line: `simulation.profile()`. The expected numbers are computed by hand. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type LaunchConfig, Module } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { type KernelProfile, type LineProfile, simulate } from 'cuda-streams/sim'

const HEAD = `.version 8.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .pred %p<4>; .reg .f32 %f<9>; .reg .f64 %d<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .shared .align 16 .b8 words[8448];
ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mov.u32 %r2, words;
`
/** The line at which the code of a test begins. */
const FIRST = HEAD.split('\n').length

/** The profile of one launch of a kernel with this code, and its lines: index 0 is the first line of the code. */
async function profiled(
  code: string,
  config: LaunchConfig = { grid: 1, block: 32 },
  target = 'sm_70',
): Promise<{ readonly profile: KernelProfile; readonly lines: readonly (LineProfile | undefined)[] }> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using module = Module.load(`${HEAD.replace('sm_70', target)}${code}\n}\n`, { device })
  const kernel = module.kernel('k', ['inout u8*'])
  using stream = device.createStream()
  using data = device.alloc(1 << 16, { stream })
  const [profile, ...others] = await simulation.profile(() => stream.launch(kernel, config, data))
  assert.ok(profile)
  assert.deepEqual(others, [])
  const count = code.split('\n').length
  const lines = Array.from({ length: count }, (_, index) => profile.lines.find(({ line }) => line === FIRST + index))
  return { profile, lines }
}

const global = (line: LineProfile | undefined) => [line?.globalRequests, line?.sectors]
const shared = (line: LineProfile | undefined) => [line?.sharedRequests, line?.wavefronts, line?.bankConflicts]

/** Computes %rd3: data + a * tid + b. */
const at = (a: number, b = 0) => `mad.wide.u32 %rd2, %r1, ${a}, ${b}; add.s64 %rd3, %rd1, %rd2;`
/** Computes %r4: words + a * tid + b. */
const word = (a: number, b = 0) => `mad.lo.u32 %r4, %r1, ${a}, ${b}; add.u32 %r4, %r4, %r2;`

describe('sectors of 32 bytes that a warp touches', () => {
  for (const [what, address, sectors, ideal] of [
    ['neighbours: 128 bytes are 4', at(4), 4, 4],
    ['every other one: 256 bytes are 8, and 4 would hold what is wanted', at(8), 8, 4],
    ['every 32nd: one for each thread, and 4 would hold what is wanted', at(128), 32, 4],
    ['one element beside the beginning of a sector: 5', at(4, 4), 5, 4],
    ['all threads at one address: 1', at(0), 1, 1],
    [
      'in reverse order: 4, as the order does not matter',
      'mul.wide.u32 %rd2, %r1, 4; sub.s64 %rd3, %rd1, %rd2; add.s64 %rd3, %rd3, 124;',
      4,
      4,
    ],
  ] as const) {
    it(what, async () => {
      const { lines } = await profiled(`${address}\nld.global.f32 %f1, [%rd3];\nst.global.f32 [%rd3], %f1;\nret;`)
      assert.deepEqual(lines.map(global).slice(0, 3), [
        [0, 0],
        [1, sectors],
        [1, sectors],
      ])
      assert.deepEqual([lines[1]?.idealSectors, lines[2]?.idealSectors], [ideal, ideal])
    })
  }

  it('16 bytes of each thread are 16, in one request; 8 bytes are 8; 1 byte is 1', async () => {
    const code = `${at(16)}
ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3];
${at(8)}
ld.global.f64 %d1, [%rd3];
${at(1)}
ld.global.u8 %r5, [%rd3];
ret;`
    const { lines } = await profiled(code)
    assert.deepEqual(
      [1, 3, 5].map((index) => global(lines[index])),
      [
        [1, 16],
        [1, 8],
        [1, 1],
      ],
    )
  })

  it('each warp of each block makes a request, the last one only for the threads that it has', async () => {
    const { lines } = await profiled(`${at(4)}\nld.global.f32 %f1, [%rd3];\nret;`, { grid: 3, block: 72 })
    // Two full warps, and one of 8 threads, whose 32 bytes are one sector.
    assert.deepEqual(global(lines[1]), [9, 3 * (4 + 4 + 1)])
    assert.equal(lines[1]?.idealSectors, 27)
    assert.equal(lines[1]?.activeThreads, 24)
  })

  it('an access by some threads alone counts what they touch', async () => {
    const code = `${at(4)}
setp.lt.u32 %p1, %r1, 8;
@%p1 ld.global.f32 %f1, [%rd3];
ret;`
    const { lines } = await profiled(code)
    assert.deepEqual(global(lines[2]), [1, 1])
  })

  it('of a generic address that of the memory which it leads to', async () => {
    const code = `${at(4)}
ld.f32 %f1, [%rd3];
cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd4, %rd4; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd4, %rd4, %rd2;
ld.f32 %f1, [%rd4];
ret;`
    const { lines } = await profiled(code)
    assert.deepEqual(
      [global(lines[1]), shared(lines[1])],
      [
        [1, 4],
        [0, 0, 0],
      ],
    )
    assert.deepEqual(
      [global(lines[3]), shared(lines[3])],
      [
        [0, 0],
        [1, 1, 0],
      ],
    )
  })

  it('an atomic counts as one access, and cp.async as one of each memory', async () => {
    const code = `${at(0)} ${word(16)}
red.global.add.u32 [%rd3], %r1;
${at(16)}
cp.async.cg.shared.global [%r4], [%rd3], 16;
ret;`.replace('ret', 'cp.async.wait_all; ret')
    const { lines } = await profiled(code, undefined, 'sm_80')
    assert.deepEqual(global(lines[1]), [1, 1])
    assert.deepEqual(
      [global(lines[3]), shared(lines[3])],
      [
        [1, 16],
        [1, 4, 0],
      ],
    )
  })
})

describe('banks of shared memory', () => {
  for (const [what, address, wavefronts] of [
    ['neighbours: one pass', word(4), 1],
    ['all threads at one word: one pass', word(0), 1],
    ['every other word: two threads for each bank', word(8), 2],
    ['a column of 32 by 32: all in one bank', word(128), 32],
    ['a column of 32 by 33: a bank for each', word(132), 1],
    ['four bytes of one word each: one pass', word(1), 1],
  ] as const) {
    it(what, async () => {
      const access = what.startsWith('four') ? 'ld.shared.u8 %r5' : 'ld.shared.f32 %f1'
      const { lines } = await profiled(`${address}\n${access}, [%r4];\nret;`)
      assert.deepEqual(shared(lines[1]), [1, wavefronts, wavefronts - 1])
    })
  }

  it('16 bytes of each thread take four passes, 8 bytes two, without a conflict', async () => {
    const code = `${word(16)}
ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r4];
${word(8)}
ld.shared.f64 %d1, [%r4];
${word(16)}
ld.shared.f64 %d1, [%r4];
ret;`
    const { lines } = await profiled(code)
    assert.deepEqual(
      [1, 3, 5].map((index) => shared(lines[index])),
      [
        [1, 4, 0],
        [1, 2, 0],
        // Of each half of the warp, threads 0 and 8 want the same banks.
        [1, 4, 2],
      ],
    )
  })
})

describe('divergence', () => {
  it('a branch by odd and even threads divides the warp there, and nowhere else', async () => {
    const code = `and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0;
@%p1 bra EVEN;
add.u32 %r5, %r1, 1;
bra BOTH;
EVEN: add.u32 %r5, %r1, 2;
BOTH: add.u32 %r6, %r5, %r5;
setp.lt.u32 %p2, %r1, 99;
@%p2 bra END;
add.u32 %r6, %r6, 1;
END: ret;`
    const { lines } = await profiled(code)
    const branches = lines.map(
      (line) => line && [line.instructions, line.activeThreads, line.branches, line.divergentBranches],
    )
    assert.deepEqual(branches, [
      [2, 32, 0, 0],
      [1, 32, 1, 1],
      [1, 16, 0, 0],
      [1, 16, 0, 0],
      [1, 16, 0, 0],
      [1, 32, 0, 0],
      [1, 32, 0, 0],
      [1, 32, 1, 0],
      undefined,
      [1, 32, 0, 0],
    ])
  })

  it('a loop of as many rounds as the number of the thread: lanes wait behind it for the last', async () => {
    const code = `mov.u32 %r3, 0;
LOOP: add.u32 %r3, %r3, 1;
setp.le.u32 %p1, %r3, %r1;
@%p1 bra LOOP;
ret;`
    const { lines } = await profiled(code)
    // Round i is that of the 32 - i threads whose number is at least i.
    assert.deepEqual([lines[1]?.instructions, lines[1]?.activeThreads], [32, (32 * 33) / 2 / 32])
    // In the last round there is one thread, which cannot part.
    assert.deepEqual([lines[3]?.branches, lines[3]?.divergentBranches], [32, 31])
    assert.deepEqual([lines[4]?.instructions, lines[4]?.activeThreads], [1, 32])
  })

  it('threads that return early are active no more', async () => {
    const code = `setp.ge.u32 %p1, %r1, 10;
@%p1 ret;
add.u32 %r3, %r1, 1;
ret;`
    const { lines } = await profiled(code)
    assert.deepEqual(
      lines.map((line) => [line?.instructions, line?.activeThreads, line?.divergentBranches]),
      [
        [1, 32, 0],
        [1, 32, 1],
        [1, 10, 0],
        [1, 10, 0],
      ],
    )
  })

  it('goes on across barriers and shuffles, where threads stop', async () => {
    const code = `${word(4)}
st.shared.u32 [%r4], %r1;
bar.sync 0;
ld.shared.u32 %r5, [%r4];
shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;
st.shared.u32 [%r4], %r6;
ret;`
    const { lines } = await profiled(code, { grid: 2, block: 64 })
    assert.deepEqual(lines.map((line) => [line?.instructions, line?.activeThreads]).slice(1), Array(6).fill([4, 32]))
    assert.deepEqual(
      [1, 3, 5].map((index) => shared(lines[index])),
      Array(3).fill([4, 4, 0]),
    )
  })

  it('while one thread is long at work, in several turns, and the others wait at a barrier', async () => {
    const code = `mov.u32 %r3, 0; setp.ne.u32 %p1, %r1, 0;
@%p1 bra MEET;
LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 300000;
@%p2 bra LOOP;
MEET: bar.sync 0;
add.u32 %r3, %r3, 1;
ret;`
    const { lines } = await profiled(code)
    assert.deepEqual(
      lines.map((line) => [line?.instructions, line?.activeThreads]),
      [
        [2, 32],
        [1, 32],
        [600_000, 1],
        [300_000, 1],
        [1, 32],
        [1, 32],
        [1, 32],
      ],
    )
  })

  it('in functions, whose lanes are together again where they return', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const text = `.version 8.0
.target sm_70
.address_size 64
.func (.reg .b32 d) f(.reg .b32 a)
{
.reg .pred %p<2>; .reg .b32 %r<4>;
and.b32 %r1, a, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 d, a;
@%p1 bra END;
add.u32 d, a, 5;
END: ret;
}
.visible .entry k(.param .u64 data)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x;
call (%r2), f, (%r1);
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r2;
ret;
}
`
    using module = Module.load(text, { device })
    using stream = device.createStream()
    using data = device.alloc(128, { stream })
    const kernel = module.kernel('k', ['out u32*'])
    const [profile] = await simulation.profile(() => stream.launch(kernel, { grid: 1, block: 32 }, data))
    const lineOf = (wanted: number) => profile?.lines.find(({ line }) => line === wanted)
    assert.deepEqual(
      [8, 9, 10].map((line) => lineOf(line)?.activeThreads),
      [32, 16, 32],
    )
    assert.deepEqual([lineOf(8)?.branches, lineOf(8)?.divergentBranches], [1, 1])
    assert.deepEqual([lineOf(18)?.instructions, lineOf(18)?.sectors], [1, 4])
  })
})

describe('simulation.profile()', () => {
  it('tells the launch, and the occupancy by threads and shared memory', async () => {
    const { profile } = await profiled('ret;', { grid: [2, 3], block: [16, 8], sharedMemory: 30_000 })
    assert.deepEqual([profile.kernel, profile.grid, profile.block], ['k', [2, 3, 1], [16, 8, 1]])
    // 8448 + 30000 bytes, and 1 KiB of the system: five blocks of 4 warps in 228 KiB, of 64 warps.
    assert.equal(profile.activeBlocks, 5)
    assert.equal(profile.occupancy, 20 / 64)
  })

  it('has all launches of the function, in their order, also of graphs, and none from before or after', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using module = Module.load(`${HEAD}ret;\n}\n`, { device })
    const kernel = module.kernel('k', ['inout u8*'])
    using stream = device.createStream()
    using data = device.alloc(64, { stream })
    const launch = (grid: number): unknown => stream.launch(kernel, { grid, block: 32 }, data)
    using graph = stream.capture(() => launch(3))
    using exec = graph.instantiate()
    launch(1)
    const profiles = await simulation.profile(async () => {
      launch(2)
      await stream.finished()
      stream.launch(exec)
    })
    launch(4)
    await stream.finished()
    assert.deepEqual(
      profiles.map(({ grid }) => grid[0]),
      [2, 3],
    )
    await assert.rejects(
      simulation.profile(() => Promise.reject(new Error('mine'))),
      { message: 'mine' },
    )
  })

  it('leaves the sanitizer its findings, and ends where a kernel faults', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const racing = 'st.shared.u32 [%r2], %r1; ret;'
    using module = Module.load(`${HEAD}${racing}\n}\n`, { device })
    using stream = device.createStream()
    using data = device.alloc(64, { stream })
    const sanitizer = Sanitizer.start({ device })
    const launch = { grid: 1, block: 64 }
    const [profile] = await simulation.profile(() => stream.launch(module.kernel('k', ['inout u8*']), launch, data))
    assert.ok(sanitizer.reports.some(({ kind }) => kind === 'shared-memory-race'))
    assert.equal(profile?.lines.at(-1)?.sharedRequests, 2)
    sanitizer.stop()
    using faulty = Module.load(`${HEAD}st.global.u32 [%rd1+100000000], %r1; ret;\n}\n`, { device })
    const fault = faulty.kernel('k', ['inout u8*'])
    await assert.rejects(
      simulation.profile(() => stream.launch(fault, launch, data)),
      {
        message: /CUDA_ERROR_ILLEGAL_ADDRESS/,
      },
    )
  })

  it('changes no result, with a seed and without', async () => {
    for (const seed of [0, 3]) {
      using simulation = simulate({ seed })
      const [device] = simulation.devices
      assert.ok(device)
      const code = `${at(4)} ld.global.u32 %r3, [%rd3]; mad.lo.u32 %r3, %r3, 3, %r1; st.global.u32 [%rd3], %r3; ret;`
      using module = Module.load(`${HEAD}${code}\n}\n`, { device })
      const kernel = module.kernel('k', ['inout u32*'])
      using stream = device.createStream()
      using data = stream.bufferFrom(Uint32Array.from({ length: 64 }, (_, i) => i))
      await simulation.profile(() => stream.launch(kernel, { grid: 1, block: 64 }, data))
      assert.deepEqual(
        await stream.download(data, Uint32Array),
        Uint32Array.from({ length: 64 }, (_, i) => 4 * i),
      )
    }
  })

  it('names lines of the source where the PTX has them', async () => {
    const { profile } = await profiled(
      '.loc 1 7 3\nadd.u32 %r3, %r1, 1;\n.loc 1 8 3\nret;\n}\n.file 1 "axpy.cu"\n.func f() {',
    )
    assert.deepEqual(
      profile.lines.filter(({ file }) => file === 'axpy.cu').map(({ line, instructions }) => [line, instructions]),
      [
        [7, 1],
        [8, 1],
      ],
    )
  })

  it('refuses what is no function', async () => {
    using simulation = simulate()
    // @ts-expect-error no function
    await assert.rejects(simulation.profile(1), { code: 'ERR_INVALID_ARG_TYPE' })
  })
})
