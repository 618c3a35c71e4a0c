/** Takes the place of event-loop.ts in a page, whose timers have a resolution of milliseconds. */
import type { Timeout, Turn } from './event-loop.js'

export type { Timeout, Turn }

const { clearInterval, clearTimeout, performance, queueMicrotask, setInterval, setTimeout } = globalThis

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => void setTimeout(resolve, milliseconds))

const turns: (() => void)[] = []
const { port1, port2 } = new MessageChannel()
/** A port of Node, on which bundles for browsers run too, keeps a process alive by listening. */
const held: typeof port1 & { ref?(): void; unref?(): void } = port1
Reflect.set(port1, 'onmessage', () => {
  const turn = turns.shift()
  if (turns.length === 0) held.unref?.()
  turn?.()
})
held.unref?.()

/** A message: timers of browsers come after milliseconds. */
export function atNextTurn(fn: () => void): Turn {
  turns.push(fn)
  held.ref?.()
  port2.postMessage(undefined)
  const turn: Turn = { hasRef: () => true, unref: () => turn }
  return turn
}

export const nextTurn = (): Promise<void> => new Promise((resolve) => void atNextTurn(resolve))

export const atNextTick = (fn: () => void): void => queueMicrotask(fn)

export function after(milliseconds: number, fn: () => void): Timeout {
  const timer: unknown = setTimeout(fn, milliseconds)
  return { cancel: () => Reflect.apply(clearTimeout, globalThis, [timer]), unref: () => {} }
}

export function every(milliseconds: number, fn: () => void): () => void {
  const timer = setInterval(fn, milliseconds)
  return () => clearInterval(timer)
}

export const clock: { now: () => number } = { now: performance.now.bind(performance) }

export const monotonicTime = (): number => clock.now()

export const monotonicNanoseconds = (): bigint => BigInt(Math.round(monotonicTime() * 1e6))

export const timeOrigin: number = performance.timeOrigin
