/** The imports of a file of src, as the layering rules and the faces of the wings look at them. */
import { dirname, join, normalize } from 'node:path'

export interface Import {
  readonly from: string
  readonly to: string
  /** The compiler removes it. */
  readonly ofTypes: boolean
}

const STATEMENT =
  /^(?:import|export)(?<types> type)?\s[^;'"]*?from '(?<named>\.[^']+)'|^import '(?<effect>\.[^']+)'|\bimport\('(?<called>\.[^']+)'\)/gm

export function importsOf(from: string, text: string): readonly Import[] {
  return [...text.matchAll(STATEMENT)].map(({ groups = {} }) => {
    const path = groups['named'] ?? groups['effect'] ?? groups['called'] ?? ''
    const to = normalize(join(dirname(from), path))
      .replaceAll('\\', '/')
      .replace(/\.js$/, '.ts')
    return { from, to, ofTypes: groups['types'] !== undefined }
  })
}
