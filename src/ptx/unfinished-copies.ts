/**
 * Asynchronous copies that a program has not waited for. Copies are carried out at once; under the checks, what a copy reads or writes in shared memory
 * counts as under way until a thread has waited for the mbarrier that counts it, or for the group of its thread. Copies in bulk and `wgmma` go through
 * another proxy than threads, and see what those have written only behind a fence.
 */
import { CopiesOfBlock, WRITTEN } from './copies-of-block.js'
import { type Decoded, describeInstruction } from './decoding.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchReports } from './launch-reports.js'
import { BLOCK, SHADOW } from './layout.js'
import type { Resident } from './resident.js'

/** A range of memory that may be accessed. */
export interface MemoryRange {
  /** The bytes, valid until another range is located. */
  bytes(): Uint8Array
  /** The block in whose shared memory the range lies, and its offset there; undefined for global memory. */
  readonly owner: Resident | undefined
  readonly offset: number
}

export class UnfinishedCopies {
  #counted: { readonly location: number; readonly parity: bigint } | undefined

  constructor(
    private readonly code: KernelCode,
    private readonly reports: LaunchReports,
    private readonly isOn: boolean,
  ) {}

  /** Notes that the copies up to `end()` are counted by this mbarrier, in its phase of this parity. */
  begin(_at: Decoded, _thread: number, location: number, parity: bigint): void {
    this.#counted = { location, parity }
  }

  end(): void {
    this.#counted = undefined
  }

