/** The Python half of the exchanges, as far as it goes without a GPU: what the classes have, and what passes between. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DeviceBuffer, ExternalStream, Stream } from 'cuda-streams'
import { PythonError, PythonObject } from 'cuda-streams/python'
import { ADAPTERS } from '../../examples/python/adapters.js'
import type { Library } from '../../examples/python/library.js'
import {
  isNotHere,
  openPythonLibraries,
  PYTHON_LIBRARIES,
  PythonLibrary,
  type PythonLibraryName,
} from '../../examples/python/python-library.js'
import { collected, collectUntil } from '../conformance/expect.js'
import { simulatedDevice } from '../helpers/partners.js'
import { openPython, pythonHere } from '../helpers/python.js'

const python = openPython()
const reason = typeof python === 'string' ? python : undefined
if (reason !== undefined) console.log(`skipped: ${reason}`)

/** Answers as the classes of adapters.ts do, and writes down what it is asked for. */
const STAND_IN = `
class StreamObject:
    def __init__(self, handle):
        self.handle = handle
    def __cuda_stream__(self):
        return (0, self.handle)

class PlainStream:
    handle = 1234

class StandIn:
    def __init__(self, count, ordinal):
        self.name, self.abilities, self.calls = 'stand-in', ['computes'], [('init', count, ordinal)]
        self.stream = StreamObject(1234) if ordinal == 0 else PlainStream()
    def handle(self): return 1234
    def pointers(self): return [4096, 8192]
    def record(self):
        self.calls.append(('record',))
        return 2 ** 46
    def array_interface(self): return {'pointer': 4096, 'stream': None}
    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return lambda *args: self.calls.append((name,) + tuple(a.__cuda_stream__() if hasattr(a, '__cuda_stream__') else a for a in args))
`

describe('the Python half of the exchanges', { skip: reason ?? false }, () => {
  it('has for each library what its abilities promise', () => {
    const py = pythonHere()
    py.run(ADAPTERS)
    const always = 'handle pointers fill read_mine record array_interface wrap_stream wait_for_wrapped wrap_memory'
    const needed = [...always.split(' '), 'read_theirs', 'fill_theirs_on_wrapped']
    for (const name of PYTHON_LIBRARIES) {
      const has = (method: string): boolean => py.evaluate(`callable(getattr(${name}, '${method}', None))`).boolean()
      for (const method of needed) assert.ok(has(method), `${name} has no ${method}`)
      const can = py.evaluate(`${name}.abilities`).value() as string[]
      assert.equal(has('wrap_stream_object'), can.includes('wraps by protocol'), `${name} and __cuda_stream__`)
      assert.equal(has('wait_for_event'), can.includes('waits for events'), `${name} and events`)
      assert.equal(has('capture_fill') && has('launch_captured'), can.includes('captures'), `${name} and graphs`)
      // Numba learns only at run time whether it compiles, and has both.
      assert.ok(has('transform') || has('copy_part'), `${name} has nothing to do in a pipeline`)
      if (can.includes('computes')) assert.ok(has('transform'), `${name} computes`)
    }
  })

  it('offers memory by version 3 of the CUDA Array Interface', () => {
    const py = pythonHere()
    py.run(ADAPTERS)
    const offered = (stream: string) =>
      py.evaluate(`Offered(0x7f00_0000_1000, 64, ${stream}).__cuda_array_interface__`).value()
    const data = [0x7f00_0000_1000, false]
    const common = { version: 3, shape: [64], typestr: '<i4', data, strides: null }
    assert.deepEqual(offered('None'), { ...common, stream: null })
    assert.deepEqual(offered('0x5555'), { ...common, stream: 0x5555 })
  })

  it('says why a library is not here, and goes on with the others', () => {
    const py = pythonHere()
    const device = simulatedDevice()
    py.run('import sys')
    // None makes an import fail as if nothing were installed.
    for (const name of ['torch', 'cupy', 'cuda', 'cuda.core', 'numba', 'warp']) py.run(`sys.modules['${name}'] = None`)
    const { libraries, missing } = openPythonLibraries(py, device, 64)
    assert.deepEqual(libraries, [])
    assert.deepEqual(
      missing.map(({ name }) => name),
      [...PYTHON_LIBRARIES],
    )
    for (const { name, error } of missing) {
      assert.ok(error instanceof PythonError, name)
      assert.match(error.traceback, /^Traceback/, name)
      assert.equal(isNotHere(error), true, `${name}: ${error.message}`)
    }
    assert.equal(isNotHere(new PythonError('RuntimeError', 'it broke', '')), false)
  })

  it('passes every call of the interface on', () => {
    const py = pythonHere()
    const device = simulatedDevice()
    py.run(ADAPTERS)
    py.run(STAND_IN)
    using ours = new Stream({ device })
    const library: Library = new PythonLibrary(py, 'StandIn' as PythonLibraryName, 64, device)
    assert.deepEqual(
      [library.name, library.stream, library.mine, library.result, library.record()],
      ['stand-in', 1234n, 4096n, 8192n, 2n ** 46n],
    )
    assert.deepEqual([...library.abilities], ['computes'])
    assert.deepEqual(library.arrayInterface(), { pointer: 4096n, byteLength: 256, stream: undefined })
    library.fill(5)
    library.readMine()
    library.waitForEvent(77n)
    library.wrapStream(ours, 'handle')
    library.wrapStream(ours, 'protocol')
    library.waitForWrapped()
    library.wrapMemory(4096n, undefined)
    library.wrapMemory(4096n, ours.handle)
    library.readOurs()
    library.fillOursOnWrapped(-6)
    library.captureFill(8, true)
    library.launchCaptured(false)
    library.transform(7, 8)
    library.copyPart(1, 8)
    const handle = Number(ours.handle)
    assert.ok(library.owner instanceof PythonObject)
    assert.deepEqual(library.owner.get('calls').value(), [
      ['init', 64, 0],
      ['record'],
      ['fill', 5],
      ['read_mine'],
      ['wait_for_event', 77],
      ['wrap_stream', handle],
      ['wrap_stream_object', [0, handle]],
      ['wait_for_wrapped'],
      ['wrap_memory', 4096, null],
      ['wrap_memory', 4096, handle],
      ['read_theirs'],
      ['fill_theirs_on_wrapped', -6],
      ['capture_fill', 8, true],
      ['launch_captured', false],
      ['transform', 7, 8],
      ['copy_part', 1, 8],
    ])
  })

  it('takes the handle of a stream that has no __cuda_stream__', () => {
    const py = pythonHere()
    const [first, second] = [simulatedDevice(), { ordinal: 1 } as ReturnType<typeof simulatedDevice>]
    py.run(ADAPTERS)
    py.run(STAND_IN)
    for (const [device, has] of [
      [first, true],
      [second, false],
    ] as const) {
      const library = new PythonLibrary(py, 'StandIn' as PythonLibraryName, 64, device)
      assert.equal(library.hasProtocol, has)
      assert.deepEqual([...library.streamObject.__cuda_stream__()], [0, 1234])
    }
  })
})

