/** All entries but those of tools.ts: a page can load these. */
import { aboutLibraries } from '../libraries/about-libraries.js'
import type { Call } from './call.js'
import { dlpackCalls } from './dlpack.js'
import { eventCalls } from './events.js'
import { graphCalls } from './graphs.js'
import { kernelCalls } from './kernels.js'
import { memoryCalls } from './memory.js'
import { ncclCalls } from './nccl.js'
import { orderCalls } from './order.js'
import { simCalls } from './simulator.js'
import { streamCalls } from './streams.js'

export const calls: readonly Call[] = [
  ...[...streamCalls, ...orderCalls, ...memoryCalls, ...eventCalls, ...graphCalls, ...kernelCalls],
  ...[...aboutLibraries.flatMap((library) => library.calls), ...dlpackCalls, ...ncclCalls, ...simCalls],
]
