/** The page: a template, and the data in it. */
import { deflateToBase64 } from '#platform'
import { printable } from '../base/printable.js'
import { encodePage, type PageData } from './page-format.js'
import { TEMPLATE } from './page-template.js'

const DATA = '"DATA"'
const TITLE = '{{title}}'

export function toHtml(data: PageData): string {
  const bytes = deflateToBase64(encodePage(data))
  return TEMPLATE.replaceAll(TITLE, () => escaped(data.title)).replace(DATA, () => bytes)
}

/** For XML too, in which control characters have no way to be written. */
export function escaped(text: string): string {
  return printable(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
