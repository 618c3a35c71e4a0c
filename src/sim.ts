/** The door of the simulated machine: what a test needs that a GPU does not offer. */
// Devices and streams of a simulation have all their methods, also where the main entry point is not imported.
import './shortcuts.js'

export type { Disagreement, Exploration, Order } from './explore/exploration.js'
export {
  type ExploreOptions,
  type ExploreProgress,
  explore,
  type ReplayOptions,
  replay,
  type Strategy,
} from './explore/explore.js'
export type { ExploredProgram, Outcome } from './explore/run.js'
export type { Schedule } from './explore/search.js'
export type { CallFault, FailingCall, Fault, OperationFault } from './simulation/faults.js'
export {
  busy,
  destroyForeignStream,
  fault,
  foreignStream,
  latch,
  type Simulation,
  type SimulationOptions,
  simulate,
  simulationOf,
} from './simulation/simulation.js'
