/**
 * Calls of C functions. Arguments and result go through a frame, which is memory that both sides see (native/calls.c): that costs less than
 * to pass them through Node-API. Each argument is an integer, a handle, an address, or where C has a float or a double, that.
 */
import { compileFunction } from 'node:vm'
import { type Layer, layer } from './layer.js'

export type CFunction = (...args: number[]) => number

/** The kinds of calls that native/calls.c makes, in its order, with the number of slots in the frame of each. */
const SHAPES = {
  call1: 1,
  call2: 2,
  call3: 3,
  call4: 4,
  call8: 8,
  call24: 24,
  /** Return an address instead of an int. */
  address4: 4,
  address8: 8,
  /** Pass (word, struct of 64 bytes, word) and (word, word, struct of 128 bytes, word, word), given the struct's address. */
  ipcHandle: 3,
  uniqueId: 5,
  /** Pass three words and one or two numbers of one kind, as cuRAND has them. */
  floats: 5,
  doubles: 5,
} as const
type ShapeName = keyof typeof SHAPES
const SHAPE_NAMES = Object.keys(SHAPES) as ShapeName[]

/** The structs that C passes by value, with the shape that passes them, and the parameters among which they may be. */
const STRUCTS: Readonly<Record<string, readonly [shape: ShapeName, types: string]>> = {
  CUipcEventHandle: ['ipcHandle', 'word struct'],
  CUipcMemHandle: ['ipcHandle', 'word struct word'],
  ncclUniqueId: ['uniqueId', 'word word struct word word'],
}

/** The types that C passes in other registers than words, with the shape that passes them. */
const NUMBERS: Readonly<Record<string, ShapeName>> = { float: 'floats', double: 'doubles' }

/** The types that C passes in one word: pointers, integers, and the handles and enums of NVIDIA's libraries. A test holds those of CUDA against cuda.h. */
const WORD =
  /\*|^(const )?((unsigned )?(int|char|short|long long( int)?)|u?int\d+_t|size_t|Word|libraryPropertyType|(CU|cu|nccl|nvjpeg|nvml|nvrtc)\w+)$/

/** How a call passes parameters as C writes them, such as 'CUstream hStream, CUevent hEvent'. */
export function shapeOf(parameters: string): ShapeName {
  const given = parameters === 'void' ? [] : parameters.split(', ')
  const types = given.map((parameter) => (parameter.includes('*') ? '*' : parameter.replace(/ \w+$/, '')))
  const last = types.at(-1) ?? ''
  const numbers = NUMBERS[last]
  const kinds = types.map((type) => (type === last ? 'number' : WORD.test(type) ? 'word' : type)).join(' ')
  if (numbers !== undefined && /^word word word number( number)?$/.test(kinds)) return numbers
  const unknown = types.findIndex((type) => !WORD.test(type))
  if (unknown >= 0) throw new Error(`It is not known how C passes '${given[unknown]}'`)
  const struct = types.find((type) => type in STRUCTS)
  if (struct !== undefined) {
    const [shape, expected] = STRUCTS[struct] ?? []
    const found = types.map((type) => (type === struct ? 'struct' : 'word')).join(' ')
    if (shape !== undefined && found === expected) return shape
  } else {
    const enough = SHAPE_NAMES.find((name) => name.startsWith('call') && SHAPES[name] >= types.length)
    if (enough !== undefined) return enough
  }
  throw new Error(`No call passes (${parameters})`)
}

/** A C function to make a function of JavaScript for. */
export interface Declaration<N extends string> {
  readonly name: N
  readonly address: number
  /** The number of arguments. */
  readonly parameters: number
  readonly shape: ShapeName
  /** Makes the JavaScript function for a C function that makes or destroys a handle. The frame has eight slots. */
  readonly bind?: ((buffer: ArrayBuffer, offset: number) => () => void) | undefined
}

export function declaration<N extends string>(
  name: N,
  address: number,
  parameters: string,
  shape: ShapeName = shapeOf(parameters),
): Declaration<N> {
  return { name, address, parameters: parameters === 'void' ? 0 : parameters.split(', ').length, shape }
}

/** The size of a frame, which has its function's address, then its slots. Frames share no cache line. */
const frameBytes = (shape: ShapeName): number => Math.ceil((8 + 8 * SHAPES[shape]) / 64) * 64

/**
 * Makes a function of JavaScript for each C function. Each is compiled from a text of its own: V8 keeps what it learns about a function with
 * its text, and calls from a text that several functions share cost twice as much. Rest parameters cost more than the call.
 */
