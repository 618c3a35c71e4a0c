/** A stream has one name: in the sanitizer, in timelines, in explorations, and where it is printed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { type Device, type DeviceBuffer, ExternalStream, Stream } from 'cuda-streams'
import { nameStream, sanitize } from 'cuda-streams/sanitizer'
import { explore, foreignStream, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { variableIn } from '../../../src/tools/sanitizer/stream-variables.js'

/** Two streams, of which the second reads what the first writes, with no order between them. */
function unordered(
  device: Device,
  name?: string,
  option?: string,
): { readonly writer: Stream; readonly reader: Stream; readonly to: DeviceBuffer } {
  const writer = new Stream({ device, name: option })
  const reader = new Stream({ device })
  if (name !== undefined) nameStream(writer, name)
  const [from, to] = [device.alloc(64, { stream: writer }), device.alloc(64, { stream: reader })]
  reader.wait(writer)
  writer.wait(reader)
  writer.fill(from, 1)
  reader.copy(to, from)
  return { writer, reader, to }
}

async function racing(device: Device, fn: () => void): Promise<string> {
  const error: unknown = await sanitize(fn, { device }).then(undefined, (reason: unknown) => reason)
  assert.ok(error instanceof Error)
  return error.message
}

for (const [given, option, name] of [
  [undefined, undefined, 'stream 1'],
  ['decode', undefined, 'decode'],
  [undefined, 'encode', 'encode'],
] as const) {
  test(`${name} is called so wherever it is reported`, async () => {
    const { message: order } = await explore((simulation) => {
      const { reader, to } = unordered(simulation.devices[0] as Device, given, option)
      return reader.download(to)
    })
    assert.match(order, new RegExp(`has to wait for ${name}, by`))
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    let message = ''
    const run = async (): Promise<void> => {
      message = await racing(device, () => {
        const { writer: stream } = unordered(device, given, option)
        assert.match(String(stream), new RegExp(`^Stream\\(0x[0-9a-f]+, ${name}, Device\\(0, sim\\)\\)$`))
        assert.equal(inspect(stream), String(stream))
      })
      await device.finished()
    }
    const { streams } = await Timeline.record(run, { device })
    assert.match(message, new RegExp(`first, fill writes on ${name}\n`))
    assert.ok(streams.some((stream) => stream.name === name))
  })
}

test('a tool that is installed later knows the name of the options, and so does one that is there when the stream is made', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const early = new Stream({ device, name: 'early' })
  const theirs = new ExternalStream(foreignStream(device), { device, name: 'theirs' })
  let messages = ''
  const { streams } = await Timeline.record(
    async () => {
      for (const stream of [early, theirs]) {
        messages += await racing(device, () => {
          const late = new Stream({ device, name: 'late' })
          const memory = device.alloc(64)
          device.synchronize()
          late.fill(memory, 1)
          stream.fill(memory, 2)
        })
      }
      await device.finished()
    },
    { device },
  )
  for (const name of ['early', 'late', 'theirs']) {
    assert.match(messages, new RegExp(` writes on ${name}\n`))
    assert.ok(streams.some((stream) => stream.name === name))
  }
})

test('an error says the name of a stream that is closed, also once another is made in its place', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  const stream = new Stream({ device, name: 'closed early' })
  stream.close()
  using other = new Stream({ device })
  assert.notEqual(other.name, 'closed early')
  assert.throws(() => stream.query(), { code: 'ERR_CLOSED', message: /closed early/ })
})

test('advice has the variables of streams that have no name', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const message = await racing(device, () => void unordered(device))
  assert.match(message, /Add `reader\.wait\(writer\)` before this copy\.$/)
  assert.match(message, /stream 1, `writer`, was made at unordered \(.*stream-names\.test/)
})

test('streams that one line makes have no variable of their own', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const message = await racing(device, () => {
    const made = Array.from({ length: 2 }, () => {
      const stream = new Stream({ device })
      return stream
    })
    const buffer = device.alloc(64)
    device.synchronize()
    for (const stream of made) stream.fill(buffer, 1)
  })
  assert.match(message, /Add `stream(\d+)\.wait\(stream\d+\)` before this fill\.$/)
})

