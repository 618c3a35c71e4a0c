/** Converts work between the driver's form and that of a recording. */
import { scalarLayout } from '../../foundation/base/element-layout.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import type {
  ContextHandle,
  EventHandle,
  GraphExecHandle,
  GraphHandle,
  KernelHandle,
  Pointer,
  StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { LaunchArgument, LaunchShape } from '../../foundation/driver/kernel-driver.js'
import {
  type HostFunction,
  type KernelWork,
  memoryOf,
  type NodeWork,
  type QueuedWork,
} from '../../foundation/driver/queued-work.js'
import type { CopiedBytes, MemoryValue, TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { RecordedNodeWork, RecordedWord, RecordedWork } from './lines.js'

const bytesOf = ({ destination, source, byteLength, route, rows }: CopiedBytes): CopiedBytes => {
  return { destination, source, byteLength, route, rows }
}
/** The memory without the properties that the objects of a library have besides. */
const touchedOf = ({ pointer, byteLength, access, argument, rows }: TouchedMemory): TouchedMemory => {
  return { pointer, byteLength, access, argument, rows }
}
const wordOf = ({ pointer, bits, value }: MemoryValue): RecordedWord => {
  return { pointer, bits, value: String(value) }
}

export function recordedNode(stream: number, work: NodeWork): RecordedNodeWork {
  switch (work.kind) {
    case 'kernel': {
      const { grid, block, sharedMemory } = work.shape
      const { name } = work.kernel
      return { kind: 'kernel', stream, name, grid, block, sharedMemory, memory: memoryOf(work) }
    }
    case 'copy':
      return { kind: 'copy', stream, name: 'copy', ...bytesOf(work) }
    case 'fill': {
      const { pointer, value, width, count, rows } = work
      return { kind: 'fill', stream, pointer, value, width, count, rows }
    }
  }
}

/** The form of queued work in a recording: the memory of an allocation is known by then. */
export function recorded(work: QueuedWork): RecordedWork {
  switch (work.kind) {
    case 'kernel':
    case 'fill':
      return recordedNode(work.stream, work)
    case 'copy':
      return { kind: 'copy', stream: work.stream, name: work.name, ...bytesOf(work) }
    case 'copies':
      return { kind: 'copies', stream: work.stream, copies: work.copies.map(bytesOf) }
    case 'library':
      return {
        kind: 'library',
        calls: work.calls.map(({ name, stream, memory }) => ({ name, stream, memory: memory.map(touchedOf) })),
      }
    case 'allocate':
      return { kind: 'allocate', stream: work.stream, pointer: work.pointer, byteLength: work.byteLength }
    case 'free':
      return { kind: 'free', stream: work.stream, pointer: work.pointer, ...recordedEvents(work.after) }
    case 'hostFunction': {
      const { internal = false, runsAfterFault } = work.call
      return { kind: 'hostFunction', stream: work.stream, internal, callback: runsAfterFault }
    }
    case 'promise':
      return { kind: 'promise', stream: work.stream }
    case 'waitValue':
      return { kind: 'waitValue', stream: work.stream, word: wordOf(work.word), compare: work.compare }
    case 'writeValue':
      return { kind: 'writeValue', stream: work.stream, word: wordOf(work.word) }
    case 'graph':
    case 'graphUpload':
      return { kind: work.kind, stream: work.stream, exec: work.exec }
    case 'childGraph':
      return { kind: 'childGraph', stream: work.stream, graph: work.graph }
  }
}

const NO_CONTEXT = 0 as ContextHandle

const recordedEvents = (events: readonly InternalEvent[]): { readonly after?: readonly number[] } =>
  events.length === 0 ? {} : { after: events.map(({ event }) => event) }

const eventOf = (event: number): InternalEvent => ({ context: NO_CONTEXT, event: event as EventHandle })

const BYTE = scalarLayout('u8')

/** Does nothing, since the work of a recording is not done again. */
const nothing = (): void => {}

/**
 * The driver's form of recorded work.
 * @param run Runs the host function
 */
export function queued(work: RecordedWork, run: HostFunction['run']): QueuedWork {
  const stream = (work.kind === 'library' ? 0 : work.stream) as StreamHandle
  switch (work.kind) {
    case 'kernel':
    case 'fill':
      return { ...nodeWork(work), stream }
    case 'copy':
      return { ...work, stream }
    case 'copies':
      return { kind: 'copies', stream, copies: work.copies }
    case 'library':
      return {
        kind: 'library',
        calls: work.calls.map(({ name, stream: on, memory }) => {
          return { name, stream: on as StreamHandle, memory, context: NO_CONTEXT, call: nothing, host: undefined }
        }),
      }
    case 'allocate': {
      const { byteLength } = work
      const [pool, pointer] = [undefined, 0 as Pointer]
      return { kind: 'allocate', stream, context: NO_CONTEXT, byteLength, pool, isZeroed: false, pointer }
    }
    case 'free':
      return { kind: 'free', stream, pointer: work.pointer as Pointer, after: (work.after ?? []).map(eventOf) }
    case 'hostFunction': {
      const call = { run, runsAfterFault: work.callback, internal: work.internal }
      return { kind: 'hostFunction', stream, context: NO_CONTEXT, call }
    }
    case 'promise':
      return { kind: 'promise', stream, context: NO_CONTEXT, called: undefined, release: nothing }
    case 'waitValue':
      return { kind: 'waitValue', stream, context: NO_CONTEXT, word: memoryValue(work.word), compare: work.compare }
    case 'writeValue':
      return { kind: 'writeValue', stream, word: memoryValue(work.word) }
    case 'graph':
    case 'graphUpload':
      return { kind: work.kind, stream, exec: work.exec as GraphExecHandle }
    case 'childGraph':
      return { kind: 'childGraph', stream, graph: work.graph as GraphHandle }
  }
}

export function nodeWork(work: Extract<RecordedWork, { readonly kind: 'kernel' }>): KernelWork
export function nodeWork<W extends RecordedNodeWork>(work: W): Extract<NodeWork, { readonly kind: W['kind'] }>
export function nodeWork(work: RecordedNodeWork): NodeWork {
  switch (work.kind) {
    case 'kernel':
      return kernelWork(work)
    case 'copy':
      return { kind: 'copy', ...bytesOf(work) }
    case 'fill': {
      const { pointer, value, width, count, rows } = work
      return { kind: 'fill', pointer: pointer as Pointer, value, width, count, rows }
    }
  }
}

function kernelWork({
  name,
  grid,
  block,
  sharedMemory,
  memory,
}: Extract<RecordedWork, { readonly kind: 'kernel' }>): KernelWork {
  const length = Math.max(0, ...memory.map(({ argument = 0 }) => argument + 1))
  const given = (argument: number): TouchedMemory | undefined => memory.find((each) => each.argument === argument)
  const indices = Array.from({ length }, (_, argument) => argument)
  const args = indices.map((argument): LaunchArgument => {
    const touched = given(argument)
    return touched === undefined ? 0 : { pointer: touched.pointer, byteLength: touched.byteLength }
  })
  const uses = indices.map((argument) => ({ access: given(argument)?.access, element: BYTE }))
  const kernel = { handle: 0 as KernelHandle, name, uses }
  const shape: LaunchShape = {
    grid,
    block,
    sharedMemory,
    cooperative: false,
    cluster: undefined,
    attributes: undefined,
  }
  return { kind: 'kernel', kernel, shape, args }
}

const memoryValue = ({ pointer, bits, value }: RecordedWord): MemoryValue => {
  return { pointer, bits, value: BigInt(value) }
}
