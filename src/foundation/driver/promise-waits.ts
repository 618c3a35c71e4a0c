/**
 * Promises that streams wait for, and how rejections are reported. The work queued behind such a promise cannot be taken back: it
 * runs even if the promise is rejected, and the host's waits for that work report the rejection.
 */
import { process } from '../base/node-modules.js'
import { throwUncaught } from '../base/uncaught.js'
import type { Cancel, Settle } from './event-driver.js'

export const NO_PROMISES: readonly PromiseWait[] = []

/** The waits for promises that have not settled, or that were rejected and have not been reported yet. */
const unsettled = new Set<PromiseWait>()
/** The waits for promises that were rejected and have not been reported yet. */
const unreported = new Set<PromiseWait>()

const reportAtEnd = (): void => {
  for (const wait of unreported) wait.surface()
}

/** A stream's wait for a promise. */
export class PromiseWait {
  #state: 'pending' | 'passed' | 'rejected' | 'reported' = 'pending'
  #reason: unknown
  /** The number of waits of the host that are under way and come after this wait. */
  #followers = 0
  #isOwnerClosed = false

  /** `owner` is the implementation object of the stream that waits; `device` is the device of that stream. */
  constructor(
    readonly owner: object,
    readonly device: object,
  ) {
    unsettled.add(this)
  }

  /** True if a wait of the host that comes after this wait may have to report a rejection. */
  get isUnreported(): boolean {
    return this.#state === 'pending' || this.#state === 'rejected'
  }

  passed(): void {
    this.#state = 'passed'
    unsettled.delete(this)
  }

  rejected(reason: unknown): void {
    this.#state = 'rejected'
    this.#reason = reason ?? new Error(`A promise that a stream waited for was rejected with ${String(reason)}`)
    if (unreported.size === 0) process.on('beforeExit', reportAtEnd)
    unreported.add(this)
    this.#surfaceIfForgotten()
  }

  /** A wait of the host begins that comes after this wait. */
  follow(): void {
    this.#followers += 1
  }

  unfollow(): void {
    this.#followers -= 1
    this.#surfaceIfForgotten()
  }

  /** The reason, if the promise was rejected: the caller reports it. */
  report(): { readonly reason: unknown } | undefined {
    if (this.#state !== 'rejected' && this.#state !== 'reported') return undefined
    this.#state = 'reported'
    unsettled.delete(this)
    if (unreported.delete(this) && unreported.size === 0) process.off('beforeExit', reportAtEnd)
    return { reason: this.#reason }
  }

  /** The stream was closed: only waits that are under way can still report a rejection. */
  ownerClosed(): void {
    this.#isOwnerClosed = true
    this.#surfaceIfForgotten()
  }

  /** Called when no wait will report the rejection, which then becomes an uncaught exception. */
  surface(): void {
    const reported = this.report()
    if (reported !== undefined) throwUncaught(reported.reason)
  }

  #surfaceIfForgotten(): void {
    if (this.#state === 'rejected' && this.#isOwnerClosed && this.#followers === 0) this.surface()
  }
}

/** The promises of both lists. Most streams and events have none. */
export function joined(some: readonly PromiseWait[], others: readonly PromiseWait[]): readonly PromiseWait[] {
  if (others.length === 0 || others === some) return some
  const all = new Set([...some, ...others].filter(({ isUnreported }) => isUnreported))
  return all.size === 0 ? NO_PROMISES : [...all]
}

/** The waits of all streams of a device. */
export function promisesOn(device: object): readonly PromiseWait[] {
  return unsettled.size === 0 ? NO_PROMISES : [...unsettled].filter((wait) => wait.device === device)
}

/** The host has waited for work that comes after these waits: throws the reason of a promise that was rejected. */
export function throwRejected(waits: readonly PromiseWait[]): void {
  if (waits.length === 0) return
  const reported = reportAll(waits.filter(({ isUnreported }) => isUnreported))
  if (reported !== undefined) throw reported.reason
}

/** Starts a wait, without blocking, for work that comes after these waits: it fails if one of the promises was rejected. */
export function following(waits: readonly PromiseWait[], settle: Settle, start: (reported: Settle) => Cancel): Cancel {
  const followed = waits.length === 0 ? waits : waits.filter(({ isUnreported }) => isUnreported)
  if (followed.length === 0) return start(settle)
  for (const wait of followed) wait.follow()
  let hasEnded = false
  const end = (): void => {
    if (hasEnded) return
    hasEnded = true
    for (const wait of followed) wait.unfollow()
  }
  try {
    const cancel = start((error) => {
      const reported = error === undefined ? reportAll(followed) : undefined
      end()
      settle(reported === undefined ? error : reported.reason)
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

/** Calls `start`, and resolves with its result. Rejects if a promise was rejected that the work of `start` comes after. */
export async function followingResult<R>(waits: readonly PromiseWait[], start: () => Promise<R>): Promise<R> {
  const followed = waits.filter(({ isUnreported }) => isUnreported)
  for (const wait of followed) wait.follow()
  try {
    const result = await start()
    const reported = reportAll(followed)
    if (reported !== undefined) throw reported.reason
    return result
  } finally {
    for (const wait of followed) wait.unfollow()
  }
}

/** Marks all rejections as reported. Returns the first reason. */
function reportAll(waits: readonly PromiseWait[]): { readonly reason: unknown } | undefined {
  const reported = waits.map((wait) => wait.report()).filter((each) => each !== undefined)
  return reported[0]
}
