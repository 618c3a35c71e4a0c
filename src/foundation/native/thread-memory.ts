/** Memory outside of the heap of JavaScript that goes with its thread: a worker ends at any time, and runs no JavaScript then. */
import { own } from './c-functions.js'
import { NativeMemory } from './native-memory.js'
import { ownerOfThread } from './owned-handles.js'

/**
 * Memory of zeros for the calls that this thread itself makes, as long as it lives. Whatever another thread or a GPU may use
 * after these calls has to lie elsewhere.
 */
export class ThreadMemory extends NativeMemory {
  constructor(length: number) {
    super(length, own().allocateOfThread(ownerOfThread(), length))
  }

  override free(): void {
    own().releaseOfThread(ownerOfThread(), this.address)
  }
}
