/** Models by ONNX Runtime itself: what they compute, their order among other work, and what is refused. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { defineKernel, Stream } from 'cuda-streams'
import { LibraryError, Session } from 'cuda-streams/onnx'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { explore } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { insideHostFunction, refused, rejected } from '../../conformance/expect.js'
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import { scratchFolder } from '../../helpers/scratch.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench } from '../../helpers/workbench.js'
import { lackOf } from '../about-library.js'
import { EXPECTED } from './expected.js'
import { convolutions, EXAMPLES, type Example, perceptron } from './models.js'
import { sequenceModel, writeModel } from './onnx-model.js'
import { copyBy, IDENTITY, lacksOnnxRuntime, sessionNow } from './runtime.js'

const lack = isFakeDriver() ? 'a fake GPU has no libraries' : lacksOnnxRuntime()
if (lack !== false) console.log(`skipped: ${lack}`)

/** What a GPU may differ by, whose convolutions and products add in another order. */
const TOLERANCE = { sim: 1e-6, cuda: 2e-3 } as const

/** What the model computes for its example on a stream. */
async function outputOf(session: Session, stream: Stream, { model, shape, input, outputShape }: Example) {
  const [from = '', to = ''] = [model.inputs[0]?.name, model.outputs[0]?.name]
  const { device } = stream
  using read = device.alloc(input.byteLength, { stream })
  using written = device.alloc(4 * outputShape.reduce((all, each) => all * each, 1), { stream })
  void stream.upload(read, input)
  session.run(stream, { [from]: { buffer: read, shape } }, { [to]: written })
  return stream.download(written, Float32Array)
}

function assertNear(got: Float32Array, expected: readonly number[], allowed: number): void {
  assert.equal(got.length, expected.length)
  for (const [index, value] of expected.entries()) {
    const off = Math.abs((got[index] ?? Number.NaN) - value)
    assert.ok(off <= allowed * Math.max(1, Math.abs(value)), `element ${index}: ${got[index]}, not ${value}`)
  }
}

