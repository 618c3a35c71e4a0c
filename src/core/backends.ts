/**
 * The two backends, each loaded at its first use, because they are most of the library's code. In a bundle
 * backends-in-bundle.ts takes the place of this file, by the condition `module` in package.json.
 */
import { createRequire } from 'node:module'
import { loadEsModule } from '../foundation/base/load-es-module.js'

const require = createRequire(import.meta.url)

/** @throws ERR_UNSUPPORTED where ES modules cannot be loaded without waiting */
const load = (file: string, plainly: () => ReturnType<typeof require>): ReturnType<typeof require> =>
  loadEsModule({ require, from: import.meta.url }, file, 'its drivers', plainly)

export const cudaBackend = (): typeof import('../cuda/open.js') =>
  load('../cuda/open.js', () => require('../cuda/open.js'))
export const simulatedBackend = (): typeof import('../simulator/sim-driver.js') =>
  load('../simulator/sim-driver.js', () => require('../simulator/sim-driver.js'))
