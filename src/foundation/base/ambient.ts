/**
 * Values of an async context, such as a current stream: concurrent requests have separate values. All values are in
 * one storage, as a map that is copied when it changes.
 */
import { AsyncLocalStorage } from './node-modules.js'

/** The block for which values were made current. */
interface Scope {
  ended: boolean
}

/** A value that was made current. */
interface Entry<T> {
  readonly value: T
  /**
   * The block in which the value is current. Once the block has ended, `before` counts instead, wherever the entry is still
   * stored.
   */
  readonly scope: Scope
  before: Entry<T> | undefined
}

const storage = new AsyncLocalStorage<ReadonlyMap<Ambient<unknown>, Entry<unknown>>>()

/** The block of a value that is set outside of all others, and of `run()`, whose end restores what was before. */
const WITHOUT_END: { readonly scope: Scope; readonly before: undefined } = {
  scope: { ended: false },
  before: undefined,
}

export class Ambient<T> {
  get(): T | undefined {
    return this.#entry()?.value
  }

  /** Sets the value for the rest of this async context and for what starts from it, until the block ends that it is in. */
  set(value: T): void {
    const current = this.#entry()
    // In place of the value of the block, with which it ends.
    const { scope, before } = current ?? WITHOUT_END
    storage.enterWith(this.#with({ value, scope, before }))
  }

  /**
   * Sets the value until the result is disposed, which ends this block and no other: blocks may end in any order. An async
   * function that enters before its first `await` does so in the context of its caller. The end of its block, after the
   * `await`, cannot change that context: there the ended entry makes the previous value count.
   */
  enter(value: T): Disposable {
    const before = this.#entry()
    // Blocks that each overlap the next would make an endless chain otherwise.
    if (before !== undefined) before.before = unended(before.before)
    const scope: Scope = { ended: false }
    storage.enterWith(this.#with({ value, scope, before }))
    return {
      [Symbol.dispose]: () => {
        if (scope.ended) return
        scope.ended = true
        storage.enterWith(this.#with(this.#entry()))
      },
    }
  }

  /** Sets the value for the function and for all that it awaits. */
  run<R>(value: T, fn: () => R): R {
    return storage.run(this.#with({ value, ...WITHOUT_END }), fn)
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

function unended<T>(entry: Entry<T> | undefined): Entry<T> | undefined {
  let found = entry
  while (found?.scope.ended === true) found = found.before
  return found
}
