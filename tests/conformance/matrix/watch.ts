/** The sanitizer, as a witness of memory that is used after it was freed: on the simulator what is written there hurts no other. */
import assert from 'node:assert/strict'
import { Sanitizer } from 'cuda-streams/sanitizer'
import type { StreamKind } from '../../catalogue/axes.js'
import type { Lab } from '../../catalogue/lab.js'

/** Where a call is made, and whether the sanitizer looks on, which also stands between the call and the driver. */
export interface Place {
  readonly stream: StreamKind
  readonly isWatched?: boolean
}

export const describePlace = ({ stream, isWatched = false }: Place): string =>
  `on a ${stream} stream${isWatched ? ', before the sanitizer' : ''}`

export class Watch implements Disposable {
  readonly #sanitizer: Sanitizer | undefined

  constructor({ device }: Lab, { isWatched = false }: Place) {
    this.#sanitizer = isWatched ? Sanitizer.start({ device, stacks: 'none' }) : undefined
  }

  check(): void {
    const [report] = this.#sanitizer?.reports ?? []
    assert.ok(report === undefined, `the sanitizer reports: ${report?.message.split('\n')[0]}`)
  }

  [Symbol.dispose](): void {
    this.#sanitizer?.stop()
  }
}
