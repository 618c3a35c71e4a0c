/** What a page has in it. */
import { inflateSync } from 'node:zlib'
import { decodePage, type PageData } from '../../../src/tools/timeline/page-format.js'

export function dataOfPage(page: string): PageData {
  const [, text = ''] = /<script id="data"[^>]*>([^<]*)</.exec(page) ?? []
  return decodePage(inflateSync(Buffer.from(text, 'base64')))
}
