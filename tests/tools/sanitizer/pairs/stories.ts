/** Pairs that no table makes: mistakes as they are made in programs, each with its fixed version. */
import { type Device, type DeviceBuffer, defineKernel, type GraphExec, PinnedBuffer, type Stream } from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { type PairedProgram, type Stage, type Step, streamOf } from './pairs.js'

const BYTES = 16
const ONE = { grid: 1, block: 1 }
const WORD = 4

const step = (name: string, run: Step['run']): Step => ({ name, run })
const on =
  (name: string, run: (stream: Stream, stage: Stage) => unknown): Step['run'] =>
  (stage) =>
    run(streamOf(stage, name), stage)

function kept<T>(stage: Stage, name: string, make: (device: Device) => T): T {
  if (!stage.keep.has(name)) stage.keep.set(name, make(stage.device))
  return stage.keep.get(name) as T
}
const buffer = (stage: Stage, name: string): DeviceBuffer => kept(stage, name, (device) => device.alloc(BYTES))
const pinned = (stage: Stage, name: string): PinnedBuffer => kept(stage, name, (device) => device.allocPinned(BYTES))

/** All is there, with known bytes, and done; the streams have their names. */
const begin = (buffers: readonly string[], pinnedBuffers: readonly string[] = []): Step =>
  step('begin', (stage) => {
    for (const name of ['a', 'b', 'c']) streamOf(stage, name)
    for (const name of buffers) stage.device.defaultStream.fill(buffer(stage, name), name.length)
    for (const name of pinnedBuffers) pinned(stage, name).bytes.fill(name.length)
    stage.device.synchronize()
  })
const end = (...names: readonly string[]): Step =>
  step('end', async (stage) => {
    stage.device.synchronize()
    await stage.device.finished()
    for (const name of names)
      stage.results.push(stage.device.defaultStream.download(stage.keep.get(name) as DeviceBuffer))
  })

/** The steps, with the marked ones only in the fixed version. */
function story(name: string, steps: readonly (Step | { readonly fixed: Step })[], devices = 1): PairedProgram {
  const bug = steps.flatMap((each) => ('fixed' in each ? [] : [each]))
  return { name, devices, bug, fixed: steps.map((each) => ('fixed' in each ? each.fixed : each)) }
}
const fixed = (name: string, run: Step['run']): { readonly fixed: Step } => ({ fixed: step(name, run) })
const wait = (to: string, from: string): { readonly fixed: Step } =>
  fixed(`${to} waits for ${from}`, (stage) => streamOf(stage, to).wait(streamOf(stage, from)))

const fill = (name: string, what: string, value: number) =>
  step(
    `fill ${what} on ${name}`,
    on(name, (s, stage) => s.fill(buffer(stage, what), value)),
  )
const copy = (name: string, to: string, from: string) =>
  step(
    `copy ${from} to ${to} on ${name}`,
    on(name, (s, stage) => s.copy(buffer(stage, to), buffer(stage, from))),
  )

const count = defineKernel({
  name: 'count',
  source: 'not compiled',
  signature: ['atomic u32*'],
  simulate: (_, words) => {
    words[0] = (words[0] ?? 0) + 1
  },
})

