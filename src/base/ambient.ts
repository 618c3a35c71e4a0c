/**
 * Values of an async context, such as a current stream: concurrent requests have separate values. All values are in
 * one storage, as a map that is copied when it changes.
 */
import { AsyncLocalStorage } from './node-modules.js'

/** A value that was made current. */
interface Entry<T> {
  readonly value: T
  /** The block for which it was made current has ended: `before` counts instead, wherever the entry is still stored. */
  ended: boolean
  before: Entry<T> | undefined
}

const storage = new AsyncLocalStorage<ReadonlyMap<Ambient<unknown>, Entry<unknown>>>()

export class Ambient<T> {
  get(): T | undefined {
    return this.#entry()?.value
  }

  /** Sets the value for the rest of this async context and for what starts from it. */
  set(value: T | undefined): void {
    storage.enterWith(this.#with(entryOf(value)))
  }

  /**
   * Sets the value until the result is disposed, which restores the previous one. An async function that enters before its
   * first `await` does so in the context of its caller. The end of its block, after the `await`, cannot change that context:
   * there the ended entry makes the previous value count.
   */
  enter(value: T): Disposable {
    const before = this.#entry()
    // Blocks that each overlap the next would make an endless chain otherwise.
    if (before !== undefined) before.before = unended(before.before)
    const entry: Entry<T> = { value, ended: false, before }
    storage.enterWith(this.#with(entry))
    return {
      [Symbol.dispose]: () => {
        if (entry.ended) return
        entry.ended = true
        this.set(before?.value)
      },
    }
  }

  /** Sets the value for the function and for all that it awaits. */
  run<R>(value: T, fn: () => R): R {
    return storage.run(this.#with(entryOf(value)), fn)
  }

  #entry(): Entry<T> | undefined {
    return unended(storage.getStore()?.get(this) as Entry<T> | undefined)
  }

  #with(entry: Entry<T> | undefined): ReadonlyMap<Ambient<unknown>, Entry<unknown>> {
    const entries = new Map(storage.getStore())
    if (entry === undefined) entries.delete(this)
    else entries.set(this, entry)
    return entries
  }
}

const entryOf = <T>(value: T | undefined): Entry<T> | undefined =>
  value === undefined ? undefined : { value, ended: false, before: undefined }

function unended<T>(entry: Entry<T> | undefined): Entry<T> | undefined {
  let found = entry
  while (found?.ended === true) found = found.before
  return found
}
