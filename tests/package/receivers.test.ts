/**
 * Every member of every class of every entry point, called on a value that is no object of the class: ERR_INVALID_ARG_TYPE. The
 * members are found by reflection, so those that are added later are among them.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { inspect } from 'node:util'
import * as main from 'cuda-streams'
import * as dlpack from 'cuda-streams/dlpack'
import * as nccl from 'cuda-streams/nccl'
import * as opentelemetry from 'cuda-streams/opentelemetry'
import * as python from 'cuda-streams/python'
import * as recordings from 'cuda-streams/recording'
import * as sanitizer from 'cuda-streams/sanitizer'
import * as sim from 'cuda-streams/sim'
import * as timeline from 'cuda-streams/timeline'
import { openPython } from '../helpers/python.js'
import { aboutLibraries } from '../libraries/about-libraries.js'

type Class = { readonly name: string; readonly prototype: object }

const [device] = sim.simulate().devices
assert.ok(device)
const stream = device.createStream()
const graph = stream.capture(() => {})
let condition: main.Condition | undefined
stream.capture(() => {
  condition = stream.createCondition()
})
const [communicator] = await nccl.Communicator.createAll([device])
assert.ok(communicator)
const found = openPython()
const interpreter = typeof found === 'string' ? undefined : found
if (typeof found === 'string') console.log(`skipped: objects of Python: ${found}`)
const recording = timeline.Timeline.start({ device })
const recorded = await timeline.Timeline.record(() => {}, { device })
const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-receivers-'))
const recorder = recordings.Recorder.start(join(folder, 'run.rec'), { device })
after(() => rmSync(folder, { recursive: true }))

/** An object of each class; the simulator has no modules and kernels. */
const genuine = new Map<Class, object | undefined>([
  [main.Device as unknown as Class, device],
  [main.Stream, stream],
  [main.ExternalStream, new main.ExternalStream(stream)],
  [main.Event, device.createEvent()],
  [main.DeviceBuffer, device.alloc(64, { stream })],
  [main.PinnedBuffer, device.allocPinned(64)],
  [main.MemoryPool, new main.MemoryPool({ device })],
  [main.Graph, graph],
  [main.GraphExec, graph.instantiate()],
  [main.Condition as unknown as Class, condition],
  [main.GreenContext, device.split({ multiprocessors: [8] })[0]],
  [main.Module as unknown as Class, undefined],
  [main.Kernel, undefined],
  [main.DefinedKernel, main.defineKernel({ name: 'k', source: '', signature: [], simulateGrid() {} })],
  [main.CudaError, new main.CudaError('cuInit', 1, 'CUDA_ERROR_INVALID_VALUE')],
  ...aboutLibraries
    .flatMap(({ objects }) => objects(stream))
    .map((object): [Class, object] => [object.constructor as unknown as Class, object]),
  ...aboutLibraries.flatMap(({ absent = [] }) => absent.map((one): [Class, undefined] => [one, undefined])),
  [nccl.LibraryError, new nccl.LibraryError('ncclAllReduce', 1, 'ncclUnhandledCudaError')],
  [
    dlpack.DLPackTensor as unknown as Class,
    dlpack.toDLPack(device.alloc(64, { stream }), { dtype: 'u8', shape: [64], stream }),
  ],
  [nccl.Communicator as unknown as Class, communicator],
  [python.Python as unknown as Class, interpreter],
  [python.PythonObject as unknown as Class, interpreter?.evaluate('[]')],
  [python.PythonError, new python.PythonError('ValueError', 'wrong', '')],
  [sanitizer.Sanitizer as unknown as Class, sanitizer.Sanitizer.start({ device })],
  [sanitizer.SanitizerError, new sanitizer.SanitizerError([])],
  [timeline.Timeline, recorded],
  [timeline.Recording, recording],
  [recordings.Recorder as unknown as Class, recorder],
])

/** Members that print an object. They do not throw, whatever they are called on: `inspect(Stream.prototype)` calls them. */
const PRINTING: readonly (string | symbol)[] = ['toString', Symbol.toStringTag, inspect.custom]

