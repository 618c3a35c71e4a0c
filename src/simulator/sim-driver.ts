/** The simulated GPU behind the Driver interface, in one file for each part. The machine runs the operations. */

import { VARIABLES } from '../foundation/base/environment-variables.js'
import { CUresult } from '../foundation/driver/cuda-results.js'
import type { Driver } from '../foundation/driver/driver.js'
import type { StreamHandle } from '../foundation/driver/handle-types.js'
import type { InStep } from '../ptx/ptx.js'
import { CaptureRules } from './capture-rules.js'
import { type ComputeCapability, DEFAULT_COMPUTE_CAPABILITY, parseComputeCapability } from './compute-capability.js'
import { Ranges, rangeOf } from './handles.js'
import { availableCores } from './launch-workers.js'
import { defaultMemory } from './limits.js'
import { FaultPlan } from './machine/fault-plan.js'
import { HostWaits } from './machine/host-waits.js'
import { Machine } from './machine/machine.js'
import type { SimStream } from './machine/machine-state.js'
import type { Scheduler, Steps } from './machine/scheduler.js'
import { TimedScheduler } from './machine/timed-scheduler.js'
import { Registry } from './registry.js'
import type { OtherMachines } from './shared/process-words.js'
import { SimDevices } from './sim-devices.js'
import { SimEvents } from './sim-events.js'
import { SimGraphs } from './sim-graphs.js'
import { SimKernels } from './sim-kernels.js'
import { SimLibraries } from './sim-libraries.js'
import { SimMemory } from './sim-memory.js'
import { SimPools } from './sim-pools.js'
import { SimQueue } from './sim-queue.js'
import { SimSharing } from './sim-sharing.js'
import { SimStreams } from './sim-streams.js'
import { SimTextures } from './sim-textures.js'
import { SimWork } from './sim-work.js'
import { SourceFiles } from './source-files.js'

export interface SimDriverOptions {
  readonly devices: number
  /** The seed of the allowed orders. With 0, effects on memory are put off, and nothing else is left to chance. */
  readonly seed: number
  /** The bytes of each device. Default: a part of this machine's memory. */
  readonly memory?: number | undefined
  /** The most instructions of a launch. Default: as the environment says; 0: by the number of its threads. */
  readonly instructions?: number | undefined
  /** The compute capability of the devices. Default: as the environment says. */
  readonly computeCapability?: ComputeCapability | undefined
  /** The accesses at which lanes of a warp go in step. Default: as the environment says. */
  readonly inStep?: InStep | undefined
  /** The folder with the sources of kernels, if these are to be stepped through; empty: they are not. Default: as the environment says. */
  readonly sourceMaps?: string | undefined
  /** The seed of the faults that are random. Default: `seed`. */
  readonly faultSeed?: number
  /** Makes the scheduler that takes the place of virtual time, and of the seed. */
  readonly scheduler?: (steps: Steps) => Scheduler
  /** The ranges of handles and addresses: an exploration runs one simulation after the other in the same ranges. */
  readonly ranges?: Ranges
}

const drivers = new Map<number, WeakRef<SimDriver>>()

/** Gives the ranges of a simulation to others once it is unreachable. */
const unreachable = new FinalizationRegistry(({ ranges, others }: { ranges: Ranges; others: OtherMachines }) => {
  ranges.giveBack()
  others.leave()
})

/** The files that kernels are stepped through in; undefined if they are not. */
function sourceFiles(folder: string): SourceFiles | undefined {
  return folder === '' ? undefined : new SourceFiles(folder)
}

/** The simulator that the handle belongs to, if any. */
export function simulatorOfHandle(handle: number): SimDriver | undefined {
  return drivers.get(rangeOf(handle))?.deref()
}

export class SimDriver implements Driver {
  readonly name = 'sim'
  readonly devices: SimDevices
  readonly streams: SimStreams
  readonly events: SimEvents
  readonly work: SimWork
  readonly memory: SimMemory
  readonly pools: SimPools
  readonly kernels: SimKernels
  readonly graphs: SimGraphs
  readonly libraries: SimLibraries
  readonly sharing: SimSharing
  readonly textures: SimTextures
  readonly queue: SimQueue
  readonly machine: Machine
  readonly seed: number
  readonly #registry: Registry
  readonly #waits: HostWaits

