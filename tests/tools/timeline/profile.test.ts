/** `Timeline.record(fn, { profile: true })`: what the simulator counts of kernels, at the operations that launched them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { defineKernel, type Kernel, Module, type Stream } from 'cuda-streams'
import { type Simulation, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { dataOfPage } from './page-data.js'

/** Each thread writes a word, so many bytes behind that of the thread before. */
const PTX = `.version 8.0
.target sm_70
.address_size 64
.visible .entry strided(.param .u64 to, .param .u32 stride)
{
.reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [stride]; mov.u32 %r2, %tid.x;
mul.wide.u32 %rd2, %r1, %r2; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r2;
ret;
}
`
const ONE_WARP = { grid: 1, block: 32 }

interface Scene {
  readonly simulation: Simulation
  readonly stream: Stream
  /** Launches the kernel, whose warp touches so many sectors. */
  readonly launch: (sectors: 4 | 8 | 32) => void
}

function scene(): Scene {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const stream = device.createStream()
  const kernel: Kernel<['out u32*', 'u32']> = Module.load(PTX, { device }).kernel('strided', ['out u32*', 'u32'])
  const data = device.alloc(4096, { stream })
  return { simulation, stream, launch: (sectors) => void stream.launch(kernel, ONE_WARP, data, sectors) }
}

/** The sectors of each kernel of a timeline, or undefined where nothing was counted. */
const sectorsOf = ({ operations }: Timeline): readonly (number | undefined)[] =>
  operations
    .filter(({ kind }) => kind === 'kernel')
    .map(({ profile }) => profile?.lines.reduce((sum, { sectors }) => sum + sectors, 0))

describe('a timeline with the option profile', () => {
  it('has what simulation.profile() says, at each kernel, in the order of the calls', async () => {
    const { simulation, launch } = scene()
    const profiles = await simulation.profile(() => launch(32))
    const timeline = await Timeline.record(
      () => {
        launch(32)
        launch(4)
      },
      { simulation, profile: true },
    )
    assert.deepEqual(sectorsOf(timeline), [32, 4])
    assert.deepEqual(timeline.operations[0]?.profile, profiles[0])
  })

  it('changes no virtual time, and without it nothing is counted', async () => {
    const [plain, counted] = await Promise.all(
      [false, true].map(async (profile) => {
        const { simulation, stream, launch } = scene()
        return Timeline.record(
          () => {
            launch(8)
            stream.launchHostFunc(() => {})
            launch(32)
          },
          { simulation, profile },
        )
      }),
    )
    assert.ok(plain && counted)
    const times = ({ operations }: Timeline): unknown => operations.map(({ start, end }) => [start, end])
    assert.deepEqual(times(counted), times(plain))
    assert.deepEqual([sectorsOf(plain), sectorsOf(counted)], [Array(2).fill(undefined), [8, 32]])
  })

  it('has none for other operations, and for kernels that the simulator runs as JavaScript', async () => {
    const { simulation, stream } = scene()
    const inJavaScript = defineKernel({
      name: 'nothing',
      source: 'extern "C" __global__ void nothing() {}',
      signature: [],
      simulate() {},
    })
    const { operations } = await Timeline.record(
      () => {
        stream.launch(inJavaScript, ONE_WARP)
        stream.record()
      },
      { simulation, profile: true },
    )
    assert.deepEqual(
      operations.map(({ kind, profile }) => [kind, profile]),
      [
        ['kernel', undefined],
        ['record', undefined],
      ],
    )
  })

  it('has those of the nodes of each launch of a graph', async () => {
    const { simulation, stream, launch } = scene()
    using graph = stream.capture(() => {
      launch(4)
      launch(8)
    })
    using exec = graph.instantiate()
    const timeline = await Timeline.record(
      () => {
        stream.launch(exec)
        launch(32)
        stream.launch(exec)
      },
      { simulation, profile: true },
    )
    assert.deepEqual(sectorsOf(timeline), [4, 8, 32, 4, 8])
  })

  it('counts as long as it goes on: neither what was launched before, nor what comes after', async () => {
    const { simulation, stream, launch } = scene()
    launch(4)
    const counted = await Timeline.record(() => launch(8), { simulation, profile: true })
    assert.deepEqual(sectorsOf(counted), [8])
    assert.deepEqual(sectorsOf(await Timeline.record(() => launch(8), { simulation })), [undefined])
    await stream.finished()
  })

  it('counts where it begins while an earlier recording waits for its work', async () => {
    const { simulation, stream, launch } = scene()
    const earlier = Timeline.start({ simulation })
    launch(4)
    const stopped = earlier.stop()
    const later = Timeline.start({ simulation, profile: true })
    launch(32)
    await stream.finished()
    assert.deepEqual(sectorsOf(await later.stop()), [32])
    assert.equal((await stopped).operations.length, 1)
  })

  it('has what is known where it is stopped at once', async () => {
    const { simulation, stream, launch } = scene()
    const recording = Timeline.start({ simulation, profile: true })
    launch(4)
    await stream.finished()
    launch(8)
    assert.deepEqual(sectorsOf(recording.stopNow()), [4, undefined])
    await stream.finished()
  })

  it('is in the file of the page, at the rows of the kernels', async () => {
    const { simulation, launch } = scene()
    const timeline = await Timeline.record(() => launch(32), { simulation, profile: true })
    const [kernel] = timeline.operations
    assert.deepEqual(dataOfPage(timeline.toHtml()).profiles, [[0, JSON.parse(JSON.stringify(kernel?.profile))]])
  })

  it('must be a boolean', () => {
    const { simulation } = scene()
    assert.throws(() => Timeline.start({ simulation, profile: 1 as never }), { code: 'ERR_INVALID_ARG_TYPE' })
  })
})