test('streams of variables of one name have none', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const message = await racing(device, () => {
    const memory = device.alloc(64)
    device.synchronize()
    for (const isFirst of [true, false]) {
      if (isFirst) {
        const stream = new Stream({ device })
        stream.fill(memory, 1)
      } else {
        const stream = new Stream({ device })
        stream.fill(memory, 2)
      }
    }
  })
  assert.match(message, /Add `stream(\d+)\.wait\(stream\d+\)` before this fill\.$/)
})

test('advice names no variable whose value may be no stream, and a field of a class as the class does', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  class Pipeline {
    level = { depth: 1 }
    decode = new Stream({ device: device as Device })
    run(other: Stream, memory: DeviceBuffer): void {
      this.decode.fill(memory, 1)
      other.fill(memory, 2)
    }
  }
  const advice = async (fn: () => void): Promise<string> => /Add .*/.exec(await racing(device, fn))?.[0] ?? ''
  assert.match(
    await advice(() => {
      const encode = new Stream({ device })
      const memory = device.alloc(64)
      device.synchronize()
      new Pipeline().run(encode, memory)
    }),
    /`encode\.wait\(this\.decode\)`/,
  )
  assert.match(
    await advice(() => {
      const memory = device.alloc(64)
      device.synchronize()
      const same = new Stream({ device }).fill(memory, 1)
      const event = new Stream({ device }).fill(memory, 2).record()
      assert.ok(same instanceof Stream && event)
    }),
    /`stream\d+\.wait\(stream\d+\)`/,
  )
})

test('the variable is read from what stands before the constructor, or before the method that returns the stream', () => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    ['const upload = ', 'upload'],
    ['  using upload: Stream = ', 'upload'],
    ['  const upload = __addDisposableResource(env_1, ', 'upload'],
    ['var upload = __using(_stack, ', 'upload'],
    ['    this.upload = ', 'this.upload'],
    ['    this.#upload = ', 'this.#upload'],
    ['  #upload = ', 'this.#upload'],
    ['  private readonly upload: Stream = ', 'this.upload'],
    ['  static upload = ', undefined],
    ["log({ level: 'info' }); const decode = ", 'decode'],
    ['const config = { depth: 1 }, encode = ', 'encode'],
    ['let encode: Stream | undefined = ', 'encode'],
    ['  encode ??= ', 'encode'],
    ['  case first: encode = ', undefined],
    ['const made = isFirst ? first : encode = ', undefined],
    ['  encode: Stream = ', undefined],
    ['open({ encode: ', undefined],
    ["const [name, encode] = ['a, b', ", undefined],
    ['made[first] = [', undefined],
    ['const made = wrap(', undefined],
    ['state.encode = ', undefined],
    ['const upload = await ', 'upload'],
    ['const theirs = ExternalStream.', 'theirs'],
    ['const [upload, compute] = [', 'upload'],
    ['const [upload, compute] = [new Stream({ device, priority: 1 }), ', 'compute'],
    ['return ', undefined],
    ['const all = [', undefined],
    ['if (upload === ', undefined],
    ['const pool = new Pool(', undefined],
    ['run(', undefined],
    ['', undefined],
  ]
  for (const [before, variable] of cases) assert.equal(variableIn(before), variable, before)
  const inClass: readonly (readonly [above: readonly string[], before: string, variable: string | undefined])[] = [
    [['class Video {'], '  upload = ', 'this.upload'],
    [
      ['export class Video extends Base<{ a: 1 }> {', '  #x = { a: 1 }', '  f() {}'],
      '  upload: Stream = ',
      'this.upload',
    ],
    [['const Video = class {'], '  upload = ', 'this.upload'],
    [['class Video {', '  static made = 1'], '  static upload = ', undefined],
    [['class Video {', '  open() {'], '    upload = ', 'upload'],
    [['class Video {', '  open() {', '  }', '}', 'let upload'], 'upload = ', 'upload'],
    [['function open() {'], '  upload = ', 'upload'],
  ]
  for (const [above, before, variable] of inClass) assert.equal(variableIn(before, above), variable, before)
})
