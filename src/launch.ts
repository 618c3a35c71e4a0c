/** What `stream.launch()` takes: anything that knows how to queue itself, as graphs and kernels do. */
import { invalidType } from './errors.js'
import type { Stream } from './stream.js'

export const launchOn: unique symbol = Symbol('launchOn')

export interface Launchable {
  [launchOn](stream: Stream, ...args: readonly unknown[]): void
}

function isLaunchable(value: unknown): value is Launchable {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, launchOn) === 'function'
}

/** `stream.launch` for every kind of target; graph.ts and kernel.ts declare the kinds, each with its arguments. */
export function launch(this: Stream, target: unknown, ...args: readonly unknown[]): Stream {
  if (!isLaunchable(target)) throw invalidType('target', 'a GraphExec or a Kernel', target)
  target[launchOn](this, ...args)
  return this
}
