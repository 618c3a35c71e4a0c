/** What is said of a Python stream, event or object that cannot be wrapped: an error that names the mistake, never a crash. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { Device, Event, ExternalStream, Stream } from 'cuda-streams'
import { PythonError } from 'cuda-streams/python'
import { destroyForeignStream, foreignStream } from 'cuda-streams/sim'
import { refused } from '../conformance/expect.js'
import { realPartners, simulatedDevices } from '../helpers/partners.js'
import { openPython, pythonHere } from '../helpers/python.js'

/** What `__cuda_stream__` may not return, as Python, and what the error must show of it. */
const WRONG_REPLIES: readonly (readonly [reply: string, says: RegExp])[] = [
  ['(1, HANDLE)', /\[0, handle\]: version 0/],
  ['HANDLE', /\[0, handle\]/],
  ['(0, HANDLE, 7)', /\[0, handle\]/],
  ['(0,)', /\[0, handle\]/],
  ['None', /\[0, handle\]/],
  ['(0, "HANDLE")', /a bigint or a safe integer/],
  ['(0, None)', /a bigint or a safe integer/],
]

describe('a Python stream on the simulator', () => {
  const [device, other] = simulatedDevices()

  it('is on another device than stated', () => {
    const handle = foreignStream(device)
    refused(
      () => new ExternalStream(handle, { device: other }),
      'ERR_DEVICE_MISMATCH',
      /not on .*as options\.device says/,
    )
    using wrapped = new ExternalStream(handle, { device })
    assert.equal(wrapped.query(), true)
  })

  it('was destroyed by its owner', () => {
    const handle = foreignStream(device)
    destroyForeignStream(handle)
    refused(() => new ExternalStream(handle, { device }), 'ERR_INVALID_HANDLE', /was it destroyed/)
  })

  it('is given by its id', () => {
    for (const id of [3, 35, 67]) {
      refused(() => new ExternalStream(id, { device }), 'ERR_INVALID_HANDLE', /id/, /cuda_stream/, /stream\.ptr/)
    }
  })
})

const noPython = openPython()

describe('a Python object with a wrong __cuda_stream__', {
  skip: typeof noPython === 'string' ? noPython : false,
}, () => {
  const [device] = simulatedDevices()

  for (const [reply, says] of WRONG_REPLIES) {
    it(`returns ${reply}`, () => {
      const py = pythonHere()
      using theirs = new Stream({ device })
      py.run(`
        class Wrong:
            def __cuda_stream__(self):
                return ${reply.replace('HANDLE', String(theirs.handle))}
      `)
      const source = py.evaluate('Wrong()')
      refused(() => new ExternalStream(source, { device }), 'ERR_INVALID_ARG_TYPE', /__cuda_stream__/, says)
      refused(() => theirs.wait(source), 'ERR_INVALID_ARG_TYPE', /__cuda_stream__/, says)
      refused(() => device.createStream(source), 'ERR_INVALID_ARG_TYPE', /__cuda_stream__/, says)
    })
  }

  it('raises, and its traceback comes through', () => {
    const py = pythonHere()
    py.run(`
      class Raising:
          def __cuda_stream__(self):
              raise RuntimeError('the stream is gone')
    `)
    const source = py.evaluate('Raising()')
    assert.throws(
      () => new ExternalStream(source, { device }),
      (error) =>
        error instanceof PythonError &&
        error.message === 'RuntimeError: the stream is gone' &&
        /^Traceback[\s\S]*in __cuda_stream__/.test(error.traceback),
    )
  })
})

const real = realPartners()
if (typeof real === 'string') test('a Python stream on a GPU', { skip: real }, () => {})
else {
  const { python: py, device, libraries } = real
  const works = (): void => {
    using stream = new Stream({ device })
    stream.record().synchronize()
    assert.equal(stream.query(), true)
  }

  for (const library of libraries) {
    describe(`a stream of ${library.name}`, () => {
      it('is on another device than stated', () => {
        const there = device.ordinal + 1
        const code = there < Device.count() ? 'ERR_DEVICE_MISMATCH' : 'ERR_OUT_OF_RANGE'
        refused(() => new ExternalStream(library.stream, { device: there }), code)
        refused(() => new ExternalStream(library.streamObject, { device: there }), code)
        works()
      })

      it('has a wrong version of the protocol', () => {
        const source = { __cuda_stream__: () => [1, library.stream] as const }
        refused(() => new ExternalStream(source), 'ERR_INVALID_ARG_TYPE', /version 0/)
        works()
      })

      it('is an event, or memory', () => {
        const event = library.record()
        refused(() => new ExternalStream(event), 'ERR_INVALID_HANDLE')
        refused(() => new ExternalStream(library.mine), 'ERR_INVALID_HANDLE')
        refused(() => Event.from(library.mine), 'ERR_INVALID_HANDLE')
        works()
      })
    })
  }

  const has = (name: string): string | false =>
    libraries.some((library) => library.name.startsWith(name)) ? false : `${name} is not here`

  test('the stream_id of PyTorch is not its handle', { skip: has('PyTorch') }, () => {
    py.run('import torch; mistaken = torch.cuda.Stream()')
    const id = py.evaluate('mistaken.stream_id').bigint()
    assert.notEqual(id, py.evaluate('mistaken.cuda_stream').bigint())
    console.log(
      `PyTorch: stream_id ${id} of the stream with handle 0x${py.evaluate('mistaken.cuda_stream').bigint().toString(16)}`,
    )
    refused(() => new ExternalStream(id), 'ERR_INVALID_HANDLE', /id/, /stream\.cuda_stream/)
    works()
  })

  test('a stream that CuPy has destroyed', { skip: has('CuPy') }, () => {
    py.run('import cupy; mistaken = cupy.cuda.Stream(non_blocking=True)')
    const handle = py.evaluate('mistaken.ptr').bigint()
    new ExternalStream(handle).close()
    py.run('del mistaken; import gc; gc.collect()')
    refused(() => new ExternalStream(handle), 'ERR_INVALID_HANDLE', /destroyed/)
    works()
  })

  test('a stream that cuda.core has closed', { skip: has('cuda.core') }, () => {
    py.run('import cuda.core; mistaken = cuda.core.Device().create_stream()')
    const handle = py.evaluate('int(mistaken.handle)').bigint()
    new ExternalStream(handle).close()
    py.run('mistaken.close()')
    refused(() => new ExternalStream(handle), 'ERR_INVALID_HANDLE', /destroyed/)
    works()
  })
}
