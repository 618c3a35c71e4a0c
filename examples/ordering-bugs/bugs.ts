/** Twenty-six programs whose result depends on an order that nothing promises, each with its fixed version. */
import { graphs } from './graphs.js'
import { host } from './host.js'
import { memory } from './memory.js'
import type { OrderingBug } from './scene.js'
import { waits } from './waits.js'

export type { OrderingBug, Program } from './scene.js'

export const bugs: readonly OrderingBug[] = [...waits, ...memory, ...host, ...graphs]
