/**
 * The steps of random programs: every kind that a suite plays, with its fields. A suite plays those that it has a rule for.
 * What a field holds is a number, unless `Values` says otherwise.
 */
import { FIELDS as WITH_GPU } from '../differential/steps.js'

/** Parts of one piece of memory, from `start` to before `end`. */
export interface Use {
  readonly memory: number
  readonly start: number
  readonly end: number
  readonly writes: boolean
}

export const FIELDS = {
  ...WITH_GPU,
  /** Virtual time passes on the stream. */
  busy: ['stream', 'nanoseconds'],
  /** A kernel, or a declared access, uses memory. */
  work: ['stream', 'uses'],
  /** A host function that uses pinned memory, perhaps. */
  hostUse: ['stream', 'perhaps'],
  /** JavaScript uses pinned memory. */
  view: ['used'],
  /** Records for a promise that nobody waits for. */
  promise: ['stream'],
  /** A stream writes a word, or waits until one holds this number or more. */
  writeWord: ['stream', 'flag', 'value'],
  waitWord: ['stream', 'flag', 'value'],
  /** In a capture: the stream waits for the other stream of the capture. */
  join: ['stream'],
  /** In a capture: what follows is captured again, and added behind all nodes or behind none. */
  again: ['isBehind'],
  /** The stream is destroyed, and another takes its place. */
  replace: ['stream'],
  /** A capture that another stream joins is given up: the one that began it is destroyed, and another takes its place. */
  giveUpCapture: ['stream', 'other', 'used'],
  /** JavaScript changes an array that is registered. */
  array: [],
  /** One byte: set, or mixed with another so that every order of two such steps shows. */
  setByte: ['stream', 'buffer', 'value'],
  mixByte: ['stream', 'buffer', 'source'],
  toPinned: ['stream', 'buffer'],
  fromPinned: ['stream', 'buffer'],
  /** JavaScript reads or writes a byte of pinned memory; the `kept` ones read it through a view that was made at the beginning. */
  look: [],
  write: ['value'],
  keptHost: ['stream'],
  keptSynchronize: ['stream'],
  keptAwait: ['stream'],
  /** The program goes on while the promise is pending. */
  thenStream: ['stream'],
  /** A host function that queues work, or waits, on another stream. */
  hostQueues: ['stream', 'other', 'buffer'],
  hostWaits: ['stream', 'other'],
  /** Memory that is freed while another stream uses it by its address. */
  temporary: ['stream', 'other', 'buffer'],
  /** A graph of two branches. */
  branches: ['stream', 'buffer'],
  /** The stream is held until a host function of the other one has run. */
  holdFor: ['stream', 'other'],
  /** A kernel writes a number down; conditional nodes, whose kernel sets the condition to the value, or that play a body so often. */
  note: ['value'],
  if: ['value', 'bodies'],
  switch: ['value', 'bodies'],
  while: ['value', 'bodies'],
} as const

export type What = keyof typeof FIELDS
export type Field = (typeof FIELDS)[What][number]

interface Values {
  readonly used: Use
  readonly uses: readonly Use[]
  readonly perhaps: Use | undefined
  readonly isBehind: boolean
  readonly bodies: readonly (readonly Statement[])[]
}
export type Value<F> = F extends keyof Values ? Values[F] : number

export type StepOf<W extends What> = W extends What
  ? { readonly what: W } & { readonly [F in (typeof FIELDS)[W][number]]: Value<F> }
  : never
/** What the body of a conditional node has. */
export type Statement = StepOf<'note' | 'if' | 'switch' | 'while'>
