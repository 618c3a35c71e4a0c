/** The interceptors that environment variables put in front of the default driver. */
import { stateError } from '../base/errors.js'
import type { WrappableDriver } from './wrappable-driver.js'

/** Puts the interceptor in front of the driver, as the value of the variable says. */
type PutIn = (driver: WrappableDriver, value: string) => void

/** The files that provide the interceptors. They are loaded only where the variable is set, or by their entry point. */
const FILES: Readonly<Record<string, string>> = {
  CUDA_STREAMS_SANITIZER: '../sanitizer/sanitizer-variable.js',
  CUDA_STREAMS_TIMELINE: '../timeline/timeline-variable.js',
}
const provided = new Map<string, PutIn>()
const done = new Set<string>()

/** To be called by those files when they are loaded. */
export function provideInterceptor(variable: string, putIn: PutIn): void {
  provided.set(variable, putIn)
}

export function interceptAsEnvironmentSays(driver: WrappableDriver): void {
  for (const [variable, file] of Object.entries(FILES)) {
    const value = process.env[variable]
    if (value === undefined || value === '' || value === '0' || done.has(variable)) continue
    if (!provided.has(variable)) load(variable, file)
    provided.get(variable)?.(driver, value)
    done.add(variable)
  }
}

function load(variable: string, file: string): void {
  try {
    process.getBuiltinModule('node:module').createRequire(import.meta.url)(file)
  } catch (error) {
    if (!(error instanceof Error) || Reflect.get(error, 'code') !== 'MODULE_NOT_FOUND') throw error
    const entryPoint = `cuda-streams/${file.split('/')[1]}`
    const wayOut = `import '${entryPoint}' in the program that is bundled, or leave the variable unset`
    throw stateError('ERR_UNSUPPORTED', `${variable} is set, but this bundle lacks the code for it: ${wayOut}`, error)
  }
}