function classesOf(entryPoint: object): readonly Class[] {
  return Object.values(entryPoint).filter(
    (value) => typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value)),
  )
}

interface Member {
  readonly key: string | symbol
  /** Where it stands. */
  readonly prototype: object
  readonly call: (this: unknown) => unknown
}

/** Methods, and the functions behind accessors, own and inherited. */
function membersOf({ prototype }: Class): readonly Member[] {
  const found: Member[] = []
  for (let at = prototype; at !== Object.prototype && at !== Error.prototype; at = Object.getPrototypeOf(at)) {
    for (const key of Reflect.ownKeys(at)) {
      const { get, set, value } = Object.getOwnPropertyDescriptor(at, key) ?? {}
      for (const call of [get, set, value]) {
        if (typeof call === 'function' && key !== 'constructor') found.push({ key, prototype: at, call })
      }
    }
  }
  return found
}

/** Values that are no objects of the class. */
function receiversFor(of: Class, prototype: object): ReadonlyMap<string, unknown> {
  const receivers = new Map<string, unknown>([
    ['undefined', undefined],
    ['null', null],
    ['a number', 1],
    ['{}', {}],
    ['the prototype', of.prototype],
  ])
  for (const [other, object] of genuine) {
    if (object !== undefined && !Object.prototype.isPrototypeOf.call(prototype, object)) {
      receivers.set(`an object of ${other.name}`, object)
    }
  }
  return receivers
}

/** The error with which it is refused, thrown or as a rejection. */
async function refusal({ call }: Member, receiver: unknown): Promise<unknown> {
  try {
    await call.call(receiver)
  } catch (error) {
    return error
  }
  return undefined
}

const libraries = aboutLibraries.map(({ module }) => module)
const entryPoints = [main, sim, dlpack, nccl, python, sanitizer, timeline, recordings, opentelemetry, ...libraries]
const classes = new Set(entryPoints.flatMap((entryPoint) => classesOf(entryPoint)))

describe('members of classes', () => {
  it('there is an object of every class to try them on', () => {
    const missing = [...classes].filter((one) => !genuine.has(one)).map(({ name }) => name)
    assert.deepEqual(missing, [])
  })

  for (const one of classes) {
    it(`${one.name}: called on anything else, each is ERR_INVALID_ARG_TYPE`, async () => {
      const wrong: string[] = []
      for (const member of membersOf(one)) {
        if (PRINTING.includes(member.key)) continue
        for (const [what, receiver] of receiversFor(one, member.prototype)) {
          const error = await refusal(member, receiver)
          const isRight =
            error instanceof TypeError &&
            Reflect.get(error, 'code') === 'ERR_INVALID_ARG_TYPE' &&
            /must be called on an? \w+ itself/.test(error.message)
          if (!isRight) wrong.push(`${String(member.key)} of ${what}: ${error}`)
        }
      }
      assert.deepEqual(wrong, [])
    })

    it(`${one.name}: printing does not throw`, () => {
      for (const { key, prototype, call } of membersOf(one)) {
        if (!PRINTING.includes(key)) continue
        for (const receiver of receiversFor(one, prototype).values()) {
          assert.equal(typeof call.call(receiver), 'string')
          inspect(receiver)
        }
      }
    })
  }

  it('objects without a class need no receiver: their members can be taken from them', () => {
    const { inject, close } = sim.simulate()
    const { open } = sim.latch(stream)
    const publisher = timeline.publish({ device })
    const traces = opentelemetry.traceOperations({ device })
    const { compile } = main.Program
    open()
    inject({ call: 'cuEventCreate', result: 2 })[Symbol.dispose]()
    close()
    for (const one of [publisher, traces]) {
      const { flush, close, [Symbol.dispose]: dispose } = one
      flush()
      close()
      dispose()
    }
    assert.equal(typeof compile, 'function')
    stream.synchronize()
  })
})
