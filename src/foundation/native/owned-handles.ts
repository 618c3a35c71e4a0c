/**
 * What a thread of JavaScript makes in C, and would leave behind if it ended: a worker ends at any time, and runs no JavaScript then. The calls that
 * make and destroy handles write a table of the native layer (native/owned.c), and what is left of a thread that has ended is given back by a thread of
 * that layer (native/leaving.c). What the main thread has is gone with the process.
 */
import { isMainThread } from 'node:worker_threads'
import { own } from './c-functions.js'
import { layer } from './layer.js'
import { NativeMemory } from './native-memory.js'

/** What is true of a kind of handle, as native/owned.h has it, beside its rank: lower ranks are given back first. */
export const Trait = {
  IS_STREAM: 16,
  IS_EVENT: 32,
  IN_STREAM_ORDER: 64,
  IS_POOL: 128,
  IS_PINNED: 256,
  WAITS: 512,
  IS_COUNTED: 1024,
  OF_JAVASCRIPT: 4096,
  IS_INT: 8192,
  NO_RESULT: 16384,
} as const

let owner: number | undefined

/** The address of what the native layer knows of this thread. */
export function ownerOfThread(): number {
  owner ??= layer().ownHandles(isMainThread ? 1 : 0)
  return owner
}

/** Handles that one function of C destroys. */
export class OwnedKind {
  readonly number: number

  /** `name` is that of the function, for a warning where it fails; `traits` has its rank, too. */
  constructor(destroy: number, name: string, traits: number) {
    const text = NativeMemory.ofText(name)
    this.number = own().addKind(destroy, traits, text.address)
    text.free()
    if (this.number < 0) throw new Error(`There are too many kinds of handles: ${name}`)
  }

  /** Called when this thread has made the handle. `more` is its length, or the stream that it was allocated on. */
  add(handle: number, more = 0): void {
    own().addOwned(ownerOfThread(), this.number, handle, more)
  }

  /** Called when the handle is about to be destroyed. */
  remove(handle: number): void {
    own().removeOwned(this.number, handle)
  }

  /** Makes the handle belong to all threads. */
  giveToProcess(handle: number): void {
    own().giveToProcess(this.number, handle)
  }
}

/** What a function of C makes or destroys. The positions are those of its parameters. */
export interface Owning {
  readonly kind: OwnedKind
  /** `made`: the function writes the handle where this parameter points; `given`: the parameter is the handle. */
  readonly role: 'made' | 'given' | 'destroyed'
  readonly argument: number
  /** The position of the length, or of the stream on which it is allocated. */
  readonly more?: number
}

const ROLES = { made: 0, given: 1, destroyed: 2 } as const

/** Does the same as `layer().bind()`, for a function that makes or destroys something. The frame has eight slots. */
export function bindOwning(
  buffer: ArrayBuffer,
  offset: number,
  { kind, role, argument, more = 0 }: Owning,
): () => void {
  return layer().bindOwning(buffer, offset, ownerOfThread(), kind.number, ROLES[role], argument, more)
}
