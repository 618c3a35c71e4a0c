/** cuda-streams/sim: the simulated machine, and operations for tests that a GPU does not offer. */
// Devices and streams of a simulation have all their methods, also if the main entry point is not imported.
import '../core/shortcuts.js'

export {
  busy,
  type CallFault,
  destroyForeignStream,
  type FailingCall,
  type Fault,
  fault,
  foreignStream,
  type Latch,
  latch,
  type OperationFault,
  type Simulation,
  type SimulationOptions,
  simulate,
  simulationOf,
} from '../core/simulation.js'
export type { KernelProfile, LineProfile } from '../foundation/driver/kernel-profile.js'
export type { Disagreement, Exploration, Order } from '../tools/explore/exploration.js'
export {
  type ExploreOptions,
  type ExploreProgress,
  explore,
  type ReplayOptions,
  replay,
  type Strategy,
} from '../tools/explore/explore.js'
export type { ExploredProgram, Outcome } from '../tools/explore/run.js'
export type { Schedule } from '../tools/explore/search.js'
