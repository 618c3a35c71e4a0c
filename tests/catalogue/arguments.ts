/** Right arguments of public calls, by position: what the entries of the catalogue pass. */

import type { Call } from './call.js'
import { publicClasses } from './entry-points.js'
import type { Scene } from './scene.js'

export interface RightCall {
  /** As `members.ts` names it. */
  readonly member: string
  /** The object that it is called on: a class for a static method. */
  readonly on: object
  readonly args: readonly unknown[]
}

/** The entry has got as far as its call, which is not made. */
class Reached extends Error {}

/**
 * What the entry would call its first member with; undefined if that is no method of a class, or the entry does not come to it. With
 * `options` the call has options of its own.
 */
export async function rightCall(call: Call, scene: Scene, options?: object): Promise<RightCall | undefined> {
  const [member = ''] = call.members
  const [, className, how, name = ''] = /^(\w+)([#.])(\w+)$/.exec(member) ?? []
  const named = [...publicClasses].find(({ name: other }) => other === className)
  let holder: object | null | undefined = how === '#' ? named?.prototype : named
  while (holder && !Object.hasOwn(holder, name)) holder = Object.getPrototypeOf(holder)
  const descriptor = holder ? Object.getOwnPropertyDescriptor(holder, name) : undefined
  if (!holder || typeof descriptor?.value !== 'function') return undefined
  const invoke = await call.prepare(scene)
  let found: RightCall | undefined
  Object.defineProperty(holder, name, {
    ...descriptor,
    value: function reached(this: object, ...args: readonly unknown[]): never {
      found ??= { member, on: this, args }
      throw new Reached()
    },
  })
  try {
    await invoke(options as never)
  } catch (error) {
    if (!(error instanceof Reached) && found === undefined) return undefined
  } finally {
    Object.defineProperty(holder, name, descriptor)
  }
  return found
}
