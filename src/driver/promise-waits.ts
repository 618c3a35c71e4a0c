/**
 * Promises that streams wait for, and what becomes of those that are rejected. The work behind one is queued, and cannot be
 * taken back: it runs, and the rejection is told by the waits of the host that come after it.
 */
import { throwUncaught } from '../base/uncaught.js'
import type { Cancel, Settle } from './driver.js'

export const NO_PROMISES: readonly PromiseWait[] = []

/** Those that have not settled, and those that were rejected and not reported yet. */
const unsettled = new Set<PromiseWait>()
/** Those of them that were rejected. */
const untold = new Set<PromiseWait>()

const tellAtEnd = (): void => {
  for (const wait of untold) wait.surface()
}

/** A stream's wait for a promise. */
export class PromiseWait {
  #state: 'standing' | 'passed' | 'rejected' | 'told' = 'standing'
  #reason: unknown
  /** Waits of the host under way that come after it. */
  #followers = 0
  #isOwnerClosed = false

  /** `owner` is the stream that waits, in the words of its core; `device` is where it is. */
  constructor(
    readonly owner: object,
    readonly device: object,
  ) {
    unsettled.add(this)
  }

  /** May a wait that comes after it have a rejection to tell? */
  get isUntold(): boolean {
    return this.#state === 'standing' || this.#state === 'rejected'
  }

  passed(): void {
    this.#state = 'passed'
    unsettled.delete(this)
  }

  rejected(reason: unknown): void {
    this.#state = 'rejected'
    this.#reason = reason ?? new Error(`A promise that a stream waited for was rejected with ${String(reason)}`)
    if (untold.size === 0) process.on('beforeExit', tellAtEnd)
    untold.add(this)
    this.#surfaceIfForgotten()
  }

  /** A wait of the host that comes after it begins. */
  follow(): void {
    this.#followers += 1
  }

  unfollow(): void {
    this.#followers -= 1
    this.#surfaceIfForgotten()
  }

  /** The reason, where it was rejected: it is told by this. */
  tell(): { readonly reason: unknown } | undefined {
    if (this.#state !== 'rejected' && this.#state !== 'told') return undefined
    this.#state = 'told'
    unsettled.delete(this)
    if (untold.delete(this) && untold.size === 0) process.off('beforeExit', tellAtEnd)
    return { reason: this.#reason }
  }

  /** The stream was closed: only waits that are under way can tell of it. */
  ownerClosed(): void {
    this.#isOwnerClosed = true
    this.#surfaceIfForgotten()
  }

  /** Nothing will tell of it: an uncaught exception does. */
  surface(): void {
    const told = this.tell()
    if (told !== undefined) throwUncaught(told.reason)
  }

  #surfaceIfForgotten(): void {
    if (this.#state === 'rejected' && this.#isOwnerClosed && this.#followers === 0) this.surface()
  }
}

/** The promises of both. Most streams and events have none. */
export function joined(some: readonly PromiseWait[], others: readonly PromiseWait[]): readonly PromiseWait[] {
  if (others.length === 0 || others === some) return some
  const all = new Set([...some, ...others].filter(({ isUntold }) => isUntold))
  return all.size === 0 ? NO_PROMISES : [...all]
}

/** Those of all streams of a device. */
export function promisesOn(device: object): readonly PromiseWait[] {
  return unsettled.size === 0 ? NO_PROMISES : [...unsettled].filter((wait) => wait.device === device)
}

/** The host has waited for work that comes after these: throws the reason of one that was rejected. */
export function throwRejected(waits: readonly PromiseWait[]): void {
  if (waits.length === 0) return
  const told = tellAll(waits.filter(({ isUntold }) => isUntold))
  if (told !== undefined) throw told.reason
}

/** Starts a wait without blocking for work that comes after these: it fails where one of them was rejected. */
export function following(waits: readonly PromiseWait[], settle: Settle, start: (told: Settle) => Cancel): Cancel {
  const followed = waits.length === 0 ? waits : waits.filter(({ isUntold }) => isUntold)
  if (followed.length === 0) return start(settle)
  for (const wait of followed) wait.follow()
  let isOver = false
  const end = (): void => {
    if (isOver) return
    isOver = true
    for (const wait of followed) wait.unfollow()
  }
  try {
    const cancel = start((error) => {
      const told = error === undefined ? tellAll(followed) : undefined
      end()
      settle(told === undefined ? error : told.reason)
    })
    return () => {
      cancel()
      end()
    }
  } catch (error) {
    end()
    throw error
  }
}

/** The same for a promise of what such work has made. */
export async function followingResult<R>(waits: readonly PromiseWait[], start: () => Promise<R>): Promise<R> {
  const followed = waits.filter(({ isUntold }) => isUntold)
  for (const wait of followed) wait.follow()
  try {
    const result = await start()
    const told = tellAll(followed)
    if (told !== undefined) throw told.reason
    return result
  } finally {
    for (const wait of followed) wait.unfollow()
  }
}

/** The first reason; those of the others are told with it. */
function tellAll(waits: readonly PromiseWait[]): { readonly reason: unknown } | undefined {
  const told = waits.map((wait) => wait.tell()).filter((each) => each !== undefined)
  return told[0]
}
