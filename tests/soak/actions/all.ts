/** All that clients play, and how often. */
import type { Action } from '../client.js'
import { burstActions } from './bursts.js'
import { graphActions } from './graphs.js'
import { kernelActions } from './kernels.js'
import { libraryActions } from './libraries.js'
import { memoryActions } from './memory.js'
import { mistakeActions } from './mistakes.js'
import { streamActions } from './streams.js'

export const ACTIONS: readonly Action[] = [
  ...memoryActions,
  ...kernelActions,
  ...libraryActions,
  ...streamActions,
  ...graphActions,
  ...burstActions,
  ...mistakeActions,
]
