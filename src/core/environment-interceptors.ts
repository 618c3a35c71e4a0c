/** The interceptors that environment variables put in front of the default driver. */
import { VARIABLES } from '../foundation/base/environment-variables.js'
import { stateError } from '../foundation/base/errors.js'
import { loadEsModule } from '../foundation/base/load-es-module.js'
import { process } from '../foundation/base/node-modules.js'
import type { WrappableDriver } from '../foundation/driver/wrappable-driver.js'

/** Puts the interceptor in front of the driver, as the value of the variable says. */
type PutIn = (driver: WrappableDriver, value: string) => void

/** The files that provide the interceptors. They are loaded only where the variable is set, or by their entry point. */
const FILES = [
  [VARIABLES.sanitizer, '../tools/sanitizer/sanitizer-variable.js'],
  [VARIABLES.timeline, '../tools/timeline/timeline-variable.js'],
  [VARIABLES.record, '../tools/recording/recording-variable.js'],
  [VARIABLES.trace, '../tools/recording/trace-variable.js'],
] as const
const provided = new Map<string, PutIn>()
const done = new Set<string>()

/** Called by the files of `FILES` when they are loaded. */
export function provideInterceptor(variable: string, putIn: PutIn): void {
  provided.set(variable, putIn)
}

export function interceptAsEnvironmentSays(driver: WrappableDriver): void {
  for (const [variable, file] of FILES) {
    const { name } = variable
    const value = variable.read()
    if (value === '' || done.has(name)) continue
    if (!provided.has(name)) load(name, file)
    provided.get(name)?.(driver, value)
    done.add(name)
  }
}

function load(variable: string, file: string): void {
  try {
    const require = process.getBuiltinModule('node:module').createRequire(import.meta.url)
    loadEsModule({ require, from: import.meta.url }, file, `what ${variable} needs`)
  } catch (error) {
    if (!(error instanceof Error) || Reflect.get(error, 'code') !== 'MODULE_NOT_FOUND') throw error
    const entryPoint = `cuda-streams/${file.split('/')[2]}`
    const wayOut = `import '${entryPoint}' in the program that is bundled, or leave the variable unset`
    throw stateError('ERR_UNSUPPORTED', `${variable} is set, but this bundle lacks the code for it: ${wayOut}`, error)
  }
}