export const stories: readonly PairedProgram[] = [
  story('one of two readers is waited for', [
    begin(['data', 'one', 'other']),
    copy('a', 'one', 'data'),
    copy('b', 'other', 'data'),
    step(
      'wait',
      on('c', (s, stage) => s.wait(streamOf(stage, 'a'))),
    ),
    wait('c', 'b'),
    fill('c', 'data', 9),
    end('one', 'other', 'data'),
  ]),
  story('none of two readers is waited for', [
    begin(['data', 'one', 'other']),
    copy('a', 'one', 'data'),
    copy('b', 'other', 'data'),
    wait('c', 'a'),
    wait('c', 'b'),
    fill('c', 'data', 9),
    end('one', 'other', 'data'),
  ]),
  story('a kept view is written while its copy is queued', [
    begin(['data', 'next'], ['staging']),
    step('ask', (stage) => stage.keep.set('view', pinned(stage, 'staging').bytes)),
    step(
      'first copy',
      on('a', (s, stage) => s.copy(buffer(stage, 'data'), pinned(stage, 'staging'))),
    ),
    fixed(
      'wait',
      on('a', (s) => s.finished()),
    ),
    step('write', (stage) => void (stage.keep.get('view') as Uint8Array).fill(9)),
    step(
      'second copy',
      on('a', (s, stage) => s.copy(buffer(stage, 'next'), pinned(stage, 'staging'))),
    ),
    end('data', 'next'),
  ]),
  story('an array that is registered is written while its copy is queued', [
    begin(['data', 'next']),
    step('register', (stage) => {
      const array = new Uint8Array(BYTES).fill(1)
      stage.keep.set('view', array)
      stage.keep.set('staging', PinnedBuffer.from(array, { device: stage.device }))
    }),
    step(
      'first copy',
      on('a', (s, stage) => s.copy(buffer(stage, 'data'), pinned(stage, 'staging'))),
    ),
    fixed(
      'wait',
      on('a', (s) => s.finished()),
    ),
    step('write', (stage) => void (stage.keep.get('view') as Uint8Array).fill(9)),
    step(
      'second copy',
      on('a', (s, stage) => s.copy(buffer(stage, 'next'), pinned(stage, 'staging'))),
    ),
    end('data', 'next'),
  ]),
  story('a value that two writes meet', [
    begin(['x', 'y', 'out'], ['flag']),
    step('first', (stage) => {
      pinned(stage, 'flag').bytes.fill(0)
      const words = pinned(stage, 'flag')
      streamOf(stage, 'a')
        .fill(buffer(stage, 'x'), 1)
        .writeValue(words, 1)
        .fill(buffer(stage, 'y'), 2)
        .writeValue(words, 2)
    }),
    step(
      'wait',
      on('b', (s, stage) => s.waitValue(pinned(stage, 'flag'), 1)),
    ),
    fixed(
      'wait for the second',
      on('b', (s, stage) => s.waitValue(pinned(stage, 'flag'), 2)),
    ),
    copy('b', 'out', 'y'),
    end('out'),
  ]),
  story('two host functions add to one word', [
    begin([], ['words']),
    step(
      'one',
      on('a', (s, stage) =>
        s.launchHostFunc(() => {
          pinned(stage, 'words').bytes[0] = 3
        }),
      ),
    ),
    wait('b', 'a'),
    step(
      'other',
      on('b', (s, stage) =>
        s.launchHostFunc(() => {
          pinned(stage, 'words').bytes[0] = 7
        }),
      ),
    ),
    end('words'),
  ]),
  story('a host function queues work that main goes before', [
    begin(['data', 'seen']),
    step(
      'queue later',
      on('a', (s, stage) =>
        s.launchHostFunc(() => void streamOf(stage, 'c').copy(buffer(stage, 'seen'), buffer(stage, 'data'))),
      ),
    ),
    fixed(
      'let it run',
      on('a', (s) => s.finished()),
    ),
    wait('b', 'c'),
    fill('b', 'data', 9),
    end('seen', 'data'),
  ]),
  story('a counter is cleared while it is counted', [
    begin(['counter']),
    step(
      'count',
      on('a', (s, stage) => s.launch(count, ONE, buffer(stage, 'counter'))),
    ),
    step(
      'count too',
      on('b', (s, stage) => s.launch(count, ONE, buffer(stage, 'counter'))),
    ),
    wait('c', 'a'),
    wait('c', 'b'),
    fill('c', 'counter', 0),
    end('counter'),
  ]),
  story('a product reads half of a matrix, and a fill writes into it', [
    begin(['data', 'one', 'seen']),
    step(
      'multiply',
      on('a', (s, stage) =>
        new Cublas({ device: s.device }).gemm(s, buffer(stage, 'data'), buffer(stage, 'one'), buffer(stage, 'seen'), {
          type: 'f32',
          m: 2,
          n: 1,
          k: 1,
          lda: 2,
        }),
      ),
    ),
    wait('b', 'a'),
    step(
      'fill',
      on('b', (s, stage) => s.fill(buffer(stage, 'data').subarray(2 * WORD, 3 * WORD), 0x40)),
    ),
    end('data', 'seen'),
  ]),
  story('ping-pong, one step too far', [
    begin(['ping', 'pong']),
    copy('a', 'pong', 'ping'),
    step(
      'b waits',
      on('b', (s, stage) => s.wait(streamOf(stage, 'a'))),
    ),
    copy('b', 'ping', 'pong'),
    wait('a', 'b'),
    fill('a', 'pong', 8),
    end('ping', 'pong'),
  ]),
  story('an uploader, and a reader that does not wait', [
    begin(['data', 'seen']),
    step('upload', async (stage) => {
      const writer = streamOf(stage, 'a').uploader(buffer(stage, 'data')).getWriter()
      await writer.write(new Uint8Array(BYTES).fill(5))
    }),
    wait('b', 'a'),
    copy('b', 'seen', 'data'),
    end('seen'),
  ]),
  story('a graph whose branches both write', [
    begin(['data']),
    fixed('mark', (stage) => stage.keep.set('ordered', true)),
    step(
      'capture',
      on('a', (s, stage) => {
        const other = streamOf(stage, 'b')
        const graph = s.capture(() => {
          other.wait(s)
          s.fill(buffer(stage, 'data'), 5)
          if (stage.keep.has('ordered')) other.wait(s)
          other.fill(buffer(stage, 'data'), 6)
          s.wait(other)
        })
        stage.keep.set('graph', graph.instantiate())
      }),
    ),
    step(
      'launch',
      on('c', (s, stage) => (stage.keep.get('graph') as GraphExec).launch(s)),
    ),
    end('data'),
  ]),
  story('a graph that is launched again while its result is read', [
    begin(['data', 'seen', 'source']),
    step(
      'capture',
      on('a', (s, stage) => {
        stage.keep.set('graph', s.capture(() => s.copy(buffer(stage, 'data'), buffer(stage, 'source'))).instantiate())
      }),
    ),
    step(
      'launch',
      on('a', (s, stage) => (stage.keep.get('graph') as GraphExec).launch(s)),
    ),
    step(
      'b waits',
      on('b', (s, stage) => s.wait(streamOf(stage, 'a'))),
    ),
    copy('b', 'seen', 'data'),
    wait('a', 'b'),
    fill('a', 'data', 9),
    end('seen', 'data'),
  ]),
  story(
    'a copy to another device that nothing waits for',
    [
      begin(['data']),
      step('there', (stage) => {
        const there = stage.simulation.devices[1]
        if (there === undefined) throw new Error('it needs two devices')
        stage.keep.set('there', there.alloc(BYTES))
        there.defaultStream.fill(stage.keep.get('there') as DeviceBuffer, 0)
        there.synchronize()
      }),
      step(
        'copy',
        on('a', (s, stage) => s.copy(stage.keep.get('there') as DeviceBuffer, buffer(stage, 'data'))),
      ),
      wait('b', 'a'),
      fill('b', 'data', 9),
      end('data', 'there'),
    ],
    2,
  ),
]
