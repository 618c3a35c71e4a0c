/** Where a program called the library. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { takeStack } from '../base/stack.js'

/** 'file:line', or 'file:line (from file:line)'. */
export type CallSite = string

const library = dirname(dirname(fileURLToPath(import.meta.url)))

/** Calls inside the library are seldom more than ten deep. */
const DEEPEST = 40

/** The innermost caller that is not of this library, and who called that; undefined where there is none, as in the event loop. */
export function siteOfCaller(): CallSite | undefined {
  const sites: CallSite[] = []
  for (const line of takeStack(DEEPEST).split('\n').slice(1)) {
    // What runs the program is no part of it.
    if (line.includes(' at async ')) break
    const [, file, row] = /(?:\(|at )((?:file:\/\/)?\/[^():]*):(\d+):\d+\)?$/.exec(line) ?? []
    if (file === undefined || row === undefined) continue
    const path = file.startsWith('file:') ? fileURLToPath(file) : file
    if (!path.startsWith(library)) sites.push(`${shortened(path)}:${row}`)
    else if (sites.length > 0) break
  }
  const [innermost, caller] = sites
  return innermost === undefined || caller === undefined ? innermost : `${innermost} (from ${caller})`
}

function shortened(path: string): string {
  const here = `${process.cwd()}/`
  return path.startsWith(here) ? path.slice(here.length) : path
}
