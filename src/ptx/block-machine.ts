/** A worker's side of a launch on several cores (block-workers.ts): the machine on which it runs blocks. */
import type { BlockResult, BlockTask, WorkerKernel } from './block-workers.js'
import { DeviceMemory } from './device-memory.js'
import { KernelLaunch } from './launch.js'
import { type CodeOptions, PtxModule } from './ptx.js'

/** The most ranges of accesses that a worker reports: accesses more scattered than this cost more than other cores save. */
const MOST_RANGES = 1 << 17

export class BlockMachine {
  readonly #memory = new DeviceMemory()
  readonly #modules = new Map<
    number,
    { readonly module: PtxModule; readonly kernel: string; readonly options: CodeOptions }
  >()

  load(id: number, { text, kernel, addresses, inStep }: WorkerKernel): void {
    const allocate = (_byteLength: number, _alignment: number, name: string): number => {
      const address = addresses.get(name)
      if (address === undefined) throw new Error(`Nobody gave the variable '${name}' an address`)
      return address
    }
    // The text was checked where it was loaded: only what the kernel reaches is read here.
    const module = new PtxModule(text, { memory: this.#memory, allocate }, false)
    const options = { recorded: true, ...(inStep === undefined ? {} : { inStep }) }
    module.code(kernel, options)
    // The memory of these addresses comes with each task. Until then they may belong to another simulation, for which this thread works, too.
    for (const address of addresses.values()) this.#memory.remove(address)
    this.#modules.set(id, { module, kernel, options })
  }

  unload(id: number): void {
    this.#modules.get(id)?.module.close()
    this.#modules.delete(id)
  }

  /** Takes blocks and runs them until none is left. Throws what the kernel does wrong; then other workers take no more. */
  run(id: number, task: BlockTask): BlockResult {
    const next = new Int32Array(task.shared, 0, 1)
    const loaded = this.#modules.get(id)
    const memory = this.#memory
    for (const { begin, byteLength, at } of task.memory) {
      memory.remove(begin)
      memory.add(begin, byteLength, { load: (into) => into.set(new Uint8Array(task.shared, at, byteLength)) })
    }
    try {
      if (loaded === undefined) throw new Error('The kernel was not loaded')
      const { configuration, gridId, instructionLimit, end, step } = task
      const code = loaded.module.code(loaded.kernel, loaded.options)
      const launch = new KernelLaunch(code, configuration, {
        gridId,
        instructionLimit,
        print: cannotTell,
        setConditional: cannotTell,
      })
      for (;;) {
        const begin = Atomics.add(next, 0, step)
        if (begin >= end) break
        launch.runBlocks(begin, Math.min(begin + step, end))
      }
      launch.close()
      return this.#resultOf(launch)
    } catch (error) {
      Atomics.store(next, 0, task.end)
      throw error
    } finally {
      for (const { begin } of task.memory) memory.remove(begin)
    }
  }

  #resultOf(launch: KernelLaunch): BlockResult {
    const all = launch.accesses()
    const ranges = all.reduce((sum, { reads, writes }) => sum + reads.length + writes.length, 0)
    if (ranges > MOST_RANGES) throw new Error('The kernel accesses memory in too many places')
    const lengths = all.flatMap(({ writes }) => writes.map(({ from, to }) => to - from))
    const written = new Uint8Array(lengths.reduce((sum, each) => sum + each, 0))
    let at = 0
    for (const { writes } of all) {
      for (const { from, to } of writes) {
        written.set(this.#memory.contents(from, to - from) ?? [], at)
        at += to - from
      }
    }
    const accesses = all.map(({ block, reads, writes }) => ({
      begin: block,
      reads: pairs(reads),
      writes: pairs(writes),
    }))
    return { ...launch.effort, accesses, written }
  }
}

const pairs = (ranges: readonly { readonly from: number; readonly to: number }[]): Float64Array =>
  Float64Array.from(ranges.flatMap(({ from, to }) => [from, to]))

/** Throws, since a worker cannot print or set the value of a condition: the output of blocks must come in their order. */
function cannotTell(): never {
  throw new Error('A worker can tell nothing before the launch is over')
}
