/** Things that the GPU may still use, which are given back when its work with them is complete. */

import type { EventDriver, InternalEvent } from './event-driver.js'
import type { MemoryDriver } from './memory-driver.js'

interface EventRecycler {
  readonly events: Pick<EventDriver, 'recycle'>
}

/** Gives back an event that was taken over. */
export function giveBackEvent(driver: EventRecycler, { context, event, release }: InternalEvent): void {
  if (release === undefined) driver.events.recycle(context, event)
  else release()
}

interface Leaving<T> {
  readonly thing: T
  readonly after: readonly InternalEvent[]
}

export interface AfterWorkDriver extends EventRecycler {
  readonly memory: Pick<MemoryDriver, 'isDone'>
}

export class AfterWork<T> {
  #leaving: Leaving<T>[] = []

  constructor(
    private readonly driver: AfterWorkDriver,
    private readonly giveUp: (thing: T) => void,
  ) {}

  get pending(): boolean {
    return this.#leaving.length > 0
  }

  /** Gives the thing up at a sweep after the latest records of these events, which it takes over, are done. */
  add(thing: T, after: readonly InternalEvent[]): void {
    this.#leaving.push({ thing, after })
  }

  /**
   * Gives up all things whose events are done. An error of one of them is thrown after the others were given up.
   * `mayGo` is called before each, because giving up may run other code.
   */
  sweep(mayGo: () => boolean = () => true): void {
    const leaving = this.#leaving
    this.#leaving = []
    const errors: unknown[] = []
    for (const { thing, after } of leaving) {
      if (!mayGo() || !after.every(({ event }) => this.driver.memory.isDone(event))) {
        this.#leaving.push({ thing, after })
        continue
      }
      try {
        for (const each of after) giveBackEvent(this.driver, each)
        this.giveUp(thing)
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}