export function bindAll<N extends string>(functions: readonly Declaration<N>[]): Readonly<Record<N, CFunction>> {
  const { bind } = layer()
  const length = functions.reduce((sum, { shape }) => sum + frameBytes(shape), 0)
  const buffer = new ArrayBuffer(length)
  const calls: (() => void)[] = []
  const slots: Float64Array[] = []
  const texts: string[] = []
  let offset = 0
  for (const [index, { name, address, parameters, shape, bind: bindOwn }] of functions.entries()) {
    new BigUint64Array(buffer, offset, 1)[0] = BigInt(address)
    calls.push(bindOwn?.(buffer, offset) ?? bind(buffer, offset, SHAPE_NAMES.indexOf(shape)))
    slots.push(new Float64Array(buffer, offset + 8, SHAPES[shape]))
    const names = Array.from({ length: parameters }, (_, at) => `a${at}`)
    const stores = names.map((argument, at) => `slots${index}[${at}] = ${argument}; `).join('')
    texts.push(`${name}: function ${name}(${names}) { ${stores}call${index}(); return slots${index}[0] }`)
    offset += frameBytes(shape)
  }
  const each = (name: string): string[] => functions.map((_, index) => `${name}${index}`)
  const text = `return { ${texts.join(',\n')} }`
  return compileFunction(text, [...each('call'), ...each('slots')])(...calls, ...slots)
}

/** The C functions of the native layer. */
const OWN = {
  addKind: 'Word destroy, Word traits, const char *name',
  addOwned: 'Word owner, Word kind, Word handle, Word more',
  allocate: 'Word length',
  allocateInOrder:
    'Word owner, Word kind, Word context, Word stream, Word bytes, Word pool, Word searching, Word *pointer',
  allocateOfThread: 'Word owner, Word length',
  allowRecords: 'Word count, Word bytes',
  bytesKept: 'void',
  callAlone: 'void *function, Word argument',
  callOnThread: 'void *call',
  copy: 'Word to, Word from, Word length',
  countBlocks: 'void',
  countOwned: 'Word of_all',
  freeInOrder: 'Word owner, Word kind, Word context, Word stream, Word pointer',
  giveBackBy: 'const void *functions',
  giveToProcess: 'Word kind, Word handle',
  isLost: 'Word result',
  keepPinned: 'Word owner, Word kind, Word pointer, Word length',
  leaveShared: 'Word owner, Word registration',
  lendSymbols: 'const char *path',
  largePages: 'Word address, Word length',
  mapFile: 'Word file, Word length',
  restoreSignals: 'void',
  nap: 'Word microseconds',
  noteContext: 'Word context, Word device',
  notePinned: 'Word kind, Word most, Word milliseconds',
  noteSemaphores: 'Word kind, Word address, Word sequences, Word labels',
  noteSignals: 'void',
  readMemory: 'Word from, Word to, Word length',
  release: 'Word address',
  releaseOfThread: 'Word owner, Word address',
  removeOwned: 'Word kind, Word handle',
  setVariable: 'const char *name, const char *value',
  shareOwned: 'Word registration, Word kind, Word handle, Word second_kind, Word second',
  takeKeptPinned: 'Word owner, Word kind, Word wanted, Word *pointer',
  takeRecords: 'void',
  takeSlot: 'Word owner',
  takeSemaphores: 'Word owner, Word kind, Word *into, Word are_of_graphs',
  takeStalePinned: 'Word owner, Word kind, Word milliseconds, Word *pointer',
  threadNumber: 'void',
  processRegistry: 'void',
  unmap: 'Word address, Word length',
  unshareOwned: 'Word registration',
  useShared: 'Word owner, Word registration',
  waitForStream: 'Word stream, Word other, Word event',
  waitAtEnd: 'Word owner, Word milliseconds',
  watch: 'Word nanoseconds, const char *description',
} as const
/** The functions among them that return an address. */
const RETURN_ADDRESSES = [
  'allocate',
  'allocateOfThread',
  'bytesKept',
  'mapFile',
  'processRegistry',
  'takeKeptPinned',
  'takeRecords',
  'takeStalePinned',
  'threadNumber',
]

type Own = Readonly<Record<keyof typeof OWN, CFunction>>

let bound: Own | undefined

export function own(): Own {
  bound ??= bindOwn(layer())
  return bound
}

function bindOwn({ functions }: Layer): Own {
  const names = Object.keys(OWN) as (keyof typeof OWN)[]
  const shapeOfOwn = (name: keyof typeof OWN) => (RETURN_ADDRESSES.includes(name) ? 'address4' : shapeOf(OWN[name]))
  return bindAll(names.map((name) => declaration(name, functions[name] ?? 0, OWN[name], shapeOfOwn(name))))
}

let anyFunction:
  | { readonly address: BigUint64Array; readonly slots: Float64Array; readonly call: () => void }
  | undefined

/** Calls the C function at an address with one argument, and ignores what it returns. */
export function callAt(address: number, argument: number): void {
  if (anyFunction === undefined) {
    const buffer = new ArrayBuffer(64)
    const call = layer().bind(buffer, 0, SHAPE_NAMES.indexOf('call1'))
    anyFunction = { address: new BigUint64Array(buffer, 0, 1), slots: new Float64Array(buffer, 8, 1), call }
  }
  anyFunction.address[0] = BigInt(address)
  anyFunction.slots[0] = argument
  anyFunction.call()
}
