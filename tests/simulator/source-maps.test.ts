/** Kernels that inspectors step through in their source: `simulate({ sourceMaps })` and CUDA_STREAMS_SIM_SOURCE_MAPS. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { type Device, defineKernel, Module } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { VARIABLES } from '../../src/foundation/base/environment-variables.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import type { Seen, Steps } from './stepper.js'

const SOURCE = `extern "C" __global__ void sum(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  float all = y[i];
  for (int k = 0; k < 2; k++)
    all += x[i];
  y[i] = all;
}
`

/** What a compiler makes of it with -lineinfo. */
const PTX = `.version 8.0
.target sm_70
.address_size 64
.visible .entry sum(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .pred %p<3>; .reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %rd<8>;
.loc 1 1 0
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
.loc 1 2 3
mov.u32 %r2, %tid.x;
.loc 1 3 3
setp.ge.s32 %p1, %r2, %r1;
@%p1 bra DONE;
.loc 1 4 3
mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd2, %rd3;
ld.global.f32 %f1, [%rd4];
.loc 1 5 3
add.s64 %rd5, %rd1, %rd3; mov.u32 %r3, 0;
LOOP:
.loc 1 6 5
ld.global.f32 %f2, [%rd5]; add.f32 %f1, %f1, %f2;
.loc 1 5 3
add.s32 %r3, %r3, 1; setp.lt.s32 %p2, %r3, 2;
@%p2 bra LOOP;
.loc 1 7 3
st.global.f32 [%rd4], %f1;
DONE:
.loc 1 8 1
ret;
}
.file 1 "sum.cu"
`

const skip =
  ('bun' in process.versions || 'deno' in process.versions) && 'node:inspector has no sessions with other threads here'
const folder = mkdtempSync(join(tmpdir(), 'source-maps-'))
mkdirSync(join(folder, 'kernels'))
const file = join(folder, 'kernels', 'sum.cu')
writeFileSync(file, SOURCE)
after(() => rmSync(folder, { recursive: true }))

async function run(device: Device): Promise<readonly number[]> {
  using module = Module.load(PTX, { device })
  using stream = device.createStream()
  using x = stream.bufferFrom(Float32Array.of(1, 2, 3))
  using y = stream.bufferFrom(Float32Array.of(10, 20, 30))
  const kernel = module.kernel('sum', ['in f32*', 'inout f32*', 'i32'])
  stream.launch(kernel, { grid: 1, block: 64 }, x, y, 3)
  // An inspector stops the thread here.
  stream.synchronize()
  return [...(await stream.download(y, Float32Array))]
}

async function runsSum(device: Device): Promise<void> {
  assert.deepEqual(await run(device), [12, 24, 36])
}

/** Lets a client stop and step while a kernel runs. */
async function stepped(wanted: Steps, sourceMaps: boolean | string, runs = runsSum): Promise<readonly Seen[]> {
  const worker = new Worker(new URL('stepper.js', import.meta.url), { workerData: wanted })
  await once(worker, 'message')
  using simulation = simulate({ sourceMaps })
  const [device] = simulation.devices
  assert.ok(device)
  await runs(device)
  const told = once(worker, 'message')
  const ended = once(worker, 'exit')
  worker.postMessage('end')
  const [seen] = await told
  await ended
  return seen
}

const linesOf = (seen: readonly Seen[]): readonly number[] => seen.map(({ line }) => line)

