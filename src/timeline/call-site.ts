/** Where in the program a call came from. It costs several microseconds, so it is only asked for on demand. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { takeStack } from '../base/stack.js'

/** The directory of this package's own code. */
const OWN = dirname(dirname(fileURLToPath(import.meta.url)))
const FRAMES = 24

/** The innermost place outside this package, as 'path:line:column'; nothing where there is none. */
export function callSite(): string {
  for (const line of takeStack(FRAMES).split('\n').slice(1)) {
    const place = /\(?((?:file:\/\/|\/|[A-Za-z]:\\)[^()]*:\d+:\d+)\)?$/.exec(line)?.[1]
    if (place === undefined) continue
    const path = place.startsWith('file://') ? decodeURI(place.slice('file://'.length)) : place
    if (!path.startsWith(OWN)) return path
  }
  return ''
}
