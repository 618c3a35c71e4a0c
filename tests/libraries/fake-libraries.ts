/**
 * The entry points for cuBLAS, NCCL and others without a GPU: a fake C library of all, and simulated devices that are taken to
 * be real, so that what crosses the language border can be looked at on any machine that has a C compiler.
 */

import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Device } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import type * as Koffi from 'koffi'
import { driverOf } from '../../src/core/device.js'
import { LibraryVariable, VARIABLES } from '../../src/foundation/base/environment-variables.js'
import { stateError } from '../../src/foundation/base/errors.js'
import type { Driver } from '../../src/foundation/driver/driver.js'
import type { EventDriver } from '../../src/foundation/driver/event-driver.js'
import { cudaHandleOf } from '../../src/foundation/driver/handle-types.js'
import type { LibraryCall, LibraryDriver } from '../../src/foundation/driver/library-driver.js'
import type { WorkDriver } from '../../src/foundation/driver/queued-work.js'
import type { StreamDriver } from '../../src/foundation/driver/stream-driver.js'
import type { Interceptor } from '../../src/foundation/driver/wrappable-driver.js'
import { NativeCalls, NativeThread } from '../../src/foundation/native/native-thread.js'
import { cLibrary } from '../helpers/c-library.js'

/** The compiled tests lie in dist/, the C sources do not. */
const SOURCES = fileURLToPath(new URL('../../../tests/libraries/', import.meta.url))

export interface FakeLibraries {
  /** What was asked since the last time, a line for each call. */
  said(): string[]
  /** What the next product returns. */
  nextStatus(status: number): void
  /** How many looks a call of NCCL takes; -1: for ever. */
  polls(count: number): void
  /** An error that a rank runs into. */
  error(rank: number, error: number): void
  /** Calls a function of one number that a library's own fake has. */
  call(name: string, value: number): void
}

/** Compiles it and has the entry points load it. Returns why not where there is no compiler. */
export function fakeLibraries(): FakeLibraries | string {
  if (!existsSync(SOURCES)) return `${SOURCES} was not brought here`
  const names = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.c'))
  const sources = names.map((name) => join(SOURCES, name))
  const compiled = cLibrary('libfake.so', sources, ['-Wall', '-Wextra', '-Werror'])
  if (typeof compiled === 'string') return compiled
  const { file } = compiled
  for (const variable of Object.values(VARIABLES)) {
    const isFaked = variable instanceof LibraryVariable && ![VARIABLES.nvrtc, VARIABLES.cupti].includes(variable)
    if (isFaked) process.env[variable.name] = file
  }
  const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  const library = koffi.load(file)
  const said = library.func('const char *fake_said()') as () => string
  return {
    said: () =>
      said()
        .split('\n')
        .filter((line) => line !== ''),
    nextStatus: library.func('void fake_next_status(int)') as (status: number) => void,
    polls: library.func('void fake_polls(int)') as (count: number) => void,
    error: library.func('void fake_error(int, int)') as (rank: number, error: number) => void,
    call: (name, value) => void library.func(`void ${name}(size_t)`)(value),
  }
}

/** A simulated driver that says it is real, and calls libraries as the real one does. */
export class FakeDriver implements Interceptor {
  readonly name = 'cuda'
  /** What was told of the work. */
  readonly told: LibraryCall[] = []
  /** How often host functions that are pending were run before a call that may wait. */
  drained = 0
  /** What one of them does then. */
  whileDrained: (() => void) | undefined
  /** Events that were made and not given back. */
  eventsInUse = 0
  /** The error of a wait for a stream without blocking. */
  refusal: Error | undefined
  #insideHostFunction = false

  constructor(private readonly next: Driver) {}

  readonly libraries: LibraryDriver = {
    hostFunctionsPending: () => false,
    call: (_context, fn) => {
      if (this.#insideHostFunction) throw stateError('ERR_DEADLOCK', 'It was called inside a host function')
      this.drained += 1
      this.whileDrained?.()
      return fn()
    },
    async callOnThread(address, argument) {
      const thread = new NativeThread(address, argument)
      while (thread.result === undefined) await turn()
      return thread.result
    },
    makeOnThread: (calls) => new NativeCalls(0, calls),
    waitUntil: (isDone) => {
      while (!isDone()) {
        // Another look.
      }
    },
  }

  readonly work: Partial<WorkDriver> = {
    queue: (work) => {
      if (work.kind === 'library') {
        const { calls, together = (all) => all() } = work
        this.told.push(...calls)
        together(() => {
          for (const each of calls) each.call(cudaHandleOf(each.stream))
        })
      } else if (work.kind === 'hostFunction') {
        const run = (status: number): void => {
          this.#insideHostFunction = true
          try {
            work.call.run(status)
          } finally {
            this.#insideHostFunction = false
          }
        }
        this.next.work.queue({ ...work, call: { ...work.call, run } })
      } else this.next.work.queue(work)
    },
  }

  readonly events: Partial<EventDriver> = {
    create: (context, flags, recordedNext) => {
      this.eventsInUse += 1
      return this.next.events.create(context, flags, recordedNext)
    },
    recycle: (context, event) => {
      this.eventsInUse -= 1
      this.next.events.recycle(context, event)
    },
  }

  readonly streams: Partial<StreamDriver> = {
    finished: (stream, context, settle) => {
      if (this.refusal !== undefined) throw this.refusal
      return this.next.streams.finished(stream, context, settle)
    },
  }
}

/** Devices that say they are real. */
export function fakeDevices(count: number): {
  readonly devices: readonly Device[]
  readonly told: LibraryCall[]
  readonly driver: FakeDriver
} {
  const { devices } = simulate({ devices: count })
  const [first] = devices
  const front = first === undefined ? undefined : driverOf(first)
  if (front === undefined) throw new Error('no device was simulated')
  const { wrapper } = front.wrap((inner) => new FakeDriver(inner))
  return { devices, told: wrapper.told, driver: wrapper }
}