describe('an inspector', { skip }, () => {
  it('stops at a line of the .cu file and steps from line to line', async () => {
    const seen = await stepped({ file: 'sum.cu', line: 3, steps: 6 }, folder)
    assert.deepEqual(linesOf(seen), [3, 4, 5, 6, 5, 6, 5])
    assert.deepEqual(new Set(seen.map((each) => each.file)), new Set([pathToFileURL(file).href]))
    assert.deepEqual(new Set(seen.map((each) => each.fn)), new Set(['$sum']))
    assert.equal(seen[0]?.text, 'if (i >= n) return;')
  })

  it('shows registers by their names, as they are at the line, and the thread', async () => {
    const seen = await stepped({ file: 'sum.cu', line: 7, steps: 0 }, folder)
    assert.deepEqual(
      ['$%f1', '$%r1', '$%r2', '$thread'].map((name) => seen[0]?.locals[name]),
      ['12', '3', '0', '0'],
    )
  })

  it('goes through threads one after the other', async () => {
    const seen = await stepped({ file: 'sum.cu', line: 8, steps: 1 }, folder)
    assert.deepEqual(
      seen.map(({ line, locals }) => [line, locals['$thread']]),
      [
        [8, '0'],
        [1, '1'],
      ],
    )
  })

  it('stops in the one thread that a condition names', async () => {
    const seen = await stepped({ file: 'sum.cu', line: 7, condition: '$thread.value == 2', steps: 0 }, folder)
    assert.deepEqual([seen[0]?.locals['$thread'], seen[0]?.locals['$%f1']], ['2', '36'])
  })

  it('steps through the PTX where the source is not found', async () => {
    const seen = await stepped({ file: 'sum.ptx', line: 10, steps: 1 }, join(folder, 'nowhere'))
    assert.deepEqual(
      seen.map(({ text }) => text),
      ['mov.u32 %r2, %tid.x;', 'setp.ge.s32 %p1, %r2, %r1;'],
    )
  })
})

const REVERSE = `extern "C" __global__ void reverse(int *all) {
  __shared__ int words[64];
  words[threadIdx.x] = all[threadIdx.x];
  __syncthreads();
  int other = words[63 - threadIdx.x];
  all[threadIdx.x] = 3 * other;
}
`

/** Compiles and runs a kernel whose source is a text of the program. */
async function runsReverse(device: Device): Promise<void> {
  const reverse = defineKernel({ name: 'reverse', source: REVERSE, signature: ['inout i32*'] })
  using stream = device.createStream()
  using all = stream.bufferFrom(Int32Array.from({ length: 64 }, (_, i) => i))
  stream.launch(reverse, { grid: 1, block: 64 }, all)
  stream.synchronize()
  const after = await stream.download(all, Int32Array)
  assert.deepEqual(
    after,
    Int32Array.from({ length: 64 }, (_, i) => 3 * (63 - i)),
  )
}

describe('an inspector and NVRTC', { skip: skip || lacksNvrtc() }, () => {
  it('stops in a source that is a text of the program, compiled without options, also behind a barrier', async () => {
    const wanted = { file: 'reverse.cu', line: 5, condition: '$thread.value == 7', steps: 1 }
    const seen = await stepped(wanted, true, runsReverse)
    assert.deepEqual(linesOf(seen), [5, 6])
    assert.equal(seen[0]?.text, 'int other = words[63 - threadIdx.x];')
    assert.equal(seen[0]?.file, 'cuda-streams:///reverse.cu')
  })
})

describe('simulate({ sourceMaps })', () => {
  it('changes no result', async () => {
    for (const sourceMaps of [false, true, folder]) {
      using simulation = simulate({ sourceMaps })
      const [device] = simulation.devices
      assert.ok(device)
      assert.deepEqual(await run(device), [12, 24, 36])
    }
  })

  it('refuses what is no folder', () => {
    // @ts-expect-error a number
    assert.throws(() => simulate({ sourceMaps: 1 }), {
      code: 'ERR_INVALID_ARG_TYPE',
      message: /options\.sourceMaps.*true, false or the folder of the sources/,
    })
    assert.throws(() => simulate({ sourceMaps: '' }), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: "options.sourceMaps is '', which is no folder: true is the working directory",
    })
  })

  it('is what CUDA_STREAMS_SIM_SOURCE_MAPS says by default', () => {
    const { row } = VARIABLES.simSourceMaps
    assert.deepEqual([row.default, row.parse('0'), row.parse('1'), row.parse('src')], ['', '', '.', 'src'])
  })
})
