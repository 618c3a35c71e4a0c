/** What a launch has, of a kernel and of a node of a graph. */
import type { LaunchConfig } from 'cuda-streams'
import { CONFIG } from './adding.js'
import { WORDS } from './lab.js'
import type { Scene } from './scene.js'

export const ADDED = 5

export const addedTo = {
  name: 'operand',
  becomes: (scene: Scene, times: number) => scene.wordBefore(0) + times * ADDED,
}

export const FULL_CONFIG: LaunchConfig = {
  ...CONFIG,
  programmatic: false,
  priority: 0,
  sharedMemoryCarveout: 50,
  memorySyncDomain: 'default',
}

/** A launch has all of these: together they are the full configuration. */
export const LAUNCH_OPTIONS = {
  grid: () => 1,
  threads: () => undefined,
  block: () => WORDS,
  sharedMemory: () => 0,
  cooperative: () => false,
  cluster: () => undefined,
  programmatic: () => false,
  priority: () => 0,
  sharedMemoryCarveout: () => 50,
  memorySyncDomain: () => 'default' as const,
  clusterScheduling: () => undefined,
  preferredCluster: () => undefined,
}