describe('a Python object that JavaScript holds', { skip: reason ?? false }, () => {
  const define = `
    import gc, weakref

    class Thing:
        pass

    def seen(name):
        gc.collect()
        return globals()[name]() is not None
  `

  it('lives until it is closed', () => {
    const py = pythonHere()
    py.run(define)
    const thing = py.evaluate('Thing()')
    py.run('one = weakref.ref(thing)', { thing })
    assert.equal(py.evaluate('seen("one")').boolean(), true)
    thing.close()
    thing.close()
    assert.equal(py.evaluate('seen("one")').boolean(), false)
  })

  it('lives as long as a buffer whose owner it is', async () => {
    const py = pythonHere()
    const device = simulatedDevice()
    py.run(define)
    using memory = device.alloc(64)
    const wrap = (): DeviceBuffer => {
      const owner = py.evaluate('Thing()')
      py.run('two = weakref.ref(owner)', { owner })
      return DeviceBuffer.from(memory.pointer, 64, { device, owner })
    }
    const wrapped = wrap()
    const slice = wrapped.subarray(0, 8)
    assert.equal(await collected(() => !py.evaluate('seen("two")').boolean()), false)
    wrapped.close()
    assert.equal(await collectUntil(() => !py.evaluate('seen("two")').boolean()), true)
    assert.equal(slice.closed, true)
  })

  it('lives as long as a stream that was wrapped from its __cuda_stream__', async () => {
    const py = pythonHere()
    const device = simulatedDevice()
    py.run(define)
    py.run(STAND_IN)
    using theirs = new Stream({ device })
    const wrap = (): ExternalStream => {
      const object = py.evaluate('StreamObject(handle)', { handle: theirs.handle })
      py.run('three = weakref.ref(object)', { object })
      return new ExternalStream(object, { device })
    }
    const wrapped = wrap()
    assert.equal(wrapped.equals(theirs), true)
    assert.equal(await collected(() => !py.evaluate('seen("three")').boolean()), false)
    wrapped.close()
    assert.equal(await collectUntil(() => !py.evaluate('seen("three")').boolean()), true)
  })
})
