/** Things that the GPU may still use, until it is done with them. */
import type { OwnEvent } from '../../driver.js'

interface Leaving<T> {
  readonly thing: T
  readonly after: readonly OwnEvent[]
}

export interface AfterWorkParts<T> {
  readonly isDone: (own: OwnEvent) => boolean
  readonly recycle: (own: OwnEvent) => void
  readonly giveUp: (thing: T) => void
}

export class AfterWork<T> {
  readonly #parts: AfterWorkParts<T>
  #leaving: Leaving<T>[] = []

  constructor(parts: AfterWorkParts<T>) {
    this.#parts = parts
  }

  get pending(): boolean {
    return this.#leaving.length > 0
  }

  /** Gives the thing up at a sweep after the latest records of these events, which it takes over, are done. */
  add(thing: T, after: readonly OwnEvent[]): void {
    this.#leaving.push({ thing, after })
  }

  sweep(): void {
    const leaving = this.#leaving
    this.#leaving = []
    for (const { thing, after } of leaving) {
      if (!after.every(this.#parts.isDone)) {
        this.#leaving.push({ thing, after })
        continue
      }
      for (const own of after) this.#parts.recycle(own)
      this.#parts.giveUp(thing)
    }
  }
}
