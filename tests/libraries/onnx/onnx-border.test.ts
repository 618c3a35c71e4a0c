/**
 * What crosses the border to ONNX Runtime: the places of its functions as its header has them, and what is asked on a GPU of a C library that
 * pretends to be it.
 */
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Stream } from 'cuda-streams'
import { LibraryError, Session } from 'cuda-streams/onnx'
import { SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { countNodes } from '../../../src/libraries/onnx/node-count.js'
import {
  ORT_ERRORS,
  ORT_FUNCTIONS,
  ORT_RELEASES,
  ORT_TEXTS,
  OrtLibrary,
} from '../../../src/libraries/onnx/onnx-library.js'
import { insideHostFunction, refused, rejected } from '../../conformance/expect.js'
import { findHeader } from '../../helpers/cuda-toolkit.js'
import { scratchFolder } from '../../helpers/scratch.js'
import { fakeDevices, fakeLibraries } from '../fake-libraries.js'
import { EXAMPLES, perceptron } from './models.js'
import { writeModel } from './onnx-model.js'

describe('the nodes of a model are counted', () => {
  const count = (bytes: Uint8Array): number =>
    countNodes((position, length) => bytes.subarray(position, position + length), bytes.byteLength)

  for (const { model } of EXAMPLES) {
    it(model.name, () => assert.equal(count(writeModel(model)), model.nodes.length))
  }

  it('what is no model has none, and is read in a bounded time', () => {
    for (const bytes of [
      new Uint8Array(0),
      new Uint8Array(1000),
      new Uint8Array(1000).fill(0xff),
      Buffer.from('text'),
    ]) {
      assert.equal(count(bytes), 0)
    }
    const cut = writeModel(perceptron.model)
    assert.ok(count(cut.subarray(0, cut.length - 40)) <= perceptron.model.nodes.length)
  })
})

const fake = fakeLibraries()
const skip = typeof fake === 'string' ? fake : false

describe('across the border to ONNX Runtime', { skip }, () => {
  if (typeof fake === 'string') return
  const { devices, driver, told } = fakeDevices(2)
  const [device, second] = devices
  assert.ok(device && second)
  const stream = new Stream({ device })
  const x = device.alloc(4096, { stream })
  const y = device.alloc(4096, { stream })
  const hex = (value: bigint | number): string => value.toString(16)
  const MODEL = Uint8Array.of(1, 2, 3)
  const rows = (session: Session, on: Stream, count: number): Session =>
    session.run(on, { x: { buffer: x, shape: [count, 4] } }, { y })

  /** Sessions that were made and not released. */
  let alive = 0
  /** What was asked since the last time. Another thread releases sessions, at a time of its own. */
  const said = (): string[] => {
    const lines = fake.said()
    alive += lines.filter((line) => line.startsWith('session of')).length
    alive -= lines.filter((line) => line === 'release session').length
    return lines.filter((line) => line !== 'release session')
  }

  afterEach(async () => {
    for (said(); alive > 0; said()) await turn()
    told.length = 0
  })

  it('a session has the provider for CUDA with its device and its stream, and the memory is that of the device', async () => {
    using session = await Session.load(MODEL, { stream })
    assert.deepEqual(said(), [
      'env 4 cuda-streams',
      'threads 1',
      ...['device_id=0', 'enable_cuda_graph=0', `user_compute_stream=${hex(stream.handle)}`, 'append CUDA'],
      'session of 3 bytes from 01 to 03',
      'memory Cuda 0 0 0',
      'run with disable_synchronize_execution_providers=1',
    ])
    assert.deepEqual(session.inputs, [{ name: 'x', type: 'f32', dims: ['n', 4] }])
  })

  it('TensorRT comes before CUDA where it is wanted, and both make graphs', async () => {
    using _session = await Session.load('/models/one.onnx', { device: second, tensorrt: true, graphs: true })
    const lines = said()
    const streams = lines.filter((line) => line.startsWith('user_compute_stream'))
    assert.equal(new Set(streams).size, 1)
    assert.deepEqual(
      lines.filter((line) => !line.startsWith('user_compute_stream')),
      [
        'threads 1',
        ...['device_id=1', 'trt_cuda_graph_enable=1', 'append TensorRT'],
        ...['device_id=1', 'enable_cuda_graph=1', 'append CUDA'],
        'session of /models/one.onnx',
        'memory Cuda 0 1 0',
        'run with disable_synchronize_execution_providers=1',
      ],
    )
  })

  it('the null stream has its other name, since 0 stands for no stream', async () => {
    using _session = await Session.load(MODEL, { stream: device.defaultStream })
    assert.ok(said().includes('user_compute_stream=1'))
  })

  it('a run binds the buffers where they are and only queues', async () => {
    using session = await Session.load(MODEL, { stream })
    said()
    rows(session, stream, 2)
    assert.deepEqual(said(), [
      ...[`tensor ${hex(x.pointer)} 32 bytes type 1 shape 2 4`, 'input x'],
      ...[`tensor ${hex(y.pointer)} 32 bytes type 1 shape 2 4`, 'output y'],
      'run',
    ])
    assert.deepEqual(
      told.map(({ name, memory }) => [name, ...memory.map(({ byteLength, access }) => [byteLength, access])]),
      [['RunWithBinding', [32, 'in'], [32, 'out']]],
    )
  })

  it('host functions run before the first run with new shapes, and before none that follows', async () => {
    using session = await Session.load(MODEL, { stream })
    const drains = (count: number): number => {
      const before = driver.drained
      rows(session, stream, count)
      return driver.drained - before
    }
    assert.deepEqual([2, 2, 3, 2].map(drains), [1, 0, 1, 0])
    insideHostFunction(stream, () => {
      rows(session, stream, 3)
      refused(() => rows(session, stream, 4), 'ERR_DEADLOCK')
    })
  })

  it('a model of so many nodes that a hardware queue may have no room for them runs behind host functions, each time', async () => {
    const nodes = Array.from({ length: 126 }, () => ({ op: 'Relu', inputs: ['x'], outputs: ['y'] }))
    using session = await Session.load(writeModel({ ...perceptron.model, nodes, weights: [] }), { stream })
    const before = driver.drained
    for (let runs = 0; runs < 3; runs += 1) rows(session, stream, 2)
    assert.equal(driver.drained - before, 3)
    assert.equal(told.at(-1)?.entries, 500)
  })

  it('each set of buffers and shapes has a graph of its own', async () => {
    using session = await Session.load(MODEL, { stream, graphs: true })
    said()
    const other = device.alloc(4096, { stream })
    const run = (buffer: typeof x, count: number) => session.run(stream, { x: { buffer, shape: [count, 4] } }, { y })
    run(x, 2)
    run(x, 2)
    run(x, 3)
    run(other, 2)
    run(x, 2)
    const graphs = said().flatMap((line) => /gpu_graph_id=(.*)/.exec(line)?.[1] ?? [])
    assert.deepEqual(graphs, ['1', '1', '2', '3', '1'])
    for (let count = 4; count < 70; count += 1) run(x, count)
    assert.equal(
      said().findLast((line) => line.includes('gpu_graph_id')),
      'run with gpu_graph_id=-1',
    )
  })

  it('a closed session is released on another thread, with its own stream', async () => {
    const session = await Session.load(MODEL, { device })
    said()
    assert.equal(alive, 1)
    session.close()
    session.close()
    for (said(); alive > 0; said()) await turn()
    assert.equal(alive, 0)
  })

  it('what ONNX Runtime refuses is a LibraryError with what it says', async () => {
    using session = await Session.load(MODEL, { stream })
    fake.nextStatus(2)
    assert.throws(
      () => rows(session, stream, 2),
      (error) =>
        error instanceof LibraryError &&
        error.code === 'ORT_INVALID_ARGUMENT' &&
        error.call === 'RunWithBinding' &&
        error.message.includes('what is wrong'),
    )
    fake.nextStatus(11)
    await assert.rejects(Session.load(MODEL, { stream }), (error) => {
      return error instanceof LibraryError && error.code === 'ORT_EP_FAIL' && error.call === 'UpdateCUDAProviderOptions'
    })
    // The runs that follow are as before.
    rows(session, stream, 2)
  })

  it('a library of CUDA that a provider lacks comes from where others are found, and else the error says what to do', async () => {
    const home = scratchFolder('toolkit')
    process.env['CUDA_HOME'] = home
    const load = () => Session.load(MODEL, { stream })
    fake.nextStatus(1)
    await assert.rejects(load, (error) => {
      return (
        error instanceof LibraryError &&
        /libnonesuch\.so\.7 was not found: install .*LD_LIBRARY_PATH/.test(error.message)
      )
    })
    mkdirSync(join(home, 'lib64'))
    copyFileSync(process.env['CUDA_STREAMS_CURAND'] ?? '', join(home, 'lib64', 'libnonesuch.so.7'))
    said()
    fake.nextStatus(1)
    using _session = await load()
    assert.deepEqual(
      said().filter((line) => line.startsWith('device_id')),
      ['device_id=0', 'device_id=0'],
    )
  })

  it('a version that lacks functions is refused by its number', () => {
    fake.call('fake_onnx_version', 15)
    const file = process.env['CUDA_STREAMS_ONNXRUNTIME'] ?? ''
    refused(() => new OrtLibrary(SharedLibrary.open(file)), 'ERR_UNSUPPORTED', /1\.32\.0, and 1\.16 or later/)
    fake.call('fake_onnx_version', 29)
  })

  it('a stream of another device and one of each thread are refused', async () => {
    const far = new Stream({ device: second })
    await rejected(() => Session.load(MODEL, { stream: far, device }), 'ERR_DEVICE_MISMATCH')
    using session = await Session.load(MODEL, { stream })
    refused(() => rows(session, far, 2), 'ERR_DEVICE_MISMATCH')
  })
})

/** The members of OrtApi in their order, with the number of parameters where a macro has them. */
function membersOf(header: string): readonly { readonly name: string; readonly parameters: number | undefined }[] {
  const [, after = ''] = header.split(/^struct OrtApi \{$/m)
  const [body = ''] = after.split(/^\};/m)
  const code = body.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*|^\s*#.*/gm, '').replaceAll(/_\w+_(?:\(\w+\))?(?= )/g, '')
  const member =
    /ORT_API2_STATUS\(\s*(\w+)\s*,([\s\S]*?)\);|ORT_CLASS_RELEASE\((\w+)\)|\(\s*ORT_API_CALL\s*\*\s*(\w+)\)/g
  return [...code.matchAll(member)].map(([, status, parameters, released, other]) => ({
    name: status ?? (released === undefined ? (other ?? '') : `Release${released}`),
    parameters: parameters?.split(',').length,
  }))
}

describe('the table of functions', () => {
  const all = Object.entries<readonly [number, string]>({ ...ORT_FUNCTIONS, ...ORT_RELEASES, ...ORT_TEXTS })

  const header = findHeader('onnxruntime_c_api.h')
  const lack = typeof header === 'string' ? false : `no onnxruntime_c_api.h here: tried ${header.tried.join(', ')}`
  if (typeof lack === 'string') console.log(`skipped: ${lack}`)

  it('each function has the place and as many parameters as in the header', { skip: lack }, () => {
    const members = membersOf(readFileSync(String(header), 'utf8'))
    assert.ok(members.length > 264)
    for (const [name, [place, parameters]] of all) {
      assert.equal(members[place]?.name, name)
      const count = members[place]?.parameters
      if (count !== undefined) assert.equal(parameters.split(', ').length, count, name)
    }
  })

  it('no two have one place, and none is behind those of version 16', () => {
    assert.equal(new Set(all.map(([, [place]]) => place)).size, all.length)
    // GetCUDAProviderOptionsByName, the last but a few that version 16 has, is at 264.
    assert.ok(all.every(([, [place]]) => place >= 0 && place <= 264))
  })

  it('errors are numbered without a gap', () => {
    assert.deepEqual(
      Object.values(ORT_ERRORS),
      Object.keys(ORT_ERRORS).map((_, index) => index),
    )
  })
})
