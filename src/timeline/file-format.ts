/** The files that a timeline is saved as, by their extensions. */
import { gzip } from '#platform'
import { invalidValue } from '../base/errors.js'

const KNOWN = /\.(html|htm|json|svg|txt)$|\.(json)\.gz$/i

/** `option` names what the path was given as. */
export function checkExtension(path: string, option: string): { readonly kind: string; readonly extension: string } {
  const [extension = '', plain, compressed = ''] = KNOWN.exec(path) ?? []
  if (extension === '') throw invalidValue(`${option} must end in .html, .json, .json.gz, .svg or .txt, not '${path}'`)
  return { kind: (plain ?? compressed).toLowerCase(), extension }
}

/** What stands in the file. */
export const contentsOf = (path: string, text: string): string | Uint8Array =>
  path.toLowerCase().endsWith('.gz') ? gzip(text) : text