describe('sessions of ONNX Runtime', { skip: lack }, () => {
  onEveryBackend('on a device', async (bench) => {
    const { device } = bench
    const skip = (await lackOf(async () => (await Session.load(IDENTITY, { device })).close())) ?? false

    for (const example of EXAMPLES) {
      const { name } = example.model
      it(`${name}: the outputs are those of ONNX Runtime in Python`, { skip }, async () => {
        const stream = bench.stream()
        using session = await Session.load(writeModel(example.model), { device })
        assertNear(await outputOf(session, stream, example), EXPECTED[name] ?? [], TOLERANCE[bench.name])
        stream.close()
      })
    }

    it('a stream of the program is computed on, and other streams are ordered into it', { skip }, async () => {
      const [stream, other] = [bench.stream(), bench.stream()]
      const session = await Session.load(writeModel(perceptron.model), { stream })
      const runs = [stream, other, device.defaultStream].map((each) => outputOf(session, each, perceptron))
      for (const output of await Promise.all(runs))
        assertNear(output, EXPECTED['perceptron'] ?? [], TOLERANCE[bench.name])
      session.close()
      await device.finished()
      for (const each of [stream, other]) each.close()
    })

    it('a run is work of its stream: behind what was queued before, before what comes later, and its buffers may be closed', {
      skip,
    }, async () => {
      const stream = bench.stream()
      using session = await Session.load(IDENTITY, { device })
      using to = device.alloc(64, { stream })
      const from = device.alloc(64, { stream })
      // The first run of its kind does not wait behind what holds the stream.
      copyBy(session, stream, to, from)
      const held = bench.latch(stream)
      stream.fill(from, 1)
      copyBy(session, stream, to, from)
      stream.fill(from, 2)
      from.close()
      session.close()
      assert.equal(session.closed, true)
      held.open()
      assert.deepEqual(new Set(await stream.download(to)), new Set([1]))
      refused(() => copyBy(session, stream, to, to.subarray(0, 16)), 'ERR_CLOSED', /Session/)
      stream.close()
    })
  })

  describe('on the simulator', () => {
    const bench = simWorkbench()
    const { device } = bench
    const stream = bench.stream()
    const buffer = (byteLength: number) => device.alloc(byteLength, { stream })

    it('the metadata is what the model says', async () => {
      const [one, two] = await Promise.all([
        Session.load(writeModel(perceptron.model), { device }),
        Session.load(writeModel(convolutions.model), { device }),
      ])
      assert.deepEqual(
        [one.inputs, one.outputs, two.inputs, two.outputs],
        [
          [{ name: 'x', type: 'f32', dims: ['batch', 16] }],
          [{ name: 'y', type: 'f32', dims: ['batch', 10] }],
          [{ name: 'image', type: 'f32', dims: [2, 3, 8, 8] }],
          [{ name: 'classes', type: 'f32', dims: [2, 10] }],
        ],
      )
      assert.equal(one.device, device)
      for (const each of [one, two]) each.close()
    })

    it('a model is a file or bytes, which the program may change at once; the event loop turns before it is loaded', async () => {
      const file = join(scratchFolder('onnx'), 'model.onnx')
      writeFileSync(file, writeModel(perceptron.model))
      const bytes = writeModel(perceptron.model)
      let turned = false
      setImmediate(() => {
        turned = true
      })
      const loading = Session.load(bytes, { device })
      bytes.fill(0)
      using ofBytes = await loading
      assert.equal(turned, true)
      using ofFile = await Session.load(file, { device })
      const outputs = await Promise.all([ofBytes, ofFile].map((each) => outputOf(each, stream, perceptron)))
      for (const output of outputs) assertNear(output, EXPECTED['perceptron'] ?? [], TOLERANCE.sim)
    })

    it('nothing comes back to the host between kernels and the model', async () => {
      const double = defineKernel({
        name: 'double',
        source: 'not compiled',
        signature: ['inout u8*'],
        simulate: (_, data) => {
          for (const [index, value] of data.entries()) data[index] = 2 * value
        },
      })
      using session = sessionNow(stream)
      using from = buffer(16)
      using to = buffer(16)
      const timeline = await Timeline.record(
        async () => {
          stream.fill(from, 3)
          stream.launch(double, { grid: 1, block: 1 }, from)
          copyBy(session, stream, to, from)
          stream.launch(double, { grid: 1, block: 1 }, to)
          await stream.finished()
        },
        { device },
      )
      const operations = timeline.operations.map(({ name, kind }) => name ?? kind)
      assert.deepEqual(
        operations.filter((name) => /copy/i.test(name)),
        [],
      )
      const model = timeline.operations.find(({ name }) => name === 'RunWithBinding')
      assert.ok(model !== undefined && (model.end ?? 0) > (model.start ?? 0), String(operations))
      assert.deepEqual(new Set(await stream.download(to)), new Set([12]))
    })

    it('a planted missing wait is a race for the sanitizer and shows as wrong bytes; with the wait there is none', async () => {
      const other = bench.stream()
      using session = sessionNow(other)
      using from = buffer(64)
      using to = buffer(64)
      stream.fill(from, 1).fill(to, 1)
      await stream.finished()
      other.wait(stream)
      for (const waits of [false, true]) {
        const sanitizer = Sanitizer.start({ device, mode: 'collect' })
        stream.fill(from, 7)
        if (waits) other.wait(stream)
        copyBy(session, other, to, from)
        const read = await other.download(to)
        sanitizer.stop()
        const found = sanitizer.reports.map(({ message }) => message)
        assert.equal(found.length, waits ? 0 : 1, found.join('\n'))
        if (!waits) assert.match(found.join(), /RunWithBinding/)
        assert.equal(read[0] === 7, waits)
        // What comes next is ordered again.
        stream.fill(from, 1)
        await stream.finished()
        other.wait(stream)
      }
      other.close()
    })

    it('an exploration finds the missing wait under some order, and none where the wait is there', async () => {
      for (const waits of [true, false]) {
        const { verdict } = await explore(async ({ devices: [explored] }) => {
          assert.ok(explored)
          using session = await Session.load(IDENTITY, { device: explored })
          const [writer, reader] = [explored.createStream(), explored.createStream()]
          const [from, to] = [explored.alloc(64, { stream: writer }), explored.alloc(64, { stream: writer })]
          writer.fill(from, 1).fill(to, 1)
          reader.wait(writer)
          writer.fill(from, 7)
          if (waits) reader.wait(writer)
          copyBy(session, reader, to, from)
          return (await reader.download(to))[0]
        })
        assert.equal(verdict, waits ? 'agree' : 'disagree')
      }
    })

    it('what a model writes too early is a race as well', async () => {
      const other = bench.stream()
      using session = sessionNow(stream)
      using from = buffer(64)
      using to = buffer(64)
      stream.fill(from, 1).fill(to, 1)
      other.wait(stream)
      const sanitizer = Sanitizer.start({ device, mode: 'collect' })
      copyBy(session, stream, to, from)
      await other.download(to)
      sanitizer.stop()
      assert.deepEqual(
        sanitizer.reports.map(({ message }) => /RunWithBinding/.test(message)),
        [true],
      )
      other.close()
    })

    it('a run on a stream that captures is refused, and the capture goes on', async () => {
      const own = bench.stream()
      using session = sessionNow(own)
      using from = buffer(64)
      using to = buffer(64)
      for (const capturing of [stream, own]) {
        capturing.beginCapture()
        refused(
          () => copyBy(session, stream, to, from),
          'ERR_UNSUPPORTED',
          /captures.*cannot be captured.*graphs: true/,
        )
        capturing.endCapture().close()
      }
      own.close()
    })

    it('a run of no rows writes nothing, and one of few nothing behind them', async () => {
      using session = await Session.load(writeModel(perceptron.model), { device })
      using x = buffer(4 * 64)
      using y = buffer(4 * 40)
      await stream.fill(x, 0).fill(y, 9).finished()
      session.run(stream, { x: { buffer: x, shape: [0, 16] } }, { y })
      using none = device.alloc(0, { stream })
      session.run(stream, { x: { buffer: none, shape: [0, 16] } }, { y: none })
      assert.deepEqual([...new Set(await stream.download(y))], [9])
      session.run(stream, { x: { buffer: x, shape: [1, 16] } }, { y })
      const bytes = await stream.download(y)
      assert.notDeepEqual([...new Set(bytes.subarray(0, 40))], [9])
      assert.deepEqual([...new Set(bytes.subarray(40))], [9])
    })

    it('what contradicts the model is refused by the name of the tensor, and nothing is queued', async () => {
      using session = await Session.load(writeModel(perceptron.model), { device })
      using x = buffer(4 * 64)
      using y = buffer(4 * 40)
      const given = { buffer: x, shape: [4, 16] }
      const says = (inputs: unknown, outputs: unknown, code: string, ...patterns: readonly RegExp[]) =>
        refused(() => session.run(stream, inputs as never, outputs as never), code, ...patterns)
      says({ x }, { y }, 'ERR_INVALID_ARG_TYPE', /inputs\.x must be \{ buffer, shape \}.*f32 \[batch, 16\].*'batch'/)
      says({ x: { buffer: x, shape: [4, 15] } }, { y }, 'ERR_INVALID_ARG_VALUE', /\[4, 15\].*f32 \[batch, 16\]/)
      says({ x: { buffer: x, shape: [64] } }, { y }, 'ERR_INVALID_ARG_VALUE', /\[64\].*f32 \[batch, 16\]/)
      says({ x: given }, { y: { buffer: y, shape: [3, 10] } }, 'ERR_INVALID_ARG_VALUE', /where 'batch' is 4/)
      says(
        { x: { buffer: x, shape: [5, 16] } },
        { y },
        'ERR_OUT_OF_RANGE',
        /inputs\.x must be 320 bytes.*f32 \[5, 16\]/,
      )
      says({ x: given }, { y: y.subarray(0, 96) }, 'ERR_OUT_OF_RANGE', /outputs\.y must be 160 bytes/)
      says({ x: { buffer: x, shape: [-1, 16] } }, { y }, 'ERR_OUT_OF_RANGE', /inputs\.x\.shape\[0\]/)
      says({ x: { buffer: x, shape: '4' } }, { y }, 'ERR_INVALID_ARG_TYPE', /inputs\.x\.shape/)
      says({ x: { shape: [4, 16] } }, { y }, 'ERR_INVALID_ARG_TYPE', /inputs\.x\.buffer must be a DeviceBuffer/)
      says({ X: given }, { y }, 'ERR_INVALID_ARG_VALUE', /inputs\.X: .*no input of this name.*did you mean 'x'/)
      says({ x: given }, { z: y }, 'ERR_INVALID_ARG_VALUE', /outputs\.z: .*its outputs are 'y'/)
      says({}, { y }, 'ERR_INVALID_ARG_TYPE', /inputs\.x/)
      says({ x: given }, {}, 'ERR_INVALID_ARG_TYPE', /outputs must be.*'y'/)
      says(x, { y }, 'ERR_INVALID_ARG_TYPE', /inputs must be an object with buffers for 'x'/)
      says({ x: given }, { y: { buffer: x } }, 'ERR_INVALID_ARG_VALUE', /'x' and 'y' overlap/)
      says(
        { x: { buffer: device.alloc(512).subarray(4, 260), shape: [4, 16] } },
        { y },
        'ERR_INVALID_ARG_VALUE',
        /16 bytes/,
      )
      refused(() => session.run({} as never, { x: given }, { y }), 'ERR_INVALID_ARG_TYPE', /stream must be a Stream/)
      const [, second] = bench.devices
      assert.ok(second)
      const far = second.createStream()
      refused(() => session.run(far, { x: given }, { y }), 'ERR_DEVICE_MISMATCH')
      const closed = buffer(256)
      closed.close()
      says({ x: { buffer: closed, shape: [4, 16] } }, { y }, 'ERR_CLOSED')
      assert.equal(stream.query(), true)
    })

    it('models that cannot be loaded, and why', async () => {
      const isRefusal = (code: string, pattern: RegExp) => (error: unknown) =>
        error instanceof LibraryError && error.code === code && pattern.test(error.message)
      await assert.rejects(Session.load('/nowhere/model.onnx', { device }), isRefusal('ORT_NO_SUCHFILE', /model\.onnx/))
      await assert.rejects(Session.load(new Uint8Array(9), { device }), isRefusal('ORT_INVALID_PROTOBUF', /protobuf/))
      const unknown = { ...perceptron.model, nodes: [{ op: 'Nonesuch', inputs: ['x'], outputs: ['y'] }] }
      await assert.rejects(Session.load(writeModel(unknown), { device }), isRefusal('ORT_INVALID_GRAPH', /Nonesuch/))
      await rejected(() => Session.load(sequenceModel(), { device }), 'ERR_UNSUPPORTED', /'many'.*no tensor/)
      await rejected(() => Session.load(7 as never, { device }), 'ERR_INVALID_ARG_TYPE', /model must be the path/)
      await rejected(() => Session.load('a\0b', { device }), 'ERR_INVALID_ARG_VALUE', /NUL/)
      const perThread = device.run(() => Stream.perThread)
      await rejected(() => Session.load(IDENTITY, { stream: perThread }), 'ERR_UNSUPPORTED', /another stream for each/)
    })

    it('what ONNX Runtime refuses while it computes is an uncaught exception, as of other host implementations', () => {
      const child = fileURLToPath(new URL('children/failing-model.js', import.meta.url))
      const { stdout, stderr } = spawnSync(process.execPath, [child], { encoding: 'utf8', timeout: 30_000 })
      assert.match(stdout, /^ORT_INVALID_ARGUMENT RunWithBinding .*Gather.*out of data bounds/, stderr)
      assert.match(stdout, /^and goes on$/m)
    })

    it('inside a host function the first run with new shapes is ERR_DEADLOCK, and a later one is not', () => {
      using session = sessionNow(stream)
      using from = buffer(64)
      using to = buffer(64)
      insideHostFunction(stream, () => void refused(() => copyBy(session, stream, to, from), 'ERR_DEADLOCK'))
      copyBy(session, stream, to, from)
      insideHostFunction(stream, () => void copyBy(session, stream, to, from))
    })

    it('each thread has sessions of its own: they compute at the same time, and none is sent to another', async () => {
      using session = sessionNow(stream)
      assert.throws(() => structuredClone(session), { name: 'DataCloneError' })
      const workers = [1, 2].map(() => new Worker(new URL('children/onnx-thread.js', import.meta.url)))
      const results = await Promise.all(
        workers.map(async (worker) => (await once(worker, 'message'))[0] as Float32Array),
      )
      for (const result of results) assertNear(result, EXPECTED['perceptron'] ?? [], TOLERANCE.sim)
      assertNear(
        await outputOf(await Session.load(writeModel(perceptron.model), { device }), stream, perceptron),
        EXPECTED['perceptron'] ?? [],
        TOLERANCE.sim,
      )
      await Promise.all(workers.map((worker) => worker.terminate()))
    })
  })
})
