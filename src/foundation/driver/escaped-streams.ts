/** The streams whose handle code outside of the library has read: it may queue work there that no driver of the library sees. */

import { HandleSet } from './handle-tables.js'
import { isDefaultStream, type StreamHandle } from './handle-types.js'

export class EscapedStreams {
  readonly #streams = new HandleSet<StreamHandle>()

  add(stream: StreamHandle): void {
    this.#streams.add(stream)
  }

  /** The stream is destroyed; another may get its handle. */
  forget(stream: StreamHandle): void {
    this.#streams.delete(stream)
  }

  /** Every program has the default streams. */
  has(stream: StreamHandle): boolean {
    return isDefaultStream(stream) || this.#streams.has(stream)
  }
}
