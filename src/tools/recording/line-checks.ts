/** Checks whether a line of a recording is as lines.ts has it. A file may be damaged, or written by another program. */
import { isObject } from '../../foundation/base/arguments.js'
import { CALLS_BY_NAME, type CallField, OTHER_CALLS, type Row } from './call-table.js'
import type { RecordedWork } from './lines.js'

type Check = (value: unknown) => boolean

/** A number of bytes that no machine has, so that what is computed with such numbers stays exact. */
const MOST_BYTES = 2 ** 50
/** A number of arguments that no kernel of CUDA has. */
const MOST_ARGUMENTS = 2 ** 16

const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value)
const isText: Check = (value) => typeof value === 'string'
const isFlag: Check = (value) => typeof value === 'boolean'
const isSize: Check = (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MOST_BYTES
const isOptional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)
const isList =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check)

/** Whether all fields that a check names are there and valid, as fields of the object itself and not of its prototype. */
const has =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value) =>
    isObject(value) && Object.entries(checks).every(([name, check]) => check(ownOf(value, name)))

const ownOf = (value: object, name: string): unknown =>
  Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined

const isDigits: Check = (value) => typeof value === 'string' && /^\d{1,40}$/.test(value)
const isShape: Check = (value) => isList(isSize)(value) && Array.isArray(value) && value.length === 3
const isRows = has({ rowLength: isSize, rows: isSize, rowDistance: isSize, matrices: isSize, matrixDistance: isSize })
const isArgument: Check = (value) => isSize(value) && Number(value) < MOST_ARGUMENTS
const isMemory = isList(
  has({
    pointer: isNumber,
    byteLength: isSize,
    access: (value) => value === 'in' || value === 'out' || value === 'inout',
    argument: isOptional(isArgument),
    rows: isOptional(isRows),
  }),
)
const COPIED = {
  destination: isNumber,
  source: isNumber,
  byteLength: isSize,
  rows: isOptional(has({ to: isRows, from: isRows })),
}
const WORD = has({ pointer: isNumber, bits: (value) => value === 32 || value === 64, value: isDigits })
const ON_STREAM = { stream: isNumber }

const WORK: Readonly<Record<RecordedWork['kind'], Check>> = {
  kernel: has({ ...ON_STREAM, name: isText, grid: isShape, block: isShape, sharedMemory: isSize, memory: isMemory }),
  copy: has({ ...ON_STREAM, name: isText, ...COPIED }),
  copies: has({ ...ON_STREAM, copies: isList(has(COPIED)) }),
  fill: has({
    ...ON_STREAM,
    pointer: isNumber,
    value: isNumber,
    width: isSize,
    count: isSize,
    rows: isOptional(isRows),
  }),
  library: has({ calls: isList(has({ name: isText, stream: isNumber, memory: isMemory })) }),
  allocate: has({ ...ON_STREAM, pointer: isNumber, byteLength: isSize }),
  free: has({ ...ON_STREAM, pointer: isNumber, after: isOptional(isList(isNumber)) }),
  hostFunction: has({ ...ON_STREAM, internal: isFlag, callback: isFlag }),
  promise: has(ON_STREAM),
  waitValue: has({ ...ON_STREAM, word: WORD, compare: isNumber }),
  writeValue: has({ ...ON_STREAM, word: WORD }),
  graph: has({ ...ON_STREAM, exec: isNumber }),
  graphUpload: has({ ...ON_STREAM, exec: isNumber }),
  childGraph: has({ ...ON_STREAM, graph: isNumber }),
}

const ownCheck = <N extends string>(checks: Readonly<Record<N, Check>>, name: unknown): Check | undefined =>
  typeof name === 'string' && Object.hasOwn(checks, name) ? checks[name as N] : undefined

const isWork: Check = (value) => isObject(value) && ownCheck(WORK, ownOf(value, 'kind'))?.(value) === true
const isNodeWork: Check = (value) =>
  isWork(value) && isObject(value) && ['kernel', 'copy', 'fill'].includes(String(ownOf(value, 'kind')))