  /** Notes a copy: what it reads and writes in shared memory is under way. */
  note(
    at: Decoded,
    thread: number,
    source: MemoryRange | undefined,
    destination: MemoryRange | undefined,
    byteLength: number,
  ): void {
    if (!this.isOn) return
    const own = copiesOf(this.reports.current)
    const group = own?.groups.get(thread) ?? 0
    const add = (range: MemoryRange | undefined, isRead: boolean): void => {
      if (range?.owner === undefined) return
      const { offset } = range
      copiesOf(range.owner)?.copies.add({
        ...{ from: offset, to: offset + byteLength, isRead, at, thread },
        ...{ mbarrier: this.#counted, group },
      })
    }
    if (source !== destination) add(source, true)
    add(destination, false)
    if (destination?.owner !== undefined) {
      copiesOf(destination.owner)?.written?.fill(0, destination.offset, destination.offset + byteLength)
    }
    if (source?.owner !== undefined && source !== destination)
      this.#checkProxy(source.owner, source.offset, byteLength, at, thread, true)
  }

  commit(thread: number): void {
    const own = this.isOn ? copiesOf(this.reports.current) : undefined
    own?.groups.set(thread, (own.groups.get(thread) ?? 0) + 1)
  }

  /** Notes that a thread has waited for all of its groups but the latest so many; `isRead` says that only their sources are free. */
  waitForGroups(thread: number, left: number, isRead: boolean): void {
    const own = this.isOn ? copiesOf(this.reports.current) : undefined
    if (own === undefined) return
    const done = (own.groups.get(thread) ?? 0) - left
    for (const copy of own.copies) {
      if (copy.mbarrier === undefined && copy.thread === thread && copy.group < done && (copy.isRead || !isRead))
        own.copies.delete(copy)
    }
  }

  /** Notes that a thread ends a group of its cp.async, or waits for groups: for all copies, or for all groups but the latest so many. */
  ofThread(thread: number, what: 'commit' | 'wait' | { readonly left: number }): void {
    const own = this.isOn ? copiesOf(this.reports.current)?.ofThreads : undefined
    if (what === 'commit') own?.commit(thread)
    else if (what === 'wait') own?.waitForAll(thread)
    else own?.waitForGroups(thread, what.left)
  }

  /** Notes that a thread looks at the mbarrier at this location: copies of phases that are over are done. */
  look(location: number, blocks: readonly Resident[]): void {
    if (!this.isOn) return
    const parity = this.code.memory.view.getBigUint64(location, true) >> 63n
    for (const { unfinished } of blocks) {
      if (unfinished === undefined) continue
      unfinished.ofThreads.look(location, parity)
      for (const copy of unfinished.copies) {
        if (copy.mbarrier?.location === location && copy.mbarrier.parity !== parity) unfinished.copies.delete(copy)
      }
    }
  }

  /** Holds an access of a thread to shared memory against the copies that are under way there. */
  check(
    owner: Resident,
    access: { readonly address: number; readonly bytes: number; readonly access: number },
    thread: number,
    at: Decoded | undefined,
  ): void {
    const unfinished = this.isOn ? copiesOf(owner) : undefined
    if (unfinished === undefined) return
    const { address, bytes } = access
    const writes = (access.access & SHADOW.written) !== 0
    if (at !== undefined) this.#ofThreads(owner, unfinished, access, thread, at)
    for (const copy of unfinished.copies) {
      if (copy.at === at || address >= copy.to || address + bytes <= copy.from || (copy.isRead && !writes)) continue
      const does = writes ? 'writes' : 'reads'
      const what = copy.isRead ? 'from which' : 'to which'
      const wait =
        copy.mbarrier !== undefined
          ? 'wait for the phase of its mbarrier'
          : `wait for it by cp.async.bulk.wait_group${copy.isRead ? '.read' : ''}`
      const message = `Thread ${thread} ${does} byte ${address} of shared memory, ${what} the copy by ${describeInstruction(copy.at.instruction)} is under way: ${wait} first`
      this.reports.find('unfinished-copy', message, [copy.thread, thread], at, owner)
      unfinished.copies.delete(copy)
    }
    if (!writes) {
      if (at?.form.opcode === 'wgmma') this.#checkProxy(owner, address, bytes, at, thread, false)
      return
    }
    const code = codeOf(at)
    if (code === 'mbarrier' || code === 'asynchronous') return
    unfinished.written ??= new Uint8Array(this.code.memory.view.getInt32(owner.cells + BLOCK.sharedBytes, true))
    unfinished.written.fill(code === 'copy' ? WRITTEN.byCopy : WRITTEN.byStore, address, address + bytes)
  }

  /** Notes a cp.async, or an mbarrier that counts some; holds other accesses against those that are under way. */
  #ofThreads(
    owner: Resident,
    { ofThreads }: CopiesOfBlock,
    { address, bytes, access }: { readonly address: number; readonly bytes: number; readonly access: number },
    thread: number,
    at: Decoded,
  ): void {
    const code = codeOf(at)
    if (code === 'copy') ofThreads.add(address, bytes, thread, at)
    else if (code === 'mbarrier' && at.form.opcode === 'cp') {
      const location = owner.shared + address
      ofThreads.arrive(location, this.code.memory.view.getBigUint64(location, true) >> 63n, thread)
    } else {
      const does = (access & SHADOW.written) !== 0 ? 'writes' : 'reads'
      for (const copy of ofThreads.take(address, bytes)) {
        const message = `Thread ${thread} ${does} byte ${address} of shared memory, to which the copy by ${describeInstruction(copy.at.instruction)} is under way: let thread ${copy.thread} wait for it by cp.async.wait_group or cp.async.wait_all first${copy.thread === thread ? '' : `, and then meet thread ${thread} at a barrier`}`
        this.reports.find('unfinished-copy', message, [copy.thread, thread], at, owner)
      }
    }
  }

  /** Notes a fence between accesses of threads and those of copies. */
  fence(resident: Resident | undefined): void {
    if (resident?.unfinished?.written !== undefined) resident.unfinished.written = undefined
  }

  /** Looks for bytes that threads have written since the latest fence, and that a copy or a product reads. */
  #checkProxy(owner: Resident, offset: number, byteLength: number, at: Decoded, thread: number, isCopy: boolean): void {
    // Compilers and libraries let wgmma read what cp.async has brought without a fence, so such a read is no finding.
    const read = owner.unfinished?.written?.subarray(offset, offset + byteLength)
    const first = read?.findIndex((by) => by === WRITTEN.byStore || (isCopy && by === WRITTEN.byCopy)) ?? -1
    if (first < 0) return
    read?.fill(0)
    const message = `${isCopy ? 'A copy' : 'wgmma'} reads byte ${offset + first} of shared memory, which a thread has written without fence.proxy.async behind it`
    this.reports.find('missing-proxy-fence', message, [thread], at, owner)
  }
}

function codeOf(at: Decoded | undefined): string | undefined {
  return at?.form.meaning.kind === 'code' ? at.form.meaning.code : undefined
}

function copiesOf(resident: Resident | undefined): CopiesOfBlock | undefined {
  if (resident === undefined) return undefined
  resident.unfinished ??= new CopiesOfBlock()
  return resident.unfinished
}
