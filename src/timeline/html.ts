/** The page: a template that the build has put together (scripts/build-page.mjs), and the data in it. */
import { readFileSync } from 'node:fs'
import type { Analysis } from './analysis.js'
import { pageData } from './page-data.js'
import type { Trace } from './trace.js'

const DATA = '"DATA"'
const TITLE = '{{title}}'

export function toHtml(trace: Trace, analysis: Analysis, title: string): string {
  const template = readFileSync(new URL('./page.html', import.meta.url), 'utf8')
  // Nothing in the data may end the element that it stands in.
  const data = JSON.stringify(pageData(trace, analysis, title)).replaceAll('<', '\\u003c')
  return template.replaceAll(TITLE, () => escaped(title)).replace(DATA, () => data)
}

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
