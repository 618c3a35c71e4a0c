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
import { Program } from 'cuda-streams'
import { Communicator } from 'cuda-streams/nccl'
import { traceOperations } from 'cuda-streams/opentelemetry'
import { Python, PythonObject } from 'cuda-streams/python'
import { Recorder } from 'cuda-streams/recording'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { latch, simulate } from 'cuda-streams/sim'
import { publish, Timeline } from 'cuda-streams/timeline'
import { publicClasses } from '../catalogue/entry-points.js'
import { objectsOf } from '../catalogue/objects.js'
import { openPython } from '../helpers/python.js'
import { aboutLibraries } from '../libraries/about-libraries.js'

type Class = { readonly name: string; readonly prototype: object }

const [device] = simulate().devices
assert.ok(device)
const stream = device.createStream()
const [communicator] = await Communicator.createAll([device])
assert.ok(communicator)
const found = openPython()
const ofPython = typeof found === 'string' ? [] : [found, found.evaluate('[]')]
if (typeof found === 'string') console.log(`skipped: objects of Python: ${found}`)

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-receivers-'))
after(() => rmSync(folder, { recursive: true }))

/** An object of each class; none of what this machine lacks. */
const genuine = new Map<unknown, object | undefined>([
  ...[Python, PythonObject, ...aboutLibraries.flatMap(({ absent = [] }) => absent)].map(
    (one) => [one, undefined] as const,
  ),
  ...[
    ...objectsOf(stream),
    ...[communicator, ...ofPython, Sanitizer.start({ device })],
    Recorder.start(join(folder, 'run.rec'), { device }),
    ...[Timeline.start({ device }), await Timeline.record(() => {}, { device })],
  ].map((object) => [object.constructor, object] as const),
])

/** Members that print an object. They do not throw, whatever they are called on: `inspect(Stream.prototype)` calls them. */
const PRINTING: readonly (string | symbol)[] = ['toString', Symbol.toStringTag, inspect.custom]

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
      receivers.set(`an object of ${(other as Class).name}`, object)
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

describe('members of classes', () => {
  it('there is an object of every class to try them on', () => {
    const missing = [...publicClasses].filter((one) => !genuine.has(one)).map(({ name }) => name)
    assert.deepEqual(missing, [])
  })

  for (const one of publicClasses) {
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

  it('a Proxy of an object, and what inherits from one, close the object as it closes itself', async () => {
    const wrong: string[] = []
    const closing = [Symbol.dispose, 'close'] as const
    for (const through of [(object: object) => new Proxy(object, {}), (object: object) => Object.create(object)]) {
      for (const key of closing) {
        for (const object of objectsOf(device.createStream())) {
          if (typeof Reflect.get(object, key) !== 'function' || typeof Reflect.get(object, 'closed') !== 'boolean')
            continue
          const other: Record<typeof key | 'closed', unknown> = through(object)
          const what = `${String(key)} of ${object.constructor.name}`
          const call: unknown = other[key]
          try {
            if (typeof call === 'function') call.call(other)
          } catch (error) {
            wrong.push(`${what}: ${error}`)
          }
          if (Reflect.get(object, 'closed') !== true || other.closed !== true) wrong.push(`${what} does not close`)
        }
      }
    }
    assert.deepEqual(wrong, [])
  })

  it('objects without a class need no receiver: their members can be taken from them', () => {
    const { inject, close } = simulate()
    const { open } = latch(stream)
    const publisher = publish({ device })
    const traces = traceOperations({ device })
    const { compile } = Program
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