/** The checks of the fields of calls: a name means the same in all of them. */
const FIELDS = {
  ...{ stream: isNumber, other: isNumber, context: isNumber, event: isNumber, device: isSize, graph: isNumber },
  ...{ exec: isNumber, node: isNumber, cuda: isNumber, flags: isNumber, start: isNumber, end: isNumber },
  ...{ external: isOptional(isNumber), pointer: isNumber, byteLength: isSize, body: isNumber },
  ...{ name: isText, what: isText, enabled: isFlag, after: isList(isNumber), bodies: isList(isNumber) },
  copies: isList((value) => isList(isNumber)(value) && Array.isArray(value) && value.length === 2),
  into: (value: unknown) => has({ stream: isNumber })(value) || has({ body: isNumber })(value),
  work: isWork,
  memory: isMemory,
} as const satisfies Readonly<Record<CallField, Check>>

/** The rows of the calls, by their names. */
const ROWS = new Map<string, Pick<Row, 'fields'>>(
  [...[...CALLS_BY_NAME.values()].map(({ row }) => row), ...Object.values(OTHER_CALLS)].map((row) => [row.call, row]),
)

function isRecordedCall(line: object): boolean {
  const call = ownOf(line, 'call')
  const row = typeof call === 'string' ? ROWS.get(call) : undefined
  if (row === undefined || (call === 'updateNode' && !isNodeWork(ownOf(line, 'work')))) return false
  return row.fields.every((name) => FIELDS[name](ownOf(line, name)))
}

const isStreamFacts = has({
  ...{ stream: isNumber, device: isSize, context: isNumber, id: isDigits, nonBlocking: isFlag, priority: isNumber },
  ...{ multiprocessors: isOptional(isNumber), escaped: isFlag, name: isText, given: isFlag },
})

const isParticulars = has({
  ...{ op: isOptional(isNumber), node: isOptional(isNumber), captured: isOptional(isFlag), told: isOptional(isFlag) },
  ...{ memory: isOptional(isMemory), failed: isOptional(isFlag), own: isOptional(isNumber) },
  mistakes: isOptional(isList(has({ kind: isText, message: isText }))),
})

const isBytes: Check = (value) => typeof value === 'string' && /^(?:[0-9a-f]{2})*$/i.test(value)

/** Whether a value is a line behind the header. */
export function isLine(line: unknown): boolean {
  if (Array.isArray(line)) {
    const [definition, gap, length, stack, more] = line
    const isTimed = isNumber(gap) && isNumber(length) && Math.abs(gap) < MOST_BYTES * 16 && length >= 0
    return (
      isSize(definition) &&
      isTimed &&
      (stack === null || isOptional(isNumber)(stack)) &&
      isOptional(isParticulars)(more)
    )
  }
  if (!isObject(line)) return false
  if (Object.hasOwn(line, 'call')) return isRecordedCall(line)
  if (Object.hasOwn(line, 'stack')) return isText(ownOf(line, 'stack'))
  if (Object.hasOwn(line, 'id')) return isStreamFacts(line)
  if (Object.hasOwn(line, 'bytes')) return has({ bytes: isBytes, pointer: isNumber })(line)
  if (Object.hasOwn(line, 'times')) return isList(isNumber)(ownOf(line, 'times'))
  if (Object.hasOwn(line, 'end')) return has({ end: isSize, nanoseconds: isNumber })(line)
  return ownOf(line, 'forget') === true
}

/**
 * Runs code that reads a part of a file. If the file's content makes it fail, and not an error of this library, it throws the error that `damaged`
 * returns.
 */
export function orDamaged<R>(read: () => R, damaged: () => Error): R {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError) || 'code' in error) throw error
    throw Object.assign(damaged(), { cause: error })
  }
}

export const isHeaderLine = has({
  driver: (value) => value === 'cuda' || value === 'sim',
  stacks: (value) => value === 'sampled' || value === 'all' || value === 'none',
  clock: (value) => value === 'virtual' || value === 'host',
  devices: isList(has({ name: isText, multiprocessors: isNumber, threads: isNumber })),
})