  constructor(options: SimDriverOptions) {
    const { seed, devices, memory = defaultMemory(devices), faultSeed = seed, ranges = new Ranges() } = options
    this.seed = seed
    const computeCapability =
      options.computeCapability ??
      parseComputeCapability(VARIABLES.simComputeCapability.read()) ??
      DEFAULT_COMPUTE_CAPABILITY
    const scheduler = options.scheduler ?? ((steps) => new TimedScheduler(steps, seed))
    this.machine = new Machine(scheduler, new FaultPlan(faultSeed))
    if (options.ranges === undefined) unreachable.register(this, { ranges, others: this.machine.others })
    const captures = new CaptureRules(this.machine.others)
    this.#registry = new Registry(this.machine, ranges, devices, memory)
    this.machine.devices = this.#registry.devices
    this.#waits = new HostWaits(this.machine, SimDriver.#allWaits)
    // The closure lets the machine keep its driver reachable: while work is pending, no other driver takes its handles.
    this.machine.onWork = () => this.#waits.wake()
    drivers.set(rangeOf(this.#registry.handles.base), new WeakRef(this))
    const takeAddresses = (byteLength: number): number => this.#takeAddresses(ranges, byteLength)
    const [machine, registry, waits] = [this.machine, this.#registry, this.#waits]
    const queue = new SimQueue(machine, registry, captures)
    this.queue = queue
    this.pools = new SimPools(registry)
    this.memory = new SimMemory(machine, registry, queue, this.pools, takeAddresses)
    this.sharing = new SimSharing(machine, registry, this.memory, captures)
    this.textures = new SimTextures(machine, registry, this.memory)
    this.kernels = new SimKernels(this.memory, queue, registry, captures, waits, {
      seed,
      instructions: options.instructions ?? VARIABLES.simInstructions.read(),
      cores: VARIABLES.simCores.read() || availableCores(),
      inStep: options.inStep ?? VARIABLES.simInStep.read(),
      sources: sourceFiles(options.sourceMaps ?? VARIABLES.simSourceMaps.read()),
      setConditional: (condition, value) => this.machine.setCondition(condition, value),
      computeCapability,
      textures: this.textures,
    })
    this.graphs = new SimGraphs(machine, captures, registry, this)
    this.libraries = new SimLibraries(this.kernels, registry, captures, waits)
    this.devices = new SimDevices(machine, registry, captures, waits, queue, computeCapability)
    this.streams = new SimStreams(machine, registry, captures, waits, queue)
    this.events = new SimEvents(machine, registry, captures, waits, queue, this.sharing)
    this.work = new SimWork(machine, registry, captures, waits, queue, this)
  }

  /** The waits of each simulator that is reachable. */
  static *#allWaits(): Generator<HostWaits> {
    for (const driver of new Set([...drivers.values()].map((each) => each.deref()))) {
      if (driver !== undefined) yield driver.#waits
    }
  }

  /** Leaves all that is pending as it is, forever: nothing settles, nothing runs, and nothing keeps the process alive. */
  abandon(): void {
    this.#waits.abandon()
  }

  /** Destroys every context: pending work is dropped, and all later use fails. */
  close(): void {
    if (this.#registry.devices.every((device) => device.fault === 0)) this.machine.break(CUresult.CONTEXT_IS_DESTROYED)
  }

  /** The stream behind a handle; the lookup takes no virtual time. */
  peek(handle: StreamHandle): SimStream | undefined {
    return this.#registry.peekStream(handle)
  }

  /** The numbers of objects and bytes, for tests that look for leaks. */
  get counts(): { readonly streams: number; readonly events: number; readonly bytes: number } {
    return { ...this.#registry.counts, bytes: this.memory.bytesUsed }
  }

  #takeAddresses(ranges: Ranges, byteLength: number): number {
    const { base, numbers } = ranges.take(byteLength)
    for (const range of numbers) drivers.set(range, new WeakRef(this))
    return base
  }
}
