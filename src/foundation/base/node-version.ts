/** Refuses to be imported by a Node that is too old, before anything fails for a reason that says nothing of that. */
import { stateError } from './errors.js'
import { process } from './node-modules.js'

/** The first versions whose `require()` loads ES modules, which are those in `engines` of package.json. */
const LEAST = { 20: 19, 22: 12 } as const

/** @throws ERR_UNSUPPORTED for a version of Node, such as 'v18.20.8', that is too old */
export function checkNodeVersion(version: string): void {
  const [major = 0, minor = 0] = version.replace('v', '').split('.').map(Number)
  if (major > 22 || (major === 22 && minor >= LEAST[22]) || (major === 20 && minor >= LEAST[20])) return
  throw stateError(
    'ERR_UNSUPPORTED',
    `cuda-streams needs Node 20.${LEAST[20]}, or 22.${LEAST[22]} or later, and this is ${version}: install a newer one, from https://nodejs.org`,
  )
}

// Bun and Deno say which version of Node they resemble, and a page has none.
if (process.release?.name === 'node' && !('bun' in process.versions) && !('deno' in process.versions)) {
  checkNodeVersion(process.version)
}
