/**
 * Memory that was given back, and is kept for the next request once the GPU is done with it: giving it to the driver can
 * wait for the whole device, host functions included, which only this thread could run.
 */
import { AfterWork, type AfterWorkDriver } from '../../after-work.js'
import type { ContextHandle, OwnEvent, Pointer } from '../../driver.js'
import type { HostFunctions } from '../host-functions/host-functions.js'
import type { IdleDevices } from '../waiting/idle-devices.js'

export interface Block {
  readonly pointer: Pointer
  readonly byteLength: number
  /** Whose memory it is; undefined where that is no matter. */
  readonly context?: ContextHandle
}

export interface KeptBlocksParts {
  readonly driver: AfterWorkDriver
  readonly hostFunctions: Pick<HostFunctions, 'exclusivelyNow'>
  readonly idleDevices: Pick<IdleDevices, 'whenIdle'>
}

/** Bytes that are worth keeping, of each context. */
const MOST_KEPT = 256 * 1024 * 1024

export class KeptBlocks {
  #blocks: Block[] = []
  readonly #leaving: AfterWork<Block>

  /** `free` gives a block to the driver. */
  constructor(
    private readonly parts: KeptBlocksParts,
    private readonly free: (block: Block) => void,
  ) {
    this.#leaving = new AfterWork(parts.driver, (block) => this.#keep(block))
  }

  /** Keeps or frees the block when the latest records of these events, which it takes over, are done. */
  giveBack(block: Block, after: readonly OwnEvent[]): void {
    this.#leaving.add(block, after)
  }

  /** Looks for blocks that the GPU is done with. */
  sweep(): void {
    this.#leaving.sweep()
  }

  /** The smallest that is large enough, and not so large that much is wasted. */
  take(wanted: number, context?: ContextHandle): Block | undefined {
    let best: Block | undefined
    for (const block of this.#of(context)) {
      if (block.byteLength < wanted || block.byteLength > 2 * wanted) continue
      if (best === undefined || block.byteLength < best.byteLength) best = block
    }
    if (best !== undefined) this.#blocks.splice(this.#blocks.indexOf(best), 1)
    return best
  }

  /** Gives all that is kept to the driver, for want of memory. False where nothing could be given. */
  freeAll(): boolean {
    let any = false
    this.parts.hostFunctions.exclusivelyNow(() => {
      for (const block of this.#blocks.splice(0)) {
        this.free(block)
        any = true
      }
    })
    return any
  }

  #keep(block: Block): void {
    this.#blocks.push(block)
    if (this.#bytesOf(block.context) > MOST_KEPT) this.parts.idleDevices.whenIdle(() => this.#trim(block.context))
  }

  /** Gives the latest to the driver, until no more is kept than is worth it. */
  #trim(context: ContextHandle | undefined): void {
    while (this.#bytesOf(context) > MOST_KEPT) {
      const index = this.#blocks.findLastIndex((block) => block.context === context)
      for (const block of this.#blocks.splice(index, 1)) this.free(block)
    }
  }

  #bytesOf(context: ContextHandle | undefined): number {
    return this.#of(context).reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  #of(context: ContextHandle | undefined): readonly Block[] {
    return this.#blocks.filter((block) => block.context === context)
  }
}
