/** How other libraries are called on the CUDA backend: with room, in the right context, which is put back in any case. */
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { CudaLibraries } from '../../src/cuda/cuda-libraries.js'
import type { ContextHandle, StreamHandle } from '../../src/foundation/driver/handle-types.js'
import type { LibraryCall } from '../../src/foundation/driver/library-driver.js'
import { mustOf } from './fake-parts.js'

const log: string[] = []
beforeEach(() => {
  log.length = 0
})

const parts = {
  // No stream captures.
  calls: { onStream: () => {} },
  must: mustOf({}),
  memory: { int32: new Int32Array(1) },
  contexts: {
    within: (context: number, calls: () => unknown) => {
      log.push(`enter ${context}`)
      try {
        return calls()
      } finally {
        log.push('leave')
      }
    },
  },
  relaxed: {
    run: (fn: () => unknown) => {
      log.push('relaxed')
      return fn()
    },
  },
  hostFunctions: {
    pending: true,
    countEntries: (stream: number, entries: number) => log.push(`${entries} on ${stream}`),
  },
  blocking: {
    libraryCall(call: () => unknown) {
      log.push('host functions')
      return call()
    },
    forLibrary: (isDone: () => boolean, what: string) => log.push(`${what} ${isDone()}`),
  },
}
const libraries = new CudaLibraries(parts as never)

function work(stream: number, context: number, more: Partial<LibraryCall> = {}): LibraryCall {
  return {
    name: 'x',
    stream: stream as StreamHandle,
    context: context as ContextHandle,
    memory: [],
    host: undefined,
    call: (raw) => void log.push(`call on ${raw}`),
    ...more,
  }
}

const withoutRepeats = (lines: readonly string[]): string[] => lines.filter((line, at) => line !== lines[at - 1])

test('counts what it may queue, then calls each in its context, with CUDA’s own handle', () => {
  // 5 is the token for handle 1 of device 1, which CUDA distinguishes by the context.
  libraries.queue({
    kind: 'library',
    calls: [work(0x5000, 1), work(5, 2)],
    together: (calls) => {
      log.push('{')
      calls()
      log.push('}')
    },
  })
  assert.deepEqual(withoutRepeats(log), [
    ...['8 on 20480', '8 on 5', '{', 'enter 1', 'call on 20480', 'enter 2', 'call on 1', 'leave', '}'],
  ])
})

test('of a library that finds the context by itself, only calls on default streams are made in theirs', () => {
  const inAnyContext = true
  libraries.queue({
    kind: 'library',
    calls: [work(0x5000, 1), work(0x6000, 2, { inAnyContext }), work(5, 2, { inAnyContext })],
  })
  const calls = ['call on 20480', 'call on 24576', 'enter 2', 'call on 1', 'leave']
  assert.deepEqual(withoutRepeats(log), ['8 on 20480', '8 on 24576', '8 on 5', 'enter 1', ...calls])
})

test('the context is put back also where the library refuses', () => {
  const mistake = new Error('refused')
  const refuses = (): never => {
    throw mistake
  }
  assert.throws(() => libraries.queue({ kind: 'library', calls: [work(0x5000, 1, { call: refuses })] }), mistake)
  assert.deepEqual(log.slice(-2), ['enter 1', 'leave'])
  log.length = 0
  assert.throws(() => libraries.call(3 as ContextHandle, refuses), mistake)
  assert.deepEqual(log, ['host functions', 'enter 3', 'relaxed', 'leave'])
})

test('waits as the library says', () => {
  libraries.waitUntil(() => true, 'this')
  assert.deepEqual(log, ['this true'])
  assert.equal(libraries.hostFunctionsPending(), true)
})
