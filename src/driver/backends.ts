/**
 * The two backends, each loaded at its first use, because they are most of the library's code. In a bundle
 * backends-in-bundle.ts takes the place of this file, by the condition `module` in package.json.
 */
import { createRequire } from 'node:module'
import { stateError } from '../base/errors.js'
import { loadEsModule } from '../base/load-es-module.js'

const require = createRequire(import.meta.url)

/** @throws ERR_UNSUPPORTED where ES modules cannot be loaded without waiting */
function load(file: string): ReturnType<typeof require> {
  try {
    return loadEsModule(require, file, import.meta.url)
  } catch (error) {
    if (!/REQUIRE_ESM/.test(Reflect.get(Object(error), 'code'))) throw error
    const wayOut = "With Jest, set `setupFiles: ['cuda-streams/jest']` in its configuration, or use Node 24.9 or later"
    throw stateError(
      'ERR_UNSUPPORTED',
      `cuda-streams loads its drivers by require(), which cannot load ES modules here. ${wayOut}`,
      error,
    )
  }
}

export const cudaBackend = (): typeof import('./cuda/open.js') => load('./cuda/open.js')
export const simulatedBackend = (): typeof import('./sim/sim-driver.js') => load('./sim/sim-driver.js')
