/**
 * Calls of C at a third of koffi's price: arguments and result go through memory that both sides see (native/calls.c). Koffi
 * makes all calls where the addon is not there: in a bundle, on a platform that it was not built for.
 */
import { createRequire } from 'node:module'
import { compileFunction } from 'node:vm'
import { invalidValue, messageOf, stateError } from '../../../base/errors.js'
import { NativeMemory } from './native.js'

export type CFunction = (...args: (number | object)[]) => number

/** Makes a function of JavaScript for the C function at an address, which takes one to four integers, and returns an int. */
export type Binder = (address: number, parameters: number) => CFunction

/** Calls `bind` of the addon: the frame is laid out as C's `Call`. */
type Addon = (frame: number, parameters: number) => () => void

const VARIABLE = 'CUDA_STREAMS_CALLS'
const FRAME_BYTES = 64
const FUNCTION = 7

export interface QuickCalls {
  /** Undefined where koffi makes all calls. */
  readonly bind: Binder | undefined
  /** The addon's file, or why it is not used. */
  readonly why: string
}

/**
 * @throws ERR_INVALID_ARG_VALUE for a value of the variable that does not exist; ERR_UNSUPPORTED where it asks for the addon,
 * and that cannot be loaded
 */
export function openQuickCalls(): QuickCalls {
  const wanted = process.env[VARIABLE] || 'auto'
  if (wanted === 'koffi') return { bind: undefined, why: `${VARIABLE}=koffi` }
  if (wanted !== 'auto' && wanted !== 'slots') {
    throw invalidValue(`${VARIABLE} must be 'auto', 'slots' or 'koffi', not '${wanted}'`)
  }
  const file = `./calls-${process.platform}-${process.arch}.node`
  const require = createRequire(import.meta.url)
  try {
    return { bind: binderOf(require(file)), why: require.resolve(file) }
  } catch (error) {
    const why = `the addon ${file.slice(2)} cannot be loaded: ${messageOf(error).split('\n')[0]}`
    if (wanted === 'auto') return { bind: undefined, why }
    throw stateError('ERR_UNSUPPORTED', `${VARIABLE}=slots, but ${why}. Unset it, and koffi makes the calls`, error)
  }
}

function binderOf(addon: Addon): Binder {
  return (address, parameters) => {
    // It lives as long as the function, which is never given back.
    const frame = new NativeMemory(FRAME_BYTES)
    frame.uint64[FUNCTION] = BigInt(address)
    return withSlots(addon(frame.address, parameters), new Float64Array(frame.bytes.buffer), parameters)
  }
}

let texts = 0
const LETTERS = ['a', 'b', 'c', 'd'] as const

/**
 * A function of its own for each C function, made of text: V8 keeps what it learns of a function with its text, and calls
 * out of what several share cost twice as much (a wait 40 in place of 25 ns). No rest parameters: they cost more than the call.
 */
function withSlots(call: () => void, slots: Float64Array, parameters: number): CFunction {
  const names = LETTERS.slice(0, parameters)
  const stores = names.map((name, index) => `slots[${index}] = ${name}`)
  texts += 1
  const text = `return function call${texts}(${names}) { ${[...stores, 'call()'].join('; ')}; return slots[0] }`
  return compileFunction(text, ['call', 'slots'])(call, slots)
}
