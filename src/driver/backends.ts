/**
 * The two backends, each loaded when it is first asked for: most of the library's code is one or the other. In a bundle
 * backends-in-bundle.ts takes this file's place, by the condition `module` in package.json.
 */
import { createRequire } from 'node:module'

const load = createRequire(import.meta.url)

export const cudaBackend = (): typeof import('./cuda/open.js') => load('./cuda/open.js')
export const simulatedBackend = (): typeof import('./sim/sim-driver.js') => load('./sim/sim-driver.js')
