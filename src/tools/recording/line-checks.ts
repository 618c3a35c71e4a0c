/** Checks whether a line of a recording is as lines.ts has it. A file may be damaged, or written by another program. */
import { isObject } from '../../foundation/base/arguments.js'
import { CALLS_BY_NAME, type CallField, OTHER_CALLS, type Row } from './call-table.js'
import {
  type Check,
  has,
  isDigits,
  isEither,
  isFlag,
  isList,
  isMemory,
  isNumber,
  isOneOf,
  isOptional,
  isSize,
  isText,
  MOST_BYTES,
  ownOf,
} from './field-checks.js'
import { isRecordedNodeWork, isRecordedWork } from './work-table.js'

const isPair = (value: unknown): value is readonly [number, number] => isList(isNumber)(value) && value.length === 2

/** The checks of the fields of calls: a name means the same in all of them. */
const FIELDS = {
  ...{ stream: isNumber, other: isNumber, context: isNumber, event: isNumber, device: isSize, graph: isNumber },
  ...{ exec: isNumber, node: isNumber, cuda: isNumber, flags: isNumber, start: isNumber, end: isNumber },
  ...{ external: isOptional(isNumber), pointer: isNumber, byteLength: isSize, body: isNumber },
  ...{ name: isText, what: isText, enabled: isFlag, after: isList(isNumber), bodies: isList(isNumber) },
  copies: isList(isPair),
  into: isEither(has({ stream: isNumber }), has({ body: isNumber })),
  work: isRecordedWork,
  memory: isMemory,
} as const satisfies Readonly<Record<CallField, Check>>

/** The rows of the calls, by their names. */
const ROWS = new Map<string, Pick<Row, 'fields'>>(
  [...[...CALLS_BY_NAME.values()].map(({ row }) => row), ...Object.values(OTHER_CALLS)].map((row) => [row.call, row]),
)

function isRecordedCall(line: object): boolean {
  const call = ownOf(line, 'call')
  const row = typeof call === 'string' ? ROWS.get(call) : undefined
  if (row === undefined || (call === 'updateNode' && !isRecordedNodeWork(ownOf(line, 'work')))) return false
  return row.fields.every((name) => FIELDS[name](ownOf(line, name)))
}

const isStreamFacts = has({
  ...{ stream: isNumber, device: isSize, context: isNumber, id: isDigits, nonBlocking: isFlag, priority: isNumber },
  ...{ multiprocessors: isOptional(isNumber), escaped: isFlag, name: isText, given: isFlag },
})

const isParticulars = has({
  ...{ op: isOptional(isNumber), node: isOptional(isNumber), captured: isOptional(isFlag), told: isOptional(isFlag) },
  ...{ memory: isOptional(isMemory), failed: isOptional(isFlag), own: isOptional(isNumber) },
  mistakes: isOptional(
    isList(has({ kind: isText, message: isText, memory: isOptional(has({ address: isSize, bytes: isSize })) })),
  ),
})

const isBytes = (value: unknown): value is string => isText(value) && /^(?:[0-9a-f]{2})*$/i.test(value)

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
  driver: isOneOf(['cuda', 'sim']),
  stacks: isOneOf(['sampled', 'all', 'none']),
  clock: isOneOf(['virtual', 'host']),
  devices: isList(has({ name: isText, multiprocessors: isNumber, threads: isNumber })),
  rank: isOptional(isSize),
})
