/** What the cells of the matrix differ in: where a host function stands, on which stream the call is made, with which memory. */
import type { CaptureModeName } from 'cuda-streams'

/** The stream at whose end a host function was queued that has not run: on a GPU the stream stands there. */
export const HOLDS = {
  own: 'its own stream',
  another: 'another stream',
  blocking: 'another, blocking stream',
  null: 'the null stream',
  nothing: 'nothing',
} as const
export type Hold = keyof typeof HOLDS

/** `green`: of a green context. */
export type StreamKind = 'blocking' | 'non-blocking' | 'per-thread' | 'null' | 'external' | 'green'

export interface CaptureUnderWay {
  readonly of: 'the stream' | 'a blocking stream' | 'a non-blocking stream'
  readonly mode: CaptureModeName
  /** A mistake has invalidated it already. */
  readonly invalidated?: boolean
}

/** On which stream the call is made, and what is captured meanwhile. */
export interface Situation {
  readonly stream: StreamKind
  readonly capture?: CaptureUnderWay
}

const MODES: readonly CaptureModeName[] = ['threadLocal', 'relaxed', 'global']

export const SITUATIONS: readonly Situation[] = [
  ...(['blocking', 'non-blocking', 'per-thread', 'null', 'external', 'green'] as const).map((stream) => ({ stream })),
  ...MODES.map((mode): Situation => ({ stream: 'non-blocking', capture: { of: 'the stream', mode } })),
  { stream: 'non-blocking', capture: { of: 'the stream', mode: 'threadLocal', invalidated: true } },
  { stream: 'green', capture: { of: 'the stream', mode: 'global' } },
  ...MODES.flatMap((mode): Situation[] => [
    { stream: 'null', capture: { of: 'a blocking stream', mode } },
    { stream: 'blocking', capture: { of: 'a blocking stream', mode } },
    { stream: 'null', capture: { of: 'a non-blocking stream', mode } },
  ]),
  { stream: 'per-thread', capture: { of: 'a blocking stream', mode: 'threadLocal' } },
  { stream: 'non-blocking', capture: { of: 'a blocking stream', mode: 'threadLocal' } },
]

/** As it goes into the name of a cell. */
export function describeSituation({ stream, capture }: Situation): string {
  if (capture === undefined) return `on a ${stream} stream`
  const { of, mode, invalidated = false } = capture
  const under = invalidated ? `in an invalidated capture (${mode})` : `in a capture (${mode})`
  return of === 'the stream' ? `on a ${stream} stream ${under}` : `on a ${stream} stream while ${of} captures (${mode})`
}

/** Where the call's stream is the null stream, two of the holds are one. */
export function holdsFor({ stream }: Situation): readonly Hold[] {
  const all = Object.keys(HOLDS) as Hold[]
  return stream === 'null' ? all.filter((hold) => hold !== 'null') : all
}

/** Does work that is queued on the stream now come after the host function? CUDA's rules of streams, and of the null stream. */
export function isBehind(hold: Hold, stream: StreamKind): boolean {
  switch (hold) {
    case 'own':
      return true
    case 'null':
      return stream === 'null' || stream === 'blocking' || stream === 'per-thread'
    case 'blocking':
      return stream === 'null'
    case 'another':
    case 'nothing':
      return false
  }
}

/** Is the stream itself not done before the host function has run? An idle one is, also where the null stream stands. */
export function hasWorkBehind(hold: Hold, stream: StreamKind): boolean {
  return hold === 'own' || (hold === 'blocking' && stream === 'null')
}

export const MEMORY = {
  own: "a device's, allocated on the stream",
  device: "a device's, allocated on another stream",
  slice: 'a slice of such',
  pinned: 'pinned',
  'pinned slice': 'a slice of such',
  foreign: 'wrapped by DeviceBuffer.from(pointer)',
  interprocess: 'interprocess',
  shared: 'had from a token of share()',
  registered: "a part of the program's own array, by PinnedBuffer.from()",
  'registered shared': 'a SharedArrayBuffer, too',
  pool: 'of a MemoryPool of its own, allocated on another stream',
  dlpack: 'taken in by fromDLPack()',
  'second device': 'of a second device',
} as const
export type MemoryKind = keyof typeof MEMORY
export const MEMORY_KINDS = Object.keys(MEMORY) as readonly MemoryKind[]

const PINNED: readonly MemoryKind[] = ['pinned', 'pinned slice', 'registered', 'registered shared']
export const isPinned = (kind: MemoryKind): boolean => PINNED.includes(kind)
